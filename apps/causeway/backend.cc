#include "backend.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace causeway::app {
namespace {

constexpr double kGigabyte = 1e9;

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / kGigabyte; }

}  // namespace

std::function<void(const weights::LoadProgress&)> log_progress(std::string name) {
  static constexpr Nanos kEvery = seconds(2);
  return [name = std::move(name), next = kEvery](const weights::LoadProgress& p) mutable {
    if (p.elapsed < next) return;
    next = p.elapsed + kEvery;
    spdlog::info("loading {}: {:.1f} of {:.1f} GB, {:.2f} GB/s, {:.0f} s left", name,
                 gigabytes(p.done), gigabytes(p.total), p.bytes_per_second / kGigabyte,
                 to_seconds(p.remaining));
  };
}

void log_loaded(const std::string& name, Bytes bytes, Nanos took) {
  spdlog::info("loaded {}: {:.2f} GB in {:.2f} s ({:.2f} GB/s)", name, gigabytes(bytes),
               to_seconds(took), gigabytes(bytes) / std::max(1e-9, to_seconds(took)));
}

}  // namespace causeway::app
