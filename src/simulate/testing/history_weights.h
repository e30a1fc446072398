// The cache of weights of a random history: a link, the room, and the groups of the models, drawn
// by chance, and the checks that must hold after every event. In half of these histories some
// models are streamed.
//
// - No command breaks the mover's rules. (EngineCore::check_integrity() has the residency's own.)
// - Memory as the residency counts it and as the mover does.
// - A model with requests is served within the bound that weights/residency.h states, counted anew
//   when a copy fails or a step hangs. Not where the border to the KV frames moves: a model may
//   then wait for sequences to end.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/random.h"
#include "engine/engine_core.h"
#include "simulate/simulated_executor.h"
#include "simulate/simulated_mover.h"
#include "weights/weight_cache.h"

namespace causeway::simulate {

class HistoryWeights {
 public:
  // Room for one to all of the models; `frames` of KV beside it. In half of the histories memory
  // moves between the two. Random and clock are borrowed.
  HistoryWeights(Random& random, const Clock& clock, std::int64_t models, double copy_error_rate,
                 std::int64_t frames);

  // nullopt: the border does not move. Otherwise the frames fill whole extents.
  const std::optional<schedule::BorderRules>& border() const { return border_; }

  weights::WeightCache& cache() { return cache_; }
  SimulatedMover& mover() { return mover_; }
  bool streams() const { return streams_; }
  // A quarter of the histories has a pinned model: others may then find no room.
  bool pins() const { return pinned_.valid(); }

  // Gives the model groups, as many of which as fit into the room are cached at the same time.
  // Before and after EngineCore::add_model().
  void introduce(ModelId model, ModelShape& shape);
  void added(ModelId model);
  // After EngineCore::remove_model().
  void remove(ModelId model);

  // What is wrong, or empty.
  std::string check(const engine::EngineCore& core, const SimulatedExecutor& executor);
  // The longest wait of a model, as a part of its bound.
  double wait_of_bound() const { return wait_of_bound_; }

 private:
  struct Model {
    weights::CachedModel cached;
    bool waits = false;
    Nanos since;
    Nanos bound;  // the largest while it waits
  };

  std::optional<schedule::BorderRules> make_border(std::int64_t frames);
  SimulatedMoverOptions mover_options(double error_rate);
  weights::ResidencyOptions residency_options();
  bool place_streamed(ModelShape& shape);
  void place_whole(ModelShape& shape);
  bool serves(ModelId id, const Model& model) const;
  Nanos quantum(const Model& model) const;
  Nanos copies(const Model& model) const;
  Nanos passes() const;
  Nanos bound_of(ModelId id) const;
  std::string check_waits(const engine::EngineCore& core);

  Random& random_;
  const Clock& clock_;
  std::int64_t extents_per_model_;
  std::int64_t extents_;        // at the start
  std::int64_t frame_extents_;  // likewise
  std::optional<schedule::BorderRules> border_;
  ModelId pinned_;
  bool streams_;  // some models, perhaps
  SimulatedMoverOptions mover_options_;
  weights::ResidencyOptions residency_options_;
  SimulatedMover mover_;
  weights::WeightCache cache_;
  std::map<ModelId, Model> models_;
  Nanos step_longest_;
  Nanos wait_longest_;
  std::int64_t failures_seen_ = 0;
  double wait_of_bound_ = 0;
};

}  // namespace causeway::simulate
