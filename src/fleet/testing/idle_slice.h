// A slice for tests that takes everything and does nothing. Those that need more override it.
#pragma once

#include <utility>
#include <vector>

#include "fleet/fleet_slice.h"

namespace causeway::fleet::testing {

class IdleSlice : public FleetSlice {
 public:
  Status submit(request::Request) override { return {}; }
  void cancel(RequestId) override {}
  request::Observation observe() const override { return {}; }
  request::Observation observe(ModelId) const override { return {}; }
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override {
    return {};
  }
  Result<AttachedModel> attach(const CatalogueEntry&, const ModelSource&, bool) override {
    return AttachedModel{};
  }
  Status detach(ModelId, Nanos) override { return {}; }
  std::vector<RequestId> suspects() const override { return {}; }
  Bytes link_bytes() const override { return {}; }
};

}  // namespace causeway::fleet::testing
