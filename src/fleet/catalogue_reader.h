// Reads the folder of models again while a fleet serves (docs/design/fleet.md, "A catalogue that
// changes"). The program implements it, since it knows with which options a model is served.
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
  bool pinned = false;  // never unloaded, nor taken out of the device's cache
  ModelSpec spec = {};  // what it asks of a slice; its name, targets and pin are the entry's
};

// Whether `a` is loaded before `b` while neither is asked for: pinned ones first, then those of
// which most requests are expected, then in the catalogue's order.
bool loads_before(const CatalogueModel& a, const CatalogueModel& b);

// A model as the fleet knows it, by ModelId.
struct KnownModel {
  std::string name;
  bool served = true;  // else it was removed
  bool left = true;    // likewise, and has left host memory: it may come back
};

struct CatalogueFound {
  // Each under the id that its name has among the known, or else under the next ones.
  std::vector<CatalogueModel> models;
  std::vector<ModelId> gone;  // of the known: served, and there no longer
  std::vector<ReloadReport::Exception> left_out;
};

class CatalogueReader {
 public:
  virtual ~CatalogueReader() = default;

  // Blocks on small files of all models that are not served yet; polls `cancelled`, and ends with
  // an error. kUnavailable: the folder cannot be read, or holds no model; nothing is to change.
  // The loader's thread: slices do not change meanwhile.
  virtual Result<CatalogueFound> read(std::span<const KnownModel> known,
                                      const std::function<bool()>& cancelled) = 0;
};

}  // namespace causeway::fleet
