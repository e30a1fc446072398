// The SliceBackend that serves: a model is loaded into host memory, which is the fleet's, and made
// runnable by the slice, which borrows it from there.
#pragma once

#include <memory>

#include "base/clock.h"
#include "fleet/early_load.h"
#include "fleet/slice_backend.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::fleet {

struct LoadSettings {
  int threads = 0;  // that read a model; 0: the pool's choice
};

class HomeBackend final : public SliceBackend {
 public:
  // All outlive the backend. `early`: the load of the model that is attached first, if it has
  // begun; it goes on, and is dropped if another model is asked for before it.
  HomeBackend(slice::ModelHome& home, slice::Slice& slice, const Clock& clock,
              const LoadSettings& settings, std::unique_ptr<EarlyLoad> early = nullptr);

  Result<HostRoom> room_for(const CatalogueEntry& entry, const ModelSource& source) override;
  Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource& source,
                               const std::function<bool()>& cancelled) override;
  void detach(ModelId model) override;
  Bytes link_bytes() const override { return slice_.link_bytes(); }

 private:
  // How the model would be kept here. An error: it cannot be.
  Result<model::ModelCard> card(const CatalogueEntry& entry, const ModelSource& source) const;
  // The same, for who is to load it next: an early load that this is not is dropped.
  Result<model::ModelCard> next_card(const CatalogueEntry& entry, const ModelSource& source);
  int load_threads() const;
  weights::HomeLeaves leaves() const;
  Nanos predicted_tpot(const engine::ModelFacts& facts) const;
  // When it began.
  Result<Nanos> load(const CatalogueEntry& entry, const ModelSource& source,
                     const model::ModelCard& card, const std::function<bool()>& cancelled);

  slice::ModelHome& home_;
  slice::Slice& slice_;
  const Clock& clock_;
  const LoadSettings settings_;
  std::unique_ptr<EarlyLoad> early_;
};

}  // namespace causeway::fleet
