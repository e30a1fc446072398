// The slices of a simulated fleet, and when each of them is simulated.
//
// A slice depends on the rest of the fleet only when something is asked of it (a request, a model)
// and when one of its requests ends, which the fleet is told. With the fast-forward, or a second
// thread, each slice therefore has a clock of its own, which may stay behind until one of these
// events. Then the slice catches up: everything that happened meanwhile is done at once, each thing
// at its own time. The fleet sees the same as if every slice had been simulated at each of its
// events.
//
//   fleet   ──▲─────────────▲──────▲───▶      ▲ a request arrives, or ends
//   slice A ──┴·············│······┴───▶      · caught up at the next ▲
//   slice B ················┴──────────▶
//
// What happens at one instant has an order, too, in rounds: first what is due on slices, then what
// is asked of them, then each of these slices starts what it can, in the order of ids, and once
// more where that led to more. What becomes due at the same instant after that belongs to the next
// round. A slice that was behind catches up with every round in which it would have been simulated.
//
// A second thread may let slices catch up while the fleet goes on. Each slice has a lock, which is
// held from the time at which the slice is simulated until it has started what it can. With the
// second thread a request can be left with its slice without simulating the slice: the slice takes
// the request when it catches up with that instant. Nor is the slice simulated when requests end
// there of which that was known before: the fleet is told, and the slice ends them when it catches
// up. What slices answer is recorded by the thread that simulates them; sums are the same whichever
// that was.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "simulate/event_tree.h"
#include "simulate/latency_recorder.h"
#include "simulate/simulated_slice.h"

namespace causeway::simulate {

class FleetSlices {
 public:
  // The output of a request whose end was known before has no more than that. Where there is a
  // recorder, it has got what the outputs say.
  using Told = std::function<void(request::Output&, Nanos at)>;
  // Makes the request of this id. Called on any thread.
  using Make = std::function<request::Request(RequestId)>;

  // As many record.
  static constexpr std::size_t kThreads = 2;

  // Makes `most` slices, all of them closed. The recorder, which is borrowed, gets all outputs.
  // Null: the caller is told all of them, so no slice may be able to stay behind. `helps`: start
  // the second thread. `make`: makes requests that were left with slices.
  FleetSlices(std::int64_t most, LatencyRecorder* recorder, bool helps, Make make);
  ~FleetSlices();
  FleetSlices(const FleetSlices&) = delete;
  FleetSlices& operator=(const FleetSlices&) = delete;
  // Opens a slice. The options, and what `shared` points to, are borrowed.
  void open(std::size_t index, const SimulationOptions& options,
            const SimulatedSlice::Shared& shared);
  // Closes a slice; call it between instants.
  void close(std::size_t index);
  // No slice is simulated or starts anything before `until`.
  void pause(Nanos until);

  // When a slice must be simulated next; kNever: not before something is asked of one.
  Nanos next() const { return due_.first(); }
  // Begins a round at `now`: does what is due on slices. Call ask() and start() after it.
  void begin_round(Nanos now);
  // The slice, so that the caller can ask something of it now. It starts what follows in start().
  SimulatedSlice& ask(std::size_t index);
  // Leaves a request with a slice that certainly takes it, and on which the request ends at
  // `ends_from` at the earliest. False: the slice must be asked instead.
  bool leave(std::size_t index, const engine::EngineCore::Alone& request, Nanos ends_from);
  // Whether something happened on the slice in this round, or was asked of it.
  bool looked_at(std::size_t index) const { return slices_[index].seen == round_; }
  // The slices that were simulated in this round start what they can. `told` gets each output and
  // the time at which it is heard, and may call ask().
  void start(const Told& told);
  // From the next ask() on the slice is simulated at each of its events, until may_lag() has been
  // called as often as keep_up().
  void keep_up(std::size_t index) { ++slices_[index].keeps_up; }
  void may_lag(std::size_t index) { --slices_[index].keeps_up; }
  // Ends the run: all slices catch up with the last round. `until`: simulates slices further, until
  // then. Returns the time of the last event.
  Nanos finish(Nanos until = Nanos(0));

  // The slice as it was when it was last simulated; null: it is not open.
  const SimulatedSlice* at(std::size_t index) const { return slices_[index].slice.get(); }
  std::int64_t size() const { return std::ssize(slices_); }
  // After finish().
  std::int64_t steps_passed() const;

 private:
  // A spin lock. It is held for microseconds, or by a thread whose work the other one would have to
  // do itself.
  class Lock {
   public:
    void lock();
    bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
    void unlock() { taken_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool> taken_{false};
  };

  // The instant and round with which a slice catches up.
  struct Moment {
    Nanos now;
    std::int64_t round = 0;
    std::int64_t instant = 0;  // the first round of the instant
    std::int64_t seen = 0;     // the last round in which the slice was simulated
  };
  // A request that was left with a slice which has not taken it yet.
  struct Left {
    engine::EngineCore::Alone request;
    Moment moment;
    bool had_turn = false;  // the slice had had its turn in that round
  };

