// The interface of a slice to the fleet: it takes requests, as any SliceHandle, for the models that
// are attached to it. engine_slice.h is a slice of this process; tests have one without weights.
#pragma once

#include <utility>
#include <vector>

#include "engine/slice_handle.h"
#include "fleet/catalogue.h"

namespace causeway::fleet {

struct AttachedModel {
  Bytes streamed;           // what of its weights crosses the link at every step
  Nanos predicted_tpot{0};  // of a streamed model: by what the link grants; zero: not known
};

class FleetSlice : public engine::SliceHandle {
 public:
  using engine::SliceHandle::observe;
  // Observes one model; all is zero for one that is not attached. Any thread.
  virtual request::Observation observe(ModelId model) const = 0;
  // Observes each attached model. Any thread.
  virtual std::vector<std::pair<ModelId, request::Observation>> observe_models() const = 0;

  // Has the slice take requests of a model that is in host memory; pinned: it is never evicted from
  // the slice's cache. No byte of weights moves. kResourceExhausted, kUnsupported: this slice
  // cannot serve it, another might. One thread at a time, with detach().
  virtual Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource& source,
                                       bool pinned) = 0;
  // Refuses the model's new requests, waits for those it has to end, and undoes attach().
  // kDeadlineExceeded: some are left, and it serves on.
  virtual Status detach(ModelId model, Nanos timeout) = 0;

  // Whether it comes back when observe() says that it is lost, as a worker's does, whose process is
  // started again.
  virtual bool restarts() const { return false; }
  // Whether one that was lost serves again, with nothing attached; from then on observe() says so,
  // too. Any thread.
  virtual bool returned() { return false; }

  // The requests that may be why the slice is lost, from when observe() says that it is until it
  // has returned. They were in a step of it, or it had not said yet that they wait. Any thread.
  virtual std::vector<RequestId> suspects() const = 0;

  // How many bytes of weights have come from host memory since the slice was opened. Any thread.
  virtual Bytes link_bytes() const = 0;
};

}  // namespace causeway::fleet
