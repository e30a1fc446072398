// A slice's cached weights as the engine uses them: a Residency and the mover that executes its
// commands. The engine says which models have requests, asks which model may be stepped, and gets
// for each step where every group is read (docs/design/residency.md).  Used by the engine's loop,
// one thread; the mover may have a thread of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "weights/expert_cache.h"
#include "weights/expert_plan.h"
#include "weights/residency.h"
#include "weights/stream_plan.h"
#include "weights/weight_layout.h"
#include "weights/weight_mover.h"
#include "weights/weight_ring.h"

namespace causeway::weights {

// What the cache must know of a model. A group that is readable at home may be divided into pieces,
// so that urgent copies need not wait long for it; it is read in the cache once all pieces are
// there.
struct CachedModel {
  std::vector<ResidentGroup> groups;       // in reading order
  std::vector<int> layout_groups;  // by index of `groups`: the group of the layout; -1: the ring
  std::optional<StreamPlan> stream = {};   // for a model that is streamed in whole layers
  std::optional<ExpertPlan> experts = {};  // for a model whose experts are cached one by one
  ExpertPolicy policy = ExpertPolicy::kFrequency;

  // Whether its steps lack weights in the cache. Such steps take long, and run in a lane of their
  // own.
  bool streams() const { return stream || experts; }
  // Where a group begins at home.
  Bytes home_of(std::size_t group) const;
  // The weights in the model's range at `base`, with those in `home` for groups that are read
  // there. Both are borrowed.
  PlacedWeights placed(const std::byte* base, const WeightLayout& home) const {
    return {experts ? &experts->layout : &home, base};
  }
  ExpertSlots slots(const std::byte* base) const;
  // The bytes that cross the link at every step, whatever the step computes.
  Bytes streamed_bytes() const { return stream ? stream->bytes : Bytes(0); }
};

inline constexpr Bytes kPieceBytes = mib(64);

CachedModel cached_model(const WeightLayout& layout, std::span<const ReadingStep> reading);

// The same model as a single group, which is cached as a whole or not at all: for baselines that
// load whole models. No step may begin before it is cached.
CachedModel as_a_whole(const CachedModel& cached);

// For a model that exceeds its share of HBM: its resident groups, and memory for a ring or for
// slots of experts. Errors as plan_stream().
Result<CachedModel> streamed_model(const WeightLayout& layout, std::span<const ReadingStep> reading,
                                   const StreamOptions& options);

// The number of extents in the model's range.
std::int64_t extents_of(const CachedModel& model, Bytes extent);

class WeightCache {
 public:
  // The mover is borrowed.
  WeightCache(const ResidencyOptions& options, WeightMover& mover);

  // kResourceExhausted, with the numbers, when the model could not be cached at all. Any thread.
  Status check_fits(const CachedModel& cached) const;
  // The mover must know the model already. Errors as Residency::add_model().
  Status add_model(ModelId model, CachedModel cached);
  // kUnavailable while a step is in flight or a group arrives: ask again after the next event.
  Status remove_model(ModelId model);
  void set_pinned(ModelId model, bool pinned) { residency_.set_pinned(model, pinned); }
  bool knows(ModelId model) const { return models_.contains(model); }

  // Takes in the events since the last call.
  void take_events(Nanos now);
  // take_events(), then sets the demand. Models that are not named have no requests.
  void demand(std::span<const ModelDemand> demand, Nanos now);
  // Decides anew, and hands the commands to the mover.
  void decide(Nanos now);

  // Has memory put behind extents of KV frames, or taken away, after the commands given before.
  // Each commit ends in one event an extent.
  void commit_frames(std::int64_t first_extent, std::int64_t extents);
  void decommit_frames(std::int64_t first_extent, std::int64_t extents);
  // The ends of such commits that were taken in since the last call.
  std::vector<WeightEvent> take_frame_events();
  // The cache's budget, without what its residency has committed beyond it; see
  // Residency::set_budget().
  Status set_budget(std::int64_t extents) { return residency_.set_budget(extents); }

  // As Residency::readiness(), and every copy that the step would wait for has been begun. For a
  // streamed model the resident groups must be there; the others come while it is stepped.
  Residency::Readiness readiness(ModelId model, Nanos computes, Nanos begins) const;
  // As Residency::offer(), for a model that readiness() allows to be stepped.
  [[nodiscard]] bool offer(ModelId model, Nanos now) { return residency_.offer(model, now); }
  // A step is submitted now. Fills `views` by group of the layout; leaves it empty when everything
  // is cached.
  void step_begins(ModelId model, std::vector<WeightView>& views);
  // The same views for a model that is neither streamed nor arriving; no step begins.
  void views_now(ModelId model, std::vector<WeightView>& views) const;
  // A step has ended. An error: something that it read did not arrive, and its results are void.
  // `chosen`, for a model whose experts are cached one by one: how many tokens chose each expert,
  // layer by layer; empty: not known.
  Status step_ended(ModelId model, Nanos now, std::span<const std::uint32_t> chosen = {});
  // Why the model's requests must end with an error, because its weights could not be brought;
  // returned once.
  std::optional<std::string> take_failure(ModelId model);

  // When a quantum ends for which a model waits; decide() can do more then.
  std::optional<Nanos> next_quantum_end(Nanos now) const {
    return residency_.next_quantum_end(now);
  }
  Bytes cached_bytes(ModelId model) const { return residency_.cached_bytes(model); }
  // The bytes of groups that a step needs and that are not there yet; and the time that the link
  // needs for them when it has nothing else to do, zero when nothing is known of the link.
  Bytes missing_bytes(ModelId model) const;
  Nanos copy_time(Bytes bytes) const;
  // For a model whose experts are cached one by one; otherwise all zero.
  ExpertCache::Counters expert_counters(ModelId model) const;
  const Residency& residency() const { return residency_; }

 private:
  struct Entry {
    CachedModel cached;
    std::size_t layout_groups = 0;  // the number of the layout's groups
    std::string last_error;
    std::unique_ptr<WeightRing> ring;  // with `experts`: few models have one
    std::unique_ptr<ExpertCache> experts;
    // Copies into ring or slots are under way, which the residency counts as a step.
    bool filling = false;
    std::int64_t requests = 0;  // for a model with a ring or slots
  };

  // Begins the copies into rings and slots that may begin.
  void fill(Nanos now);
  void fill_ring(ModelId model, Entry& entry);
  void fill_slots(ModelId model, Entry& entry);
  bool may_fill(ModelId model) const;
  void begin_fill(ModelId model, Entry& entry, const WeightCommand& command);
  void end_fill(ModelId model, Entry& entry, Nanos now);
  void take_event(const WeightEvent& event, Nanos now);
  void ring_views(ModelId model, Entry& entry, std::vector<WeightView>& views);
  static void expert_views(Entry& entry, std::vector<WeightView>& views);

  void command_frames(WeightCommand::Kind kind, std::int64_t first_extent, std::int64_t extents);

  const ResidencyOptions options_;
  Residency residency_;
  WeightMover& mover_;
  IdMap<ModelId, Entry> models_;
  std::vector<std::pair<ModelId, Entry*>> filled_;  // models with a ring or slots, by id
  std::vector<WeightCommand> commands_;             // of one decision; kept for its capacity
  std::vector<WeightEvent> frame_events_;
};

}  // namespace causeway::weights