  // Times of a slice. The second thread looks at these without its lock.
  struct Times {
    std::atomic<Nanos> next{kNever};  // something happens there
    // The instant at which a request was left, as Entry::left has it; kNever: none is. Set by the
    // caller's thread, and taken back with the lock.
    std::atomic<Nanos> left_at{kNever};

    Nanos due() const { return std::min(next.load(), left_at.load()); }
  };

  struct Entry {
    Lock lock;
    ManualClock clock;
    std::unique_ptr<SimulatedSlice> slice;
    bool depends_on_itself = false;  // as the slice says
    Times* times = nullptr;
    std::size_t thread = kCaller;  // which has the lock
    std::int64_t steps_passed = 0;
    // Before it catches up, the slice has to start what it can, as of the last ask(); and before
    // that, what is due there happens: `ending` end, of which the fleet has been told.
    bool starts = false;
    bool ends = false;
    // Whether it is known that `ending` end at the slice's next event, and all others behind it, at
    // `ends_behind` at the earliest, whatever is asked. Holds from look_ahead() on.
    bool knows_ends = false;
    std::vector<RequestId> ending;
    Nanos ends_behind;
    Left left;
    // Used by the caller's thread alone.
    std::int64_t seen = 0;  // the last round in which the slice was simulated
    bool asked = false;     // something was asked since it last started what it can
    bool happened = false;  // something happened since then
    int keeps_up = 0;
    bool hung = false;             // the slice's device hung when it was last simulated
    Nanos ends_if_asked = kNever;  // no request ends there earlier, whatever is asked of the slice
    Nanos paused_until;
  };

  static constexpr std::size_t kCaller = 0, kHelper = 1;

  // The body of the second thread.
  void help();
  bool make_up_some();
  void stop_helping();
  // Does everything that a slice does by itself at its next event, or when it takes a request that
  // was left.
  void run(Entry& entry);
  void run_event(Entry& entry);
  // What is due on the slice at its clock's time happens.
  void happen(Entry& entry);
  // Takes the request that was left. True: something else happened on the slice in that round.
  bool take_left(Entry& entry);
  // Takes the request that was left, if any, when nothing else is asked of the slice in that round.
  void take_left_alone(Entry& entry);
  // Whether that request runs alone, so that it need not be submitted before something else is
  // asked.
  bool begin_alone(Entry& entry);
  // Something else is asked: submits the request as of the time at which it came.
  void join_alone(Entry& entry);
  void submit(Entry& entry, RequestId request, Nanos at);
  // Notes that the slice has to start what it can, as of `at`.
  static void start_later(Entry& entry, Nanos at);
  // What a slice produced is recorded with its lock.
  void record(const Entry& entry, const request::Output& output, Nanos at);
  void record(Entry& entry, const SimulatedSlice::Passed& passed);
  // Catches up with everything before `moment`, including earlier rounds of the same instant. True:
  // something is due in the present round.
  bool make_up(Entry& entry, const Moment& moment);
  // Catches up to the present, also in the middle of steps that are passed together.
  bool make_up_to_now(Entry& entry, const Moment& moment);
  Moment moment_of(const Entry& entry) const { return {now_, round_, instant_, entry.seen}; }
  // Passes the steps that need not be simulated one by one, up to the slice's clock. Returns when
  // the last of them ended.
  Nanos pass(Entry& entry);
  // The same up to `at`, which may leave a step that ended before: it is the slice's next event.
  Nanos pass_until(Entry& entry, Nanos at);
  // The slice has started what it can: finds when it must be simulated next.
  void look_ahead(Entry& entry);
  void look_at_ends(Entry& entry);
  // The slice's next event, or the time at which one is heard of.
  static Nanos next_of(const Entry& entry);
  void set_due(std::size_t index);
  void start_one(std::size_t index, const Told& told);
  // The same where Entry::ends, and nothing else was asked since.
  void start_behind_ends(std::size_t index, const Told& told);
  // Whether the slice would have started already, had something been due there in this round.
  bool had_turn(std::size_t index) const { return started_ || (starting_ && index < turn_); }

  LatencyRecorder* const recorder_;
  const bool helps_;
  const Make make_;
  std::vector<Times> times_;  // side by side, as the second thread looks at all of them
  std::deque<Entry> slices_;
  EventTree due_;
  Nanos now_;
  std::int64_t round_ = 0;
  std::int64_t instant_ = 0;        // the first round of the instant
  std::vector<std::size_t> early_;  // of begin_round(); kept for its capacity
  std::array<std::vector<request::Output>, kThreads> outputs_;  // likewise, by thread
  std::vector<request::Output> started_outputs_;                // of start_one()
  std::vector<std::size_t> asked_;  // slices that will start in start()
  std::vector<std::size_t> turns_;  // slices that start now, in order
  std::size_t turn_ = 0;            // index in turns_ of the slice that starts
  std::vector<RequestId> ending_;   // of the slice that starts; kept for its capacity
  bool starting_ = false;           // start() is in progress
  bool started_ = false;            // start() has been called in this round
  std::atomic<Nanos> behind_{Nanos(0)};  // the second thread lets slices catch up to this time
  std::atomic<bool> stops_{false};
  std::thread helper_;
};

}  // namespace causeway::simulate
