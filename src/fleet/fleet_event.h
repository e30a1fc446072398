// The messages between FleetCore and the loop that executes it: events that happen to a fleet, and
// actions that it wants done. Plain data.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "fleet/fleet_spec.h"
#include "fleet/sleep_mode.h"
#include "request/request.h"

namespace causeway::fleet {

// A request has come. Its server has validated it and keeps its body; the core knows the request by
// its id.
struct RequestArrived {
  RequestId request;
  ModelId model;
  request::Slo slo = {};
  Nanos arrival;
  bool only_ready = false;  // refuse it unless its model serves already; load nothing for it
};
// Asks of the operator. Each ask is answered once, by Answered. Ids of asks differ from those of
// requests, and RequestCancelled takes an ask back if it has not begun.
struct LoadAsked {  // answered when the model serves; other models leave for it as for a request
  RequestId ask;
  ModelId model;
};
struct UnloadAsked {  // answered when the model has left, or at once if it cannot leave
  RequestId ask;
  ModelId model;
  bool keeps_home = false;  // the model leaves its slices and stays in host memory
};
struct PinAsked {  // does not change where the model is
  RequestId ask;
  ModelId model;
  bool pinned = false;  // false: the pin is removed
};
// Every model is to leave, as by UnloadAsked, once the requests that `mode` names have ended,
// unless it cannot leave. These models are then asleep. Loads that were asked for do not count as
// requests.
struct SleepAsked {
  RequestId ask;
  bool keeps_home = false;
  SleepMode mode = SleepMode::kIdle;
};
// The sleeping models are wanted again, as by ModelWanted. Answered at once.
struct WakeAsked {
  RequestId ask;
};
// The folder of models is to be read again. Answered when the models that are no longer in it have
// left, as far as they can; ModelKept says why others stay. Refused while the folder is being read
// already, or while slices change.
struct ReloadAsked {
  RequestId ask;
};
struct RequestCancelled {
  RequestId request;
};
// The slice of the request has delivered its finished output, or did not take it. When the request
// is held again because its slice was lost, this says that it had ended before the loss.
struct RequestEnded {
  RequestId request;
};
// The answer to Withdraw, unless the request has ended: the slice has given the request back, and
// it continues elsewhere.
struct RequestWithdrawn {
  RequestId request;
};
// The model is to be loaded ahead of requests, as far as no other model has to leave for it.
struct ModelWanted {
  ModelId model;
};
// How much host memory there is for weights.
struct HostRoom {
  Bytes needed;  // by the model that was measured
  Bytes used;    // by the models in host memory
  Bytes budget;
};
// The answers to the loader's actions. Each names the model of its action.
struct Measured {
  ModelId model;
  Result<HostRoom> room;  // an error: the model cannot be served, whatever room there is
};
struct LoadEnded {
  ModelId model;
  Result<Bytes> crosses;  // the bytes that cross the link at every step
};
struct UnloadEnded {
  ModelId model;
  // An error: the slice that serves the model has not released it, and serves it again.
  Status gone;
};
struct DropEnded {
  ModelId model;
};
// The slice is lost, with everything on it. Its requests are routed again or refused. Some of them
// may have ended before; RequestEnded still says so afterwards.
struct SliceLost {
  SliceId slice;
  // The requests that may have caused the loss: those in the step that ran. The others were
  // waiting.
  std::vector<RequestId> suspects = {};
};
// A slice has come back, with no models attached.
struct SliceReturned {
  SliceId slice;
};
// These slices are to be closed, all at once, and others opened in their place. New requests for
// them are held from now on. Running requests have `drain_max` to end; after that they continue
// elsewhere or on the new slices. No effect while anything is loaded or unloaded, or slices change
// already: FleetCore::resizing() tells whether the change has begun, and the caller asks again.
struct ResizeWanted {
  std::vector<SliceId> slices;  // open slices, at least one
  Nanos drain_max;
};
struct OpenedSlice {
  SliceId slice;  // the id of a closed slice, or the next unused id
  SliceSpec spec;
};
// The answer to Resize. Fewer slices may be open than before, or none.
struct SlicesChanged {
  std::vector<OpenedSlice> opened;
};
// A model that the catalogue now has. A new model has the next id; one that had been removed is
// back under its former id. It is in no memory, and has no requests.
struct FoundModel {
  ModelId model;
  ModelSpec spec;
};
struct CatalogueNews {
  std::vector<FoundModel> found;
  std::vector<ModelId> gone;  // models whose folders are gone
};
// The answer to Reread. After an error nothing changes.
struct CatalogueRead {
  Result<CatalogueNews> news;
};
// The loader's present task shows no sign of life, for the given reason. Until the loader's next
// answer only models that serve already are served.
struct LoaderStalled {
  Error why;
};
// What was seen of a link since the last such event: bytes of weights that have crossed it, and for
// how long some were on their way. It is told every second or so, also when nothing crossed; the
// placement then counts with what the link gives (rate_meter.h). No measurement is wrong: what
// cannot be is left out.
struct LinkSeen {
  LinkId link;
  Bytes moved;
  Nanos busy;
};
// The fleet stops for good: held requests end, and new ones are refused.
struct Stopped {};
// The time of next_wakeup() has come.
struct Woken {};

using Event =
    std::variant<RequestArrived, RequestCancelled, RequestEnded, RequestWithdrawn, ModelWanted,
                 Measured, LoadEnded, UnloadEnded, DropEnded, SliceLost, SliceReturned,
                 ResizeWanted, SlicesChanged, LoaderStalled, LinkSeen, Stopped, Woken, LoadAsked,
                 UnloadAsked, PinAsked, SleepAsked, WakeAsked, ReloadAsked, CatalogueRead>;

// Hands the request to the slice, which ends it unless the slice is lost. A request of a lost slice
// may be routed again, and continues after the part of its answer that was delivered.
struct Route {
  RequestId request;
  SliceId slice;
  // Zero: the model is expected to keep its targets. Otherwise it is served by best effort: the
  // demands on the slice or its link exceed their limits, and this is the expected time per token,
  // which exceeds the target.
  Nanos predicted_tpot = {};
};
struct CancelOn {
  RequestId request;
  SliceId slice;
};
// Has the slice give the request back: it ends there with the tokens that it has.
struct Withdraw {
  RequestId request;
  SliceId slice;
};
// Ends a request that is on no slice.
struct Refuse {
  RequestId request;
  request::FinishReason reason = request::FinishReason::kError;
  Error error;
};
// An ask has ended. kInvalidArgument: the kind or the state of the model does not allow it.
struct Answered {
  RequestId ask;
  Status result;
};
// For the operator: the model could not be loaded.
struct LoadFailed {
  ModelId model;
  Error error;
};
// The model is not served any more: from now on its requests and asks are refused (kNotFound).
struct ModelRemoved {
  ModelId model;
};
// The model's folder is gone, but the model is still served, because of a request, a pin or a
// slice.
struct ModelKept {
  ModelId model;
  Error why;
};
// The actions from here on are answered by one event each.
struct Measure {
  ModelId model;
};
struct Load {
  ModelId model;
  SliceId slice;
};
struct Unload {
  ModelId model;
  // The slices where it is attached; the one that serves it comes last.
  std::vector<SliceId> slices;
  bool drop = false;  // it leaves host memory, too
  ModelId taker;      // the model for which it leaves; invalid: it leaves because of an ask
};
// Removes the model from host memory. It may still be attached where an unload was not completed.
struct Drop {
  ModelId model;
};
// Closes slices, with everything attached to them, and opens others. Requests on the closed slices
// that have not ended are routed again; from this action on their old slices have no claim on them.
struct Resize {
  std::vector<SliceId> closing;
};
// Reads the folder of models.
struct Reread {};

using Action = std::variant<Route, CancelOn, Withdraw, Refuse, Answered, LoadFailed, ModelRemoved,
                            ModelKept, Measure, Load, Unload, Drop, Resize, Reread>;

}  // namespace causeway::fleet
