// The slices of a simulated fleet, and when each of them is looked at.
//
// Between two things that are asked of it (a request, a model) and the ends of its requests, of
// which the fleet is told, a slice depends on nothing but itself. With the fast-forward it
// therefore has a clock of its own, which stays behind until one of these comes: what has happened
// meanwhile is made up for at once, each thing at its own time. The fleet sees the same as if every
// slice had been looked at whenever something happened there.
//
//   fleet   ──▲─────────────▲──────▲───▶      ▲ a request arrives, or ends
//   slice A ──┴·············│······┴───▶      · made up for when it is looked at
//   slice B ················┴──────────▶
//
// What happens at one instant has an order, too. It comes in rounds: first what is due on slices,
// then what is asked of them, then each of these starts what it can, by their ids, and once more
// where that led to more. What is then due at the same instant is the next round's. A slice that
// was behind makes up for the rounds that it would have been looked at in.
//
// A second thread may make up for slices that are behind while the fleet goes on: each has a lock,
// which is held from when it is looked at until it has started what it can. With it a request is
// left with its slice, which is not looked at: it takes the request when it makes up for that
// instant. All that comes of it is told on the caller's thread, so that the report does not depend
// on which thread was faster.
#pragma once

#include <algorithm>
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
  using Told = std::function<void(request::Output&, Nanos at)>;
  // The request of this id; on any thread.
  using Make = std::function<request::Request(RequestId)>;

  // `most`: slices, of which none is open. The recorder, which is borrowed, is told what slices put
  // out while they are behind.
  // `helps`: with a second thread. `make`: of requests that are left with slices.
  FleetSlices(std::int64_t most, LatencyRecorder& recorder, bool helps, Make make);
  ~FleetSlices();
  FleetSlices(const FleetSlices&) = delete;
  FleetSlices& operator=(const FleetSlices&) = delete;
  // Options and what is shared are borrowed.
  void open(std::size_t index, const SimulationOptions& options,
            const SimulatedSlice::Shared& shared);
  // Between instants.
  void close(std::size_t index);
  // None is looked at, and none starts anything, before then.
  void pause(Nanos until);

  // When one must be looked at; kNever: not before something is asked.
  Nanos next() const { return due_.first(); }
  // It is `now`, and a round begins: what is due happens. Asking and starting follow.
  void begin_round(Nanos now);
  // Something is asked of one, now; it starts what it can in start().
  SimulatedSlice& ask(std::size_t index);
  // Leaves a request with one, which certainly takes it, and on which it ends no sooner than
  // `ends_from`. False: it must be asked.
  bool leave(std::size_t index, const engine::EngineCore::Alone& request, Nanos ends_from);
  // Something happened on it in this round, or was asked.
  bool looked_at(std::size_t index) const { return slices_[index].seen == round_; }
  // Those that were looked at start what they can. `told` is told of what they put out, and when it
  // is heard; it may ask.
  void start(const Told& told);
  // From when it is asked next it is looked at whenever something happens there, until may_lag()
  // was called as often.
  void keep_up(std::size_t index) { ++slices_[index].keeps_up; }
  void may_lag(std::size_t index) { --slices_[index].keeps_up; }
  // The end: all that has happened until the last round. `until`: beyond that, what happens on
  // slices until then. Answers when the last of it was.
  Nanos finish(Nanos until = Nanos(0));

  // Null: it is not open. As it was when it was looked at last.
  const SimulatedSlice* at(std::size_t index) const { return slices_[index].slice.get(); }
  std::int64_t size() const { return std::ssize(slices_); }
  std::int64_t steps_passed() const { return steps_passed_; }

 private:
  // Held for microseconds, or by one for which the other would have to do the same work itself.
  class Lock {
   public:
    void lock();
    bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
    void unlock() { taken_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool> taken_{false};
  };

  // What the recorder is to be told: a part of an answer; or steps that were passed, of the first
  // so many requests and ends that have not been told.
  struct Note {
    LatencyRecorder::Part part;
    std::size_t requests = 0;
    std::size_t ends = 0;
  };
  struct Notes {
    std::vector<Note> notes;
    std::vector<RequestId> requests;
    std::vector<Nanos> ends;
  };

  // As of what a slice makes up for what has happened.
  struct Moment {
    Nanos now;
    std::int64_t round = 0;
    std::int64_t instant = 0;  // its first round
    std::int64_t seen = 0;     // the last round in which the slice was looked at
  };
  // A request that a slice has not taken yet.
  struct Left {
    engine::EngineCore::Alone request;
    Moment moment;
    bool had_turn = false;  // the slice had, then
  };

  // Of a slice. The second thread looks at these without its lock.
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
    Times* times = nullptr;
    Notes notes;              // with a second thread: what came of it while it was behind
    bool starts = false;      // what it can, when it was asked last, is to be made up for first
    bool ends_alone = false;  // and before that the end of the request that ran alone
    Left left;
    // Of the caller's thread alone.
    std::int64_t seen = 0;  // the last round in which it was looked at
    bool asked = false;     // since it started what it can
    bool happened = false;  // something did, then
    int keeps_up = 0;
    bool hung = false;             // its device, when it was looked at last
    Nanos ends_if_asked = kNever;  // no request ends there before, whatever is asked of it
    Nanos paused_until;
  };

  // The second thread.
  void help();
  bool make_up_some();
  void stop_helping();
  // All that a slice does by itself when its next event comes, or a request that was left.
  void run(Entry& entry);
  void run_event(Entry& entry);
  // Takes the request that was left. True: something happened on the slice in that round.
  bool take_left(Entry& entry);
  // The same, if one was, when nothing else is asked in that round.
  void take_left_alone(Entry& entry);
  // Whether that request runs alone, and so need not be submitted before something else is asked.
  bool begin_alone(Entry& entry);
  // Something else is: it is submitted as of when it came.
  void join_alone(Entry& entry);
  void submit(Entry& entry, RequestId request, Nanos at);
  // It starts what it can, later.
  static void start_later(Entry& entry, Nanos at);
  // Of what comes of that the recorder is told on the caller's thread.
  void note(Entry& entry, const request::Output& output, Nanos at);
  void note(Entry& entry, const SimulatedSlice::Passed& passed);
  void tell(const SimulatedSlice::Passed& passed);
  void tell(Entry& entry);
  // What has happened before now, and in rounds of this instant before this one. True: something is
  // due in this one.
  bool make_up(Entry& entry, const Moment& moment);
  // As it is now, also in the middle of what need not be looked at one by one.
  bool make_up_to_now(Entry& entry, const Moment& moment);
  Moment moment_of(const Entry& entry) const { return {now_, round_, instant_, entry.seen}; }
  // What need not be looked at one by one, up to its clock. Answers when the last step ended.
  Nanos pass(Entry& entry);
  // It has started what it can: looks when it must be looked at again.
  static void look_ahead(Entry& entry);
  // When something happens there, or is seen.
  static Nanos next_of(const Entry& entry);
  void set_due(std::size_t index);
  void start_one(std::size_t index, const Told& told);
  // The same where a request that ran alone has ended, and nothing else was asked since.
  void start_behind_alone(std::size_t index, const Told& told);
  // Whether it would have started already, had something been due there in this round.
  bool had_turn(std::size_t index) const { return started_ || (starting_ && index < turn_); }

  LatencyRecorder& recorder_;
  const bool helps_;
  const Make make_;
  std::vector<Times> times_;  // side by side, as the second thread looks at all of them
  std::deque<Entry> slices_;
  EventTree due_;
  Nanos now_;
  std::int64_t round_ = 0;
  std::int64_t instant_ = 0;        // its first round
  std::vector<std::size_t> asked_;  // will start
  std::vector<std::size_t> turns_;  // start now, in order
  std::size_t turn_ = 0;            // the one that does
  bool starting_ = false;           // those that were looked at first
  bool started_ = false;            // and these have
  std::int64_t steps_passed_ = 0;
  std::atomic<Nanos> behind_{Nanos(0)};  // the second thread makes up for what is before
  std::atomic<bool> stops_{false};
  std::thread helper_;
};

}  // namespace causeway::simulate
