// Threads for work whose duration strangers decide: compiling their grammars, finding what may come
// next in them. Such work cannot be interrupted. A thread that is long with a job is late: it is
// left to it, and another one takes its place, up to a limit.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/units.h"

namespace causeway::grammar {

struct WorkPoolOptions {
  int threads = 2;                // that are not late
  int threads_max = 6;            // with those that are
  Nanos late = millis(500);       // a job that runs longer
  std::size_t queued_max = 4096;  // jobs that wait; more are refused
  int niceness = 0;               // of its threads, as nice(1) has it
};

class WorkPool {
 public:
  // Threads start as they are needed. The clock outlives the pool.
  WorkPool(const WorkPoolOptions& options, const Clock& clock);
  // Drops the jobs that wait, and waits two seconds at most for those that run. A thread that is
  // still busy then is left: what its job uses must be the job's own.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Has the job run on one of the threads; it throws nothing. False: too many wait, or no thread
  // can be had. Any thread; does not block.
  bool post(std::function<void()> job);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace causeway::grammar
