// One slice in virtual time: the EngineCore, scheduler, KV bookkeeping and cache of weights that
// serve, over a simulated device and link. Its driver moves the clock.
//
//   clock.set(min over slices of next_event(), …);
//   slice.happen();          // what has ended by now
//   slice.core().submit(…);  // what arrives now
//   slice.start();           // then steps begin
#pragma once

#include <algorithm>
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
  // What it shares with other slices; null: it has its own.
  struct Shared {
    SharedLink* link = nullptr;  // at the profile's rate
    SharedMemory* memory = nullptr;
    int memory_user = 0;
    std::uint64_t seed = 0;  // so that not all have the same luck; 0: as the options say
  };
  // All are borrowed. `options` hold the profile of this slice.
  SimulatedSlice(const SimulationOptions& options, const Clock& clock, const Shared& shared);
  SimulatedSlice(const SimulationOptions& options, const Clock& clock)
      : SimulatedSlice(options, clock, Shared()) {}

  // One that exceeds the cache, or its max_resident, is streamed: what of it crosses the link at
  // every step is answered. kResourceExhausted: the slice has not even memory for a ring. The shape
  // is borrowed until the model is removed.
  Result<Bytes> add_model(ModelId id, const ModelShape& shape);
  // kUnavailable: it has requests, a step in flight or weights on their way.
  Status remove_model(ModelId id);

  // nullopt: not before something is asked of it, and no sooner than its engine's thread is free.
  std::optional<Nanos> next_event() const;
  // Steps and copies that have ended by the clock.
  void happen();
  void start();
  // When what the engine has to tell is told: now, or when its thread has launched its steps.
  Nanos tells_at() const { return std::max(clock_.now(), executor_.busy_until()); }

  // Fast-forward, where the options ask for it: looks how many of the next steps, or of the next
  // copies of weights, need not be looked at one by one. next_event() is then the end of the first
  // that does. After start().
  void look_ahead();
  // Of those, what ended before now; anything else may be asked of the slice only then. It stays
  // until something is.
  struct Passed {
    std::span<const RequestId> requests;  // each got a token
    std::span<const Nanos> ends;          // at each of these times
  };
  Passed catch_up();
  // Fast-forward of a whole request that comes now (simulated_alone.cc): it finds its model there
  // and nothing else. False: it must be submitted. Otherwise next_event() is its end.
  bool begin_alone(const engine::EngineCore::Alone& request);
  // look_ahead() knows the end, too, of one that was submitted and waits for weights.
  struct Alone {
    engine::EngineCore::Alone request;
    Nanos came;
    bool submitted = false;
  };
  bool runs_alone() const { return alone_.has_value(); }
  // Something else is asked of the slice before that: the request is first to be submitted, if it
  // was not, as of the time at which it came, and what happens meanwhile is to be looked at.
  Alone stop_alone() { return *std::exchange(alone_, std::nullopt); }
  // Its end is the next event, and comes now: its tokens but the last, at these times, and the end.
  // happen() then has its effect, of which the outputs are told by these.
  Passed passed_alone() const {
    return {{&alone_->request.request, 1},
            std::span(alone_steps_.told).first(alone_steps_.told.size() - 1)};
  }
  request::Output end_of_alone() const;
  // Nothing goes wrong by chance, and no others use its link or its memory: with the fast-forward.
  bool depends_on_itself() const { return depends_on_itself_; }
  // The earliest time at which a request may end, unless something is asked of the slice before;
  // its next event is at `next`. Until then nothing that it does shows anywhere else. Never sooner
  // than `next`, and no later unless it depends on itself.
  Nanos ends_from(Nanos next) const;
  // The same whatever is asked of it from `now` on, of the requests that it has.
  Nanos ends_if_asked(Nanos now) const;
  // No step of the model, which is there, takes less. Any thread, unless models come or go.
  Nanos step_least(ModelId model) const { return executor_.step_least(model); }

  // The request has ended with all its tokens.
  void forget(RequestId request) { executor_.forget(request); }

  engine::EngineCore& core() { return core_; }
  const engine::EngineCore& core() const { return core_; }
  // For checkers: every invariant of engine, scheduler, KV and cache, the slow way; kCorrupt says
  // which one is broken. And whether nothing is held, once all its models have gone.
  Status check_integrity() const;
  Status check_empty() const;
  const SimulatedMover* mover() const { return mover_.get(); }
  // Adds what was counted here to what is there: of weights, steps and KV.
  void add_to(SimulationReport& report) const;

 private:
  void wait_alone();
  void end_alone();
  Nanos alone_ends_if_asked(Nanos now) const;
  void look_ahead_at_steps();
  void look_ahead_at_copies();
  // Steps that ended then have passed. What comes behind them ends at `next_end`.
  void run_calm_steps(std::span<const Nanos> ends, Nanos next_end);
  void hear_of_step(Nanos at);
  // How its weights lie, if not as the shape says: as one group, or some of them and a ring.
  Result<std::optional<weights::CachedModel>> placed(const ModelShape& shape) const;

  const SimulationOptions& options_;
  const Clock& clock_;
  const bool depends_on_itself_;
  // Null where the device's memory is the home of the weights.
  std::unique_ptr<SimulatedMover> mover_;
  std::unique_ptr<weights::WeightCache> cache_;
  SimulatedExecutor executor_;
  engine::EngineCore core_;
  std::vector<Nanos> ahead_;               // when calm steps end, and the first that is not
  std::vector<Nanos> passed_ends_;         // Passed, as it was told last
  std::vector<RequestId> passed_requests_;
  bool last_ahead_ = false;                // of these, the last is the last of all
  Nanos after_ahead_;                      // no step behind these ends sooner
  std::vector<Nanos> copies_ahead_;        // when copies end
  std::optional<Nanos> copies_looked_at_;  // those before need not be looked at
  std::optional<Alone> alone_;
  SimulatedExecutor::AloneSteps alone_steps_;  // of that
};

}  // namespace causeway::simulate
