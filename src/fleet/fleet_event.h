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

// A request that its server has validated, and holds: the core knows it by this.
struct RequestArrived {
  RequestId request;
  ModelId model;
  request::Slo slo = {};
  Nanos arrival;
  bool only_ready = false;  // refused unless its model serves: it wakes none
};
// The operator asks for something. Each is answered once, by Answered; ids are unlike
// those of requests, and RequestCancelled takes one back, as far as it has not begun.
struct LoadAsked {  // answered once the model serves; others give way as they do for a request
  RequestId ask;
  ModelId model;
};
struct UnloadAsked {  // answered once it is gone, or at once if it cannot go
  RequestId ask;
  ModelId model;
  bool keeps_home = false;  // off its slices alone: it stays in host memory
};
struct PinAsked {  // changes nothing of where the model is
  RequestId ask;
  ModelId model;
  bool pinned = false;  // or no longer
};
// Every model that can go once the requests of `mode` have ended is to go, as by UnloadAsked. These
// models are known as sleeping. Loads that are asked for are no requests.
struct SleepAsked {
  RequestId ask;
  bool keeps_home = false;
  SleepMode mode = SleepMode::kIdle;
};
// The sleeping models are wanted, as by ModelWanted. It is answered at once.
struct WakeAsked {
  RequestId ask;
};
// The folder of models is to be read again. Answered once what is no longer there has left, as far
// as it can go: of what stays ModelKept says why. Refused while it is being read already, or while
// slices change.
struct ReloadAsked {
  RequestId ask;
};
struct RequestCancelled {
  RequestId request;
};
// The slice to which it was routed has delivered its finished output, or did not take it. Of one
// that is held again because its slice was lost: it had ended before.
struct RequestEnded {
  RequestId request;
};
// The answer to Withdraw, unless the request has ended: its slice has it no longer, and it goes on
// elsewhere.
struct RequestWithdrawn {
  RequestId request;
};
// To be loaded ahead of its requests, as far as nothing gives way for it.
struct ModelWanted {
  ModelId model;
};
// How much host memory there is for weights.
struct HostRoom {
  Bytes needed;  // by one model
  Bytes used;    // by those that are there
  Bytes budget;
};
// The answers to actions of the loader. Each carries the model of its action.
struct Measured {
  ModelId model;
  Result<HostRoom> room;  // an error: it cannot be served, whatever room there is
};
struct LoadEnded {
  ModelId model;
  Result<Bytes> crosses;  // at every step
};
struct UnloadEnded {
  ModelId model;
  Status gone;  // an error: the slice that serves it has not let go, and serves on
};
struct DropEnded {
  ModelId model;
};
// Everything on it is gone. What was routed to it is routed again, or refused; some of it may have
// ended before, which RequestEnded says yet.
struct SliceLost {
  SliceId slice;
  // Requests that may be why the slice is lost: they were in the step that ran. The others waited.
  std::vector<RequestId> suspects = {};
};
// A slice has come back, without models.
struct SliceReturned {
  SliceId slice;
};
// These slices are to be closed, all at once, and others to be opened in their place. What comes
// for them is held from now on; what runs there has `drain_max` to end, and goes on elsewhere or on
// the new slices then. No effect while anything is loaded or let go of, or slices change already:
// FleetCore::resizing() says whether it has begun, and the caller asks again.
struct ResizeWanted {
  std::vector<SliceId> slices;  // that are open, at least one
  Nanos drain_max;
};
struct OpenedSlice {
  SliceId slice;  // an id that no open slice has: of one that was closed, or the next one
  SliceSpec spec;
};
// The answer to Resize. Fewer may be open than there were, or none.
struct SlicesChanged {
  std::vector<OpenedSlice> opened;
};
// A model that the catalogue has now: a new one has the next id; one that had been removed is back
// under the id that it had before. It is in no memory, and no request asks for it yet.
struct FoundModel {
  ModelId model;
  ModelSpec spec;
};
struct CatalogueNews {
  std::vector<FoundModel> found;
  std::vector<ModelId> gone;  // their folders
};
// The answer to Reread. An error: nothing changes.
struct CatalogueRead {
  Result<CatalogueNews> news;
};
// The task of the loader that is under way shows no sign of life: why. Until the next answer of the
// loader only what serves is served.
struct LoaderStalled {
  Error why;
};
// The fleet stops for good: held requests end, new ones are refused.
struct Stopped {};
// next_wakeup() has come.
struct Woken {};

using Event =
    std::variant<RequestArrived, RequestCancelled, RequestEnded, RequestWithdrawn, ModelWanted,
                 Measured, LoadEnded, UnloadEnded, DropEnded, SliceLost, SliceReturned,
                 ResizeWanted, SlicesChanged, LoaderStalled, Stopped, Woken, LoadAsked, UnloadAsked,
                 PinAsked, SleepAsked, WakeAsked, ReloadAsked, CatalogueRead>;

// Hands the request to the slice, which ends it unless it is lost: then it may be routed again, and
// goes on behind what of its answer has been delivered.
struct Route {
  RequestId request;
  SliceId slice;
  // By best effort: what is asked of the slice and its link is more than they have, and a token is
  // expected to take so long, more than the model's target. Zero: targets are expected to be kept.
  Nanos predicted_tpot = {};
};
struct CancelOn {
  RequestId request;
  SliceId slice;
};
// The slice is to give the request back: it ends there with what it has answered.
struct Withdraw {
  RequestId request;
  SliceId slice;
};
// Ends a request that no slice has.
struct Refuse {
  RequestId request;
  request::FinishReason reason = request::FinishReason::kError;
  Error error;
};
// An ask has ended. kInvalidArgument: the model's kind or its state does not allow what was asked.
struct Answered {
  RequestId ask;
  Status result;
};
// To be told to the operator: the model could not be loaded.
struct LoadFailed {
  ModelId model;
  Error error;
};
// It is served no longer: requests and asks of it are refused from now on (kNotFound).
struct ModelRemoved {
  ModelId model;
};
// The model's folder is gone, but a request, a pin or a slice keeps the model served.
struct ModelKept {
  ModelId model;
  Error why;
};
// Each of these is answered by one event.
struct Measure {
  ModelId model;
};
struct Load {
  ModelId model;
  SliceId slice;
};
struct Unload {
  ModelId model;
  std::vector<SliceId> slices;  // on which it is; the one that serves it is to be left last
  bool drop = false;            // out of host memory, too
  ModelId taker;                // for which it goes; invalid: it was asked to
};
// It may still be attached where an unload has not gone all the way.
struct Drop {
  ModelId model;
};
// Closes slices, with all that is attached to them, and opens others. What was routed to them and
// has not ended is no longer theirs, from this action on: it is routed again.
struct Resize {
  std::vector<SliceId> closing;
};
// Reads the folder of models.
struct Reread {};

using Action = std::variant<Route, CancelOn, Withdraw, Refuse, Answered, LoadFailed, ModelRemoved,
                            ModelKept, Measure, Load, Unload, Drop, Resize, Reread>;

}  // namespace causeway::fleet
