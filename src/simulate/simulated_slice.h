// One slice in virtual time: the EngineCore, scheduler, KV bookkeeping and cache of weights that
// serve, over a simulated device and link. The driver moves the clock.
//
//   clock.set(min over slices of next_event(), …);
//   slice.happen();          // what has ended by now
//   slice.core().submit(…);  // what arrives now
//   slice.start();           // then steps begin
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine_core.h"
#include "simulate/simulate.h"
#include "simulate/simulated_executor.h"
#include "simulate/simulated_mover.h"

namespace causeway::simulate {

class SimulatedSlice {
 public:
  // What the slice shares with other slices; null: it has its own.
  struct Shared {
    SharedLink* link = nullptr;  // with the profile's rate
    SharedMemory* memory = nullptr;
    int memory_user = 0;
    std::uint64_t seed = 0;  // so that slices draw different faults; 0: the seed of the options
  };
  // All arguments are borrowed. `options` hold the profile of this slice.
  SimulatedSlice(const SimulationOptions& options, const Clock& clock, const Shared& shared);
  SimulatedSlice(const SimulationOptions& options, const Clock& clock)
      : SimulatedSlice(options, clock, Shared()) {}

  // Returns the bytes of the model that cross the link at every step: more than zero for one that
  // exceeds the cache, or its max_resident, and is streamed or read at home. kResourceExhausted:
  // there is not even memory for a ring. The shape is borrowed until the model is removed.
  Result<Bytes> add_model(ModelId id, const ModelShape& shape);
  // kUnavailable: the model has requests, a step in flight or weights on their way.
  Status remove_model(ModelId id);

  // The next event, no sooner than the engine's thread is free; nullopt: nothing will happen by
  // itself.
  std::optional<Nanos> next_event() const;
  // Takes in the steps and copies that have ended by the clock's time.
  void happen();
  void start();
  // When the engine's outputs are heard: now, or when its thread has launched its steps.
  Nanos tells_at() const { return std::max(clock_.now(), executor_.busy_until()); }

  // Fast-forward, if the options ask for it: finds how many of the next steps, or of the next
  // copies of weights, need not be simulated one by one. next_event() is then the first event that
  // must be. Call it after start().
  void look_ahead();
  // The steps that were passed and ended before now. Rounds among them are whole: a step may be
  // left that ended before now, and is the next event. catch_up() must be called before anything
  // else is asked of the slice, and its result holds until something is.
  struct Passed {
    struct Answers {
      std::span<const RequestId> requests;  // each of them got a token
      std::span<const Nanos> at;            // at each of these times
    };
    std::span<const Nanos> ends;
    std::array<Answers, 2> tokens;  // the second is empty unless two models alternated
  };
  Passed catch_up();
  // Fast-forward of a whole request that comes now (simulated_alone.cc), when its model is there
  // and the slice is idle. False: the request must be submitted. True: next_event() is the end of
  // the request.
  bool begin_alone(const engine::EngineCore::Alone& request);
  // A request that runs alone: one of begin_alone(), or a submitted one that waits for weights, of
  // which look_ahead() has found the end.
  struct Alone {
    engine::EngineCore::Alone request;
    Nanos came;
    bool submitted = false;
  };
  bool runs_alone() const { return alone_.has_value(); }
  // Something else is asked of the slice before that request ends. The caller must then submit it
  // as of the time at which it came, unless it was submitted, and simulate what happens meanwhile.
  Alone stop_alone() { return *std::exchange(alone_, std::nullopt); }
  // The end of that request is the next event: these are its tokens but the last, with their times.
  // happen() then has the effect of all its steps, and one output, the last.
  Passed passed_alone() const {
    const auto told = std::span(alone_steps_.told).first(alone_steps_.told.size() - 1);
    return {.ends = told, .tokens = {{{{&alone_->request.request, 1}, told}, {}}}};
  }
  // With a clock of its own: no faults happen at random, and no other slices use the same link or
  // memory.
  bool depends_on_itself() const { return depends_on_itself_; }
  // The earliest time at which a request may end if nothing is asked of the slice before; its next
  // event is at `next`. Until then the slice affects nothing else. The result is at least `next`,
  // and equals it unless depends_on_itself().
  Nanos ends_from(Nanos next) const;
  // The same, for the present requests, whatever is asked of the slice from `now` on.
  Nanos ends_if_asked(Nanos now) const;
  // Replaces `requests` with those that end at the next event, which is at `next`. False: this
  // cannot be known before happen().
  bool ends_next(Nanos next, std::vector<RequestId>& requests) const;
  // Then: the earliest time at which another request may end, whatever is asked of the slice.
  Nanos ends_behind(Nanos next, std::span<const RequestId> ending) const;
  // A time shorter than any step of the model, which must be there. Any thread, except while models
  // are added or removed.
  Nanos step_least(ModelId model) const { return executor_.step_least(model); }

  // The request has ended with all of its tokens.
  void forget(RequestId request) { executor_.forget(request); }

  engine::EngineCore& core() { return core_; }
  const engine::EngineCore& core() const { return core_; }
  // For checkers. check_integrity() recomputes every invariant of engine, scheduler, KV and cache;
  // kCorrupt names the broken one. check_empty() checks that nothing is held after all models have
  // left.
  Status check_integrity() const;
  Status check_empty() const;
  const SimulatedMover* mover() const { return mover_.get(); }
  // Adds the slice's counters of weights, steps and KV to the report.
  void add_to(SimulationReport& report) const;

 private:
  void wait_alone();
  void end_alone();
  Nanos alone_ends_if_asked(Nanos now) const;
  void look_ahead_at_steps();
  void look_ahead_at_rounds();
  void look_ahead_at_copies();
  // The steps that end at `ends` have passed. The next step ends at `next_end`.
  void run_calm_steps(std::span<const Nanos> ends, Nanos next_end);
  Passed run_calm_rounds(std::span<const Nanos> ends, Nanos next_end);
  void hear_of_step(Nanos at);
  // How the weights lie when that is not as the shape says: as one group, or some of them and a
  // ring, or some of them and the others at home.
  Result<std::optional<weights::CachedModel>> placed(const ModelShape& shape) const;
  // The first groups that a step reads, as many as may be in the device's memory.
  weights::CachedModel kept(const ModelShape& shape, Bytes most) const;

  const SimulationOptions& options_;
  const Clock& clock_;
  const bool depends_on_itself_;
  // Null when the device's memory is the home of the weights.
  std::unique_ptr<SimulatedMover> mover_;
  std::unique_ptr<weights::WeightCache> cache_;
  SimulatedExecutor executor_;
  engine::EngineCore core_;
  std::vector<request::Output> outputs_;  // kept for its capacity
  std::vector<Nanos> ahead_;  // the ends of the steps to pass, and of the first step after them
  std::vector<Nanos> passed_ends_;  // what catch_up() returned last
  std::vector<RequestId> passed_requests_;
  // With rounds: the requests of the second model, and the ends of the steps of each model.
  std::vector<RequestId> passed_second_;
  std::array<std::vector<Nanos>, 2> round_ends_;
  bool alternates_ = false;   // the steps of ahead_ are those of two models that alternate
  bool last_ahead_ = false;   // the last entry of ahead_ is the last step of all
  Nanos after_ahead_;         // no step after those of ahead_ ends sooner
  std::vector<Nanos> copies_ahead_;  // the ends of copies that need not be reported one by one
  std::optional<Nanos> copies_looked_at_;  // copies that end before need not be simulated
  std::optional<Alone> alone_;
  SimulatedExecutor::AloneSteps alone_steps_;  // the steps of alone_
};

}  // namespace causeway::simulate
