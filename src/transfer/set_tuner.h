// Which links to use while the machine does not behave as its map says: a hill climb over link
// sets, judged by bytes moved per window. It starts from the map's best set and does nothing while
// that gives what the map promises. Else it tries all links, then one more, then one less, and
// keeps what pays; away from the map's set it tries that again even when it has what was promised.
// The cost of trials is bounded: each is paid for from a credit that grows with the bytes moved.
// This goes beyond the paper, which always uses all links.
//
// Pure: it is told what happened and when. Not thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "transfer/transfer.h"

namespace causeway::transfer {

struct SetTunerOptions {
  double content = 0.85;  // of the promised rate; above it nothing is tried
  double gain = 1.015;    // what a change must bring
  int window_chunks = 4;  // of each link, judged together
  // The rate of the links is the best of so many windows, because a window in which the machine was
  // disturbed says nothing, and a disturbance may lie across two. A trial that pays must pay in two
  // windows.
  int windows = 3;
  int pauses = 3;  // that end a trial
  // The part of the moved bytes that trials may lose: 3 %, saved up to credit_max.
  double regret = 0.03;
  Bytes credit_max = mib(256);
  Nanos rest = millis(20);  // after a round without success; doubles up to rest_max
  Nanos rest_max = seconds(1);
};

class SetTuner {
 public:
  struct Start {
    LinkSet best;
    double promised = 0;        // bytes per second; 0: unknown, so that it keeps looking
    LinkSet reach;              // links that may be added
    std::vector<double> alone;  // by link
  };
  SetTuner(SetTunerOptions options, Start start);

  LinkSet current() const { return trial_ ? trial_->links : base_; }
  // A chunk arrived over `link` while more was waiting.
  void moved(int link, Bytes bytes, Nanos now);
  // Nothing waits any more, so what was counted says nothing. A trial continues with the next
  // transfer, but not for long: transfers may be too short for a verdict, and all of them would
  // bear its cost.
  void pause();

 private:
  struct Trial {
    LinkSet links;
    double loss = 0;    // expected at most, of the base's rate
    bool paid = false;  // in its first window
    int pauses = 0;     // since it began or paid
    Bytes bytes = {};
  };
  void give_up_trial();
  void begin_window(Nanos now);
  void end_window(double rate, Nanos now);
  void start_trial(Nanos now, bool content);
  std::optional<Trial> next_change() const;
  std::optional<Trial> way_home() const;
  void open_later();
  Bytes total() const;
  double rate() const;

  const SetTunerOptions options_;
  const Start start_;
  LinkSet base_;
  double base_rate_ = 0;
  std::deque<double> base_rates_;  // of its last windows
  std::optional<Trial> trial_;
  std::set<LinkSet> tried_;  // tried without gain since the last gain
  double credit_ = 0;        // bytes
  Nanos rest_;
  Nanos rests_until_;
  bool content_ = false;  // at the last verdict on the base
  // The open window. Links end chunks in step with each other, so a count over all links would
  // depend on where in the step the window begins. Each link's rate is therefore measured from its
  // own first end to its last.
  struct Seen {
    Nanos first;
    Nanos last;
    Bytes bytes;  // after the first end
    bool any = false;
  };
  int settling_ = 0;
  bool open_ = false;
  bool paused_ = true;
  Nanos began_;
  int chunks_ = 0;
  std::vector<Seen> seen_;  // by link
};

}  // namespace causeway::transfer
