#include "bench/transfer/background_traffic.h"

namespace causeway::transfer::bench {
namespace {
constexpr int kPatience = 100;  // how many times longer a copy may take than is measured
}

Result<std::unique_ptr<BackgroundTraffic>> BackgroundTraffic::start(
    std::unique_ptr<NativeCopies> native, const std::vector<device::Copy>& copies,
    const Clock& clock) {
  auto traffic = std::make_unique<BackgroundTraffic>(clock);
  traffic->native_ = std::move(native);
  CAUSEWAY_TRY(traffic->native_->prepare(copies));
  std::int64_t bytes = 0;
  for (const device::Copy& copy : copies) bytes += copy.bytes.count;
  traffic->thread_ = std::thread([raw = traffic.get(), bytes] { raw->loop(bytes); });
  return Result<std::unique_ptr<BackgroundTraffic>>(std::move(traffic));
}

BackgroundTraffic::~BackgroundTraffic() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

void BackgroundTraffic::loop(std::int64_t bytes) {
  while (!stop_.load() && !failed_.load()) {
    if (!native_->time(NativeCopies::How::kLoop, clock_).ok()) failed_.store(true);
    bytes_ += bytes;
  }
}

Result<double> BackgroundTraffic::rate_alone(Nanos length) {
  // A busy machine may let no copy end in so short a time.
  const std::int64_t before = bytes_.load();
  bool moved = false;
  CAUSEWAY_ASSIGN(
      const double rate, rate_during([&]() -> Status {
        const Nanos begin = clock_.now();
        while (clock_.now() - begin < (moved ? length : length * kPatience) && !failed_.load()) {
          moved = bytes_.load() != before;
          std::this_thread::yield();
        }
        return {};
      }));
  if (moved) return rate;
  return Error{ErrorCode::kDeadlineExceeded, "no native copy ended in the time of the measurement"};
}

}  // namespace causeway::transfer::bench
