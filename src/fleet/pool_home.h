// The FleetHome of the program: models are loaded into the pool of the process, and made reachable
// for the copies of its slices.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "fleet/early_load.h"
#include "fleet/fleet_home.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::fleet {

struct LoadSettings {
  int threads = 0;  // that read a model; 0: the pool chooses
};

// What a home needs to know of a fleet's slices, all of which keep models in the same form.
class SlicesOfHome {
 public:
  virtual ~SlicesOfHome() = default;

  // How the slices keep a model of this config; see Slice::card().
  virtual Result<model::ModelCard> card(model::ModelConfig config) const = 0;
  // Whether the slices can run the model, as far as that is known; the error says why not.
  virtual Status check(ModelId model, const model::ModelCard& card) const = 0;
  // Makes memory reachable for all slices, as Slice::reach() does for one; and undoes it.
  virtual Status reach(device::HostAddress address, Bytes bytes,
                       const std::function<bool()>& cancelled) = 0;
  virtual void unreach(device::HostAddress address, Bytes bytes) = 0;
  // Whether requests are being served, so that a load must not disturb them.
  virtual bool serves() const = 0;
};

class PoolHome final : public FleetHome {
 public:
  // Home and clock must outlive this object. `early`: see the other constructor; a slice has been
  // opened for it and stays until the model is loaded.
  PoolHome(slice::ModelHome& home, std::unique_ptr<SlicesOfHome> slices, const Clock& clock,
           const LoadSettings& settings, std::unique_ptr<EarlyLoad> early = nullptr);
  // For slices of this process, at least one, which must outlive this object. `early`: the load of
  // the model that is loaded first, if it has begun. It is continued, or dropped if another model
  // is asked for first.
  PoolHome(slice::ModelHome& home, std::vector<slice::Slice*> slices, const Clock& clock,
           const LoadSettings& settings, std::unique_ptr<EarlyLoad> early = nullptr);

  Result<HostRoom> room_for(const CatalogueEntry& entry, const ModelSource& source) override;
  Status load(const CatalogueEntry& entry, const ModelSource& source,
              const LoadWatch& watch) override;
  void unload(ModelId model) override;

 private:
  // How the model would be kept here. An error: no slice can run it.
  Result<model::ModelCard> card(const CatalogueEntry& entry, const ModelSource& source) const;
  // The same for the model that is loaded next. An early load of another model is dropped.
  Result<model::ModelCard> next_card(const CatalogueEntry& entry, const ModelSource& source);
  Status take_early(const model::ModelCard& card, const std::function<bool()>& cancelled);
  int load_threads() const;
  weights::HomeLeaves leaves() const;
  slice::ModelHome& home_;
  const std::unique_ptr<SlicesOfHome> slices_;
  const Clock& clock_;
  const LoadSettings settings_;
  std::unique_ptr<EarlyLoad> early_;
};

}  // namespace causeway::fleet
