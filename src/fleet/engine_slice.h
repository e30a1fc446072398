// The FleetSlice of this process: models are attached from the pool that is their home.
#pragma once

#include "fleet/fleet_slice.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::fleet {

class EngineSlice final : public FleetSlice {
 public:
  // Both outlive it. Pinned homes of attached models are the slice's: it must go before the home.
  EngineSlice(slice::ModelHome& home, slice::Slice& slice) : home_(home), slice_(slice) {}

  Status submit(request::Request request) override {
    return slice_.engine().submit(std::move(request));
  }
  void cancel(RequestId request) override { slice_.engine().cancel(request); }
  request::Observation observe() const override { return slice_.engine().observe(); }
  request::Observation observe(ModelId model) const override {
    return slice_.engine().observe(model);
  }
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override {
    return slice_.engine().observe_models();
  }
  Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource& source,
                               bool pinned) override;
  Status detach(ModelId model, Nanos timeout) override;
  std::vector<RequestId> suspects() const override { return slice_.engine().suspects(); }
  Bytes link_bytes() const override { return slice_.link_bytes(); }
  Nanos link_busy() const override { return slice_.link_busy(); }

 private:
  Nanos predicted_tpot(const engine::ModelFacts& facts) const;

  slice::ModelHome& home_;
  slice::Slice& slice_;
};

}  // namespace causeway::fleet
