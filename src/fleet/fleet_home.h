// The interface of host memory, the home of all served models' weights, to the fleet's loader.
// pool_home.h implements it for the program; tests implement it without files.
#pragma once

#include <functional>

#include "fleet/catalogue.h"
#include "fleet/fleet_event.h"

namespace causeway::fleet {

// How the caller of a load follows and cancels it. Called on any thread; the functions must return
// quickly.
struct LoadWatch {
  std::function<bool()> cancelled;            // whether the load should end early; polled
  std::function<void(int percent)> progress;  // at most 10 times a second; may not be called at all
};

// All calls come from one thread, one at a time.
class FleetHome {
 public:
  virtual ~FleetHome() = default;

  // The host memory that load() would take. An error: no slice could serve the model, whatever room
  // there is. Blocks on a few small files.
  virtual Result<HostRoom> room_for(const CatalogueEntry& entry, const ModelSource& source) = 0;
  // Brings the model's weights into host memory and makes them reachable for the copies of slices.
  // Blocks for the whole load. After an error nothing of the model stays.
  virtual Status load(const CatalogueEntry& entry, const ModelSource& source,
                      const LoadWatch& watch) = 0;
  // Undoes load() for a model that is attached to no slice.
  virtual void unload(ModelId model) = 0;
};

}  // namespace causeway::fleet
