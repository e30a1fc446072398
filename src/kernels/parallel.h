// The one way in which kernels use several cores: OpenMP's pool, which oneDNN uses too, so that no
// second pool competes with it. Without OpenMP everything runs on the calling thread.
//
// A body must not throw, and must not itself start parallel work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace causeway::kernels {

// A borrowed callable: body(part) for part in [0, parts).
class PartBody {
 public:
  template <typename F>
  PartBody(F& body)  // NOLINT: implicit
      : object_(&body), call_([](void* object, int part) { (*static_cast<F*>(object))(part); }) {}
  void operator()(int part) const { call_(object_, part); }

 private:
  void* object_;
  void (*call_)(void*, int);
};

// How many parts can run at once: as many as there are processors, or as the calling thread was
// limited to.
int thread_count();

// From now on kernels that the calling thread runs take at most so many threads ≥ 1, itself
// included, oneDNN's too. What other threads run is not concerned: each has threads of its own.
void limit_threads(int threads);

// Runs body(0) … body(parts - 1), each on its own thread where there are enough; returns when all
// have ended. parts ≤ thread_count().
void run_parts(int parts, PartBody body);

// Cuts [0, count) into one contiguous range a thread, none shorter than `grain` unless it is the
// only one: body(begin, end).
template <typename F>
void parallel_ranges(std::int64_t count, std::int64_t grain, F&& body) {
  if (count <= 0) return;
  const std::int64_t wanted = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, grain));
  const int parts = static_cast<int>(std::min<std::int64_t>(wanted, thread_count()));
  auto part_body = [&](int part) { body(count * part / parts, count * (part + 1) / parts); };
  run_parts(parts, part_body);
}

// Items of unequal cost, taken one by one by whichever thread is free: body(item, part). `part` is
// the thread's number, < thread_count(), for scratch memory.
template <typename F>
void parallel_items(std::int64_t count, F&& body) {
  if (count <= 0) return;
  std::atomic<std::int64_t> next{0};
  auto part_body = [&](int part) {
    for (;;) {
      const std::int64_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= count) return;
      body(item, part);
    }
  };
  run_parts(static_cast<int>(std::min<std::int64_t>(count, thread_count())), part_body);
}

}  // namespace causeway::kernels
