// The interface of a slice to the fleet: like any SliceHandle it takes requests, for the models
// that are attached to it. engine_slice.h is a slice of this process; tests have slices without
// weights.
#pragma once

#include <utility>
#include <vector>

#include "engine/slice_handle.h"
#include "fleet/catalogue.h"

namespace causeway::fleet {

struct AttachedModel {
  Bytes streamed;  // bytes of its weights that cross the link at every step
  // For a streamed model, at the rate that the link grants; zero: not known.
  Nanos predicted_tpot{0};
};

class FleetSlice : public engine::SliceHandle {
 public:
  using engine::SliceHandle::observe;
  // Observes one model; all fields are zero for a model that is not attached. Any thread.
  virtual request::Observation observe(ModelId model) const = 0;
  // Observes each attached model. Any thread.
  virtual std::vector<std::pair<ModelId, request::Observation>> observe_models() const = 0;

  // Makes the slice take requests of a model that is in host memory. A pinned model is never
  // evicted from the slice's cache. No weights are moved. kResourceExhausted, kUnsupported: this
  // slice cannot serve the model, but another one might. One thread at a time, together with
  // detach().
  virtual Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource& source,
                                       bool pinned) = 0;
  // Refuses the model's new requests, waits for its present ones to end, and undoes attach().
  // kDeadlineExceeded: requests are left, and the model is served again.
  virtual Status detach(ModelId model, Nanos timeout) = 0;

  // Whether the slice comes back after observe() has reported it as lost, as a worker's slice does
  // when its process is started again.
  virtual bool restarts() const { return false; }
  // Whether a lost slice serves again, with no model attached; from then on observe() does not
  // report it as lost. Any thread.
  virtual bool returned() { return false; }

  // The requests that may have caused the loss, from the time at which observe() reports the slice
  // as lost until it has returned: they were in a step, or the slice had not yet said that they
  // wait. Any thread.
  virtual std::vector<RequestId> suspects() const = 0;

  // The bytes of weights that have come from host memory since the slice was opened. Any thread.
  virtual Bytes link_bytes() const = 0;
  // The time for which such bytes were on their way; zero: not known. Any thread.
  virtual Nanos link_busy() const { return Nanos(0); }
};

}  // namespace causeway::fleet
