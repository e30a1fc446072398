// Native copies that keep a link busy, from a thread of their own, and count what they move.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "bench/transfer/native_copies.h"

namespace causeway::transfer::bench {

class BackgroundTraffic {
 public:
  // `copies` again and again until destroyed. The clock must outlive it.
  static Result<std::unique_ptr<BackgroundTraffic>> start(std::unique_ptr<NativeCopies> native,
                                                          const std::vector<device::Copy>& copies,
                                                          const Clock& clock);
  ~BackgroundTraffic();
  BackgroundTraffic(const BackgroundTraffic&) = delete;
  BackgroundTraffic& operator=(const BackgroundTraffic&) = delete;

  // Bytes per second while `work` ran.
  template <typename Work>
  Result<double> rate_during(Work work) {
    const std::int64_t before = bytes_.load();
    const Nanos begin = clock_.now();
    CAUSEWAY_TRY(work());
    const double took = to_seconds(clock_.now() - begin);
    if (failed_.load()) return Error{ErrorCode::kDevice, "the background's copies failed"};
    return static_cast<double>(bytes_.load() - before) / took;
  }
  // The same, of nothing but waiting.
  Result<double> rate_alone(Nanos length);

  explicit BackgroundTraffic(const Clock& clock) : clock_(clock) {}  // for start()

 private:
  void loop(std::int64_t bytes);

  const Clock& clock_;
  std::unique_ptr<NativeCopies> native_;
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace causeway::transfer::bench
