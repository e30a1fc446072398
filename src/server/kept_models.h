// Which models should be unloaded, and when, or should stay, as `keep_alive` of requests asks. Says
// what to ask of the fleet, and asks nothing itself.
//
//   begin(model) ─ requests run: it stays ─ end(model, wish) ─ the last has ended ─▶ due(now)
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace causeway::server {

// Thread-safe. For each model the wish of the request that ended last counts, even if it has none.
class KeptModels {
 public:
  struct Due {
    std::vector<ModelId> unload, pin;
  };

  // A request of the model has come; a request of the model has ended at `now`. `wish`: how long
  // the model should stay after that, below zero for ever.
  void begin(ModelId model);
  void end(ModelId model, std::optional<Nanos> wish, Nanos now);

  // Returns what to ask of the fleet now: a pin once; an unload again and again until done() or
  // until kPatience has passed, because the fleet learns of a request's end a little later.
  Due due(Nanos now);
  void done(ModelId model);

 private:
  struct Kept {
    std::int64_t requests = 0;
    std::optional<Nanos> leaves;
    bool pin = false;
  };

  std::mutex mutex_;                          // guards what follows
  // Models with requests, and models that should leave or be pinned.
  std::unordered_map<ModelId, Kept> models_;
};

}  // namespace causeway::server
