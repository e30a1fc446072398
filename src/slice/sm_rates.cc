#include "slice/sm_rates.h"

#include <algorithm>
#include <array>

namespace causeway::slice {
namespace {

struct Read {
  double processors = 0, bandwidth = 0;  // shares
};
constexpr std::array kReads = {Read{0, 0}, Read{16.0 / 132, 0.27}, Read{32.0 / 132, 0.55},
                               Read{64.0 / 132, 0.89}, Read{1, 1}};

// The share of its peak that an H200's memory gives a step.
constexpr double kOfPeak = 0.85;

}  // namespace

double bytes_per_sm(double memory_peak, int sms) {
  if (!(memory_peak > 0) || sms < 1) return kBytesPerSm;
  return std::min(kOfPeak * memory_peak / sms, kBytesPerSm);
}

double bandwidth_alone(double processors) {
  const auto above = std::find_if(kReads.begin() + 1, kReads.end() - 1,
                                  [&](const Read& read) { return read.processors >= processors; });
  const Read& low = *(above - 1);
  const double part = (processors - low.processors) / (above->processors - low.processors);
  return low.bandwidth + part * (above->bandwidth - low.bandwidth);
}

}  // namespace causeway::slice
