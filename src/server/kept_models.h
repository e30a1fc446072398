// Which models are to leave, and when, or to stay: what `keep_alive` of requests asked for. Says
// what to ask of the fleet; asks nothing itself.
//
//   begin(model) ─ requests run: it stays ─ end(model, wish) ─ the last has ended ─▶ due(now)
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace causeway::server {

// Thread-safe. Of a model the wish of the request that ended last counts, also one without a wish.
class KeptModels {
 public:
  struct Due {
    std::vector<ModelId> unload, pin;
  };

  // A request of the model has come, or ended at `now`. `wish`: from its end, below zero for ever.
  void begin(ModelId model);
  void end(ModelId model, std::optional<Nanos> wish, Nanos now);

  // Returns what is to be asked of the fleet now: a pin once; an unload again and again until
  // done() or kPatience has passed, as the fleet hears of a request's end a little later.
  Due due(Nanos now);
  void done(ModelId model);

 private:
  struct Kept {
    std::int64_t requests = 0;
    std::optional<Nanos> leaves;
    bool pin = false;
  };

  std::mutex mutex_;                          // guards what follows
  std::unordered_map<ModelId, Kept> models_;  // with requests, or that are to leave or be pinned
};

}  // namespace causeway::server
