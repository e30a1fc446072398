// The weights that a slice has cached, as its engine sees them: a Residency and the mover that
// executes it. The engine tells what it wants, asks which model it may step, and gets for each step
// where every group is read (docs/design/residency.md).
//
// Of the engine's loop: one thread. The mover may have a thread of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weights/expert_cache.h"
#include "weights/expert_plan.h"
#include "weights/residency.h"
#include "weights/stream_plan.h"
#include "weights/weight_layout.h"
#include "weights/weight_mover.h"
#include "weights/weight_ring.h"

namespace causeway::weights {

// What the cache must know of a model. A group that is readable at home may come in pieces, so that
// nothing urgent waits long for one that is under way; it is read in the cache once all are there.
struct CachedModel {
  std::vector<ResidentGroup> groups;       // in reading order
  std::vector<int> layout_groups;          // beside them: which group of the layout; -1: the ring
  std::optional<StreamPlan> stream = {};   // of a model that is streamed in whole layers
  std::optional<ExpertPlan> experts = {};  // of one whose experts are cached one by one
  ExpertPolicy policy = ExpertPolicy::kFrequency;

  // Its steps do not find all weights in the cache: they take their time, and a lane of their own.
  bool streams() const { return stream || experts; }
  // Where a group begins at home.
  Bytes home_of(std::size_t group) const;
  // Where it finds its weights in its range at `base`; `home`: as they lie at home. Both borrowed.
  PlacedWeights placed(const std::byte* base, const WeightLayout& home) const {
    return {experts ? &experts->layout : &home, base};
  }
  ExpertSlots slots(const std::byte* base) const;
  // That cross the link at every step, whatever it computes.
  Bytes streamed_bytes() const { return stream ? stream->bytes : Bytes(0); }
};

inline constexpr Bytes kPieceBytes = mib(64);

CachedModel cached_model(const WeightLayout& layout, std::span<const ReadingStep> reading);

// The same as one group, which is there or is not: baselines that load whole models. No step may
// begin before it is cached.
CachedModel as_a_whole(const CachedModel& cached);

// Of a model that is larger than its share: its resident groups, and memory for the slots of
// experts, or for a ring. Errors as plan_stream().
Result<CachedModel> streamed_model(const WeightLayout& layout, std::span<const ReadingStep> reading,
                                   const StreamOptions& options);

// Extents of its range.
std::int64_t extents_of(const CachedModel& model, Bytes extent);

class WeightCache {
 public:
  // Borrows the mover.
  WeightCache(const ResidencyOptions& options, WeightMover& mover);

  // Whether the model could be cached at all: kResourceExhausted, with the numbers. Any thread.
  Status check_fits(const CachedModel& cached) const;
  // The mover knows the model already. Errors as Residency::add_model().
  Status add_model(ModelId model, CachedModel cached);
  // kUnavailable while a step is in flight or a group arrives: ask again after the next event.
  Status remove_model(ModelId model);
  void set_pinned(ModelId model, bool pinned) { residency_.set_pinned(model, pinned); }
  bool knows(ModelId model) const { return models_.contains(model); }

  // Takes in what has ended since the last call.
  void take_events(Nanos now);
  // The same, and what is wanted. Models that are not named have no requests.
  void demand(std::span<const ModelDemand> demand, Nanos now);
  // Decides anew, and has it executed.
  void decide(Nanos now);

  // Memory goes to and from KV frames: extents of their range, behind what was commanded before.
  // Each commit ends in one event an extent.
  void commit_frames(std::int64_t first_extent, std::int64_t extents);
  void decommit_frames(std::int64_t first_extent, std::int64_t extents);
  // Ends of such commits that have been taken in since the last call.
  std::vector<WeightEvent> take_frame_events();
  // Of this cache, beside what its residency has committed. As Residency::set_budget().
  Status set_budget(std::int64_t extents) { return residency_.set_budget(extents); }

  // As Residency::readiness(), and all copies that a step would wait for have been issued. A
  // streamed model begins with its resident groups there; the others come while it is stepped.
  Residency::Readiness readiness(ModelId model, Nanos computes, Nanos begins) const;
  // As Residency::offer(), of a model that readiness() allows to be stepped.
  [[nodiscard]] bool offer(ModelId model, Nanos now) { return residency_.offer(model, now); }
  // Of a step that is submitted now: fills `views` by group of the layout; left empty when all is
  // cached.
  void step_begins(ModelId model, std::vector<WeightView>& views);
  // The same views, of a model that is neither streamed nor arrives; no step begins.
  void views_now(ModelId model, std::vector<WeightView>& views) const;
  // An error: something that the step read did not arrive; its results are void. `chosen`: of a
  // model whose experts are cached one by one, how many tokens chose each (layer by layer); empty:
  // not known.
  Status step_ended(ModelId model, Nanos now, std::span<const std::uint32_t> chosen = {});
  // Why the model's requests must end with an error, once: its weights could not be brought.
  std::optional<std::string> take_failure(ModelId model);

  // When a quantum ends that some model waits for: update() then has more to give.
  std::optional<Nanos> next_quantum_end(Nanos now) const {
    return residency_.next_quantum_end(now);
  }
  Bytes cached_bytes(ModelId model) const { return residency_.cached_bytes(model); }
  // Of the groups that a step cannot do without, those that are not there yet; and how long the
  // link needs for them, if it has nothing else to do; zero where nothing is known of it.
  Bytes missing_bytes(ModelId model) const;
  Nanos copy_time(Bytes bytes) const;
  // Of a model whose experts are cached one by one; else nothing.
  ExpertCache::Counters expert_counters(ModelId model) const;
  const Residency& residency() const { return residency_; }

 private:
  struct Entry {
    CachedModel cached;
    std::size_t layout_groups = 0;  // how many the layout has
    std::string last_error;
    std::optional<WeightRing> ring;
    std::optional<ExpertCache> experts;
    bool filling = false;       // such copies are under way: the residency counts a step
    std::int64_t requests = 0;  // of one with a ring or slots
  };

  // Hands on the copies into rings and slots that may begin.
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
  std::map<ModelId, Entry> models_;
  std::vector<std::pair<ModelId, Entry*>> filled_;  // those with a ring or slots, by id
  std::vector<WeightCommand> commands_;             // of one decision
  std::vector<WeightEvent> frame_events_;
};

}  // namespace causeway::weights
