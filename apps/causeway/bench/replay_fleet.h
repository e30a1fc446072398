// A replay of a fleet in this process: each request of the list is given to it at its time, without
// HTTP, tokenizer and another process, and its tokens are timed where a server would take them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/replay_list.h"
#include "bench/replay_report.h"
#include "engine/slice_handle.h"
#include "fleet/fleet.h"

namespace causeway::bench {

// Times what the fleet puts out. Requests are known by their places in the list. Thread-safe.
class ReplaySink final : public engine::OutputSink {
 public:
  explicit ReplaySink(const Clock& clock) : clock_(clock) {}

  // Before the first request is submitted: so many, of which none has been answered.
  void begin(std::size_t requests);
  void on_outputs(std::vector<request::Output> outputs) override;
  // It was not taken.
  void refused(std::size_t request, const Error& error);
  // It takes too long, and is cancelled. False: it has ended.
  bool give_up(std::size_t request);
  // Until `until`, or all that were begun have ended: true.
  bool wait(Nanos until);
  LoadProgress progress() const;

  struct Answers {
    std::vector<StreamOutcome> of;  // in the list's order; `sent` is the fleet's
    std::int64_t switches = 0;
    Nanos switching;  // of all of them
  };
  // At the end. What has not ended by now is given up.
  Answers take();

 private:
  void end(StreamOutcome& outcome, Nanos now);

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable all_ended_;
  Answers answers_;
  std::vector<std::uint8_t> ended_, given_up_;
  LoadProgress progress_;
};

struct FleetReplay {
  std::string source = {};           // what the fleet is made of, for the report
  std::int64_t vocab = 0;            // as replay_requests() takes it
  Nanos request_max = seconds(120);  // a request that takes longer is given up
  std::function<void(const LoadProgress&)> progress = {};  // a few times a second
};

// Blocks until the last request has ended or is given up. `answers` is the fleet's sink. Errors of
// replay_list(), and of replay_requests() where a model does not take a request; requests that fail
// are in the report.
Result<ReplayReport> replay_on_fleet(fleet::Fleet& fleet, ReplaySink& answers,
                                     const FleetReplay& replay, const ReplayOptions& options,
                                     const Clock& clock);

}  // namespace causeway::bench
