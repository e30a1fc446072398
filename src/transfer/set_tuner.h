// Which links to use while the machine does not behave as its map says: a hill climb over link sets,
// one link added or left out at a time, judged by bytes moved per window. It starts from the map's
// best set, does nothing while that gives what the map promises, and backs off when no change pays.
// Beyond the paper, which uses all links always.
//
// Pure: told what happened and when. Not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "transfer/transfer.h"

namespace causeway::transfer {

struct SetTunerOptions {
  double content = 0.85;    // of the promised rate: look no further
  double gain = 1.04;       // what a change must bring
  int window_chunks = 24;   // judged together
  int settle_chunks = 16;   // finished first after a change: they began before it
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
  // Nothing is waiting any more: what was counted says nothing.
  void pause();

 private:
  struct Trial {
    LinkSet links;
    int changed = 0;  // the link added or left out
  };
  void begin_window(Nanos now);
  void end_window(double rate, Nanos now);
  void start_trial(Nanos now);
  std::optional<int> next_change() const;

  const SetTunerOptions options_;
  const Start start_;
  LinkSet base_;
  double base_rate_ = 0;
  std::optional<Trial> trial_;
  std::set<int> tried_;  // links whose change did not pay since the last that did
  Nanos rest_;
  Nanos rests_until_;
  // The open window.
  int settling_ = 0;
  bool open_ = false;
  Nanos began_;
  int chunks_ = 0;
  std::vector<Bytes> bytes_;  // by link
};

}  // namespace causeway::transfer
