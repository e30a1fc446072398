// Reads the folder of models again while a fleet serves (docs/design/fleet.md, "A catalogue that
// changes"). The program implements it, because it knows the options with which models are served.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fleet/catalogue.h"
#include "fleet/fleet_spec.h"

namespace causeway::fleet {

struct CatalogueModel {
  std::unique_ptr<CatalogueEntry> entry;
  ModelSource source;
  bool pinned = false;  // never unloaded, nor evicted from the device's cache
  ModelSpec spec = {};  // its demands; name, targets and pin are those of the entry
};

// Whether `a` is loaded before `b` when neither has requests: first pinned models, then models with
// a higher expected rate, then in the catalogue's order.
bool loads_before(const CatalogueModel& a, const CatalogueModel& b);

// A model as the fleet knows it, by ModelId.
struct KnownModel {
  std::string name;
  bool served = true;  // false: it was removed
  bool left = true;    // for a removed model: it has left host memory, so it may come back
};

struct CatalogueFound {
  // A model whose name is known keeps its id; the others get the next ids.
  std::vector<CatalogueModel> models;
  std::vector<ModelId> gone;  // served models whose folders are gone
  std::vector<ReloadReport::Exception> left_out;
};

class CatalogueReader {
 public:
  virtual ~CatalogueReader() = default;

  // Reads the small files of all models that are not served yet, and blocks meanwhile; ends with an
  // error when `cancelled` returns true. kUnavailable: the folder cannot be read or holds no model,
  // and nothing should change. Called on the loader's thread, so slices do not change meanwhile.
  virtual Result<CatalogueFound> read(std::span<const KnownModel> known,
                                      const std::function<bool()>& cancelled) = 0;
};

}  // namespace causeway::fleet
