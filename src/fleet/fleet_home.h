// The interface of host memory to the fleet's loader: it is the home of the weights of all models
// that are served. pool_home.h is the one that serves; tests have one without files.
#pragma once

#include <functional>

#include "fleet/catalogue.h"
#include "fleet/fleet_event.h"

namespace causeway::fleet {

// How a load is followed and cancelled by its caller. Any thread calls these; none of them blocks
// for long.
struct LoadWatch {
  std::function<bool()> cancelled;            // whether it is to end early; polled
  std::function<void(int percent)> progress;  // 10 times a second at most; may never be told
};

// All calls come from one thread, one at a time.
class FleetHome {
 public:
  virtual ~FleetHome() = default;

  // How much host memory load() would take. An error: no slice could serve the model, whatever room
  // there is. Blocks on a few small files.
  virtual Result<HostRoom> room_for(const CatalogueEntry& entry, const ModelSource& source) = 0;
  // Brings the model's weights into host memory, reachable for the copies of slices. Blocks for the
  // whole load. After an error nothing of it stays.
  virtual Status load(const CatalogueEntry& entry, const ModelSource& source,
                      const LoadWatch& watch) = 0;
  // Undoes load(), of a model that is attached to no slice.
  virtual void unload(ModelId model) = 0;
};

}  // namespace causeway::fleet
