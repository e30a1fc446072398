#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace causeway {
namespace {

constexpr int kHalfBits = 7;  // 128 buckets a doubling
constexpr std::int64_t kHalf = std::int64_t{1} << kHalfBits;

std::size_t bucket_of(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - kHalfBits - 1);
  return static_cast<std::size_t>(shift * kHalf + (value >> shift));
}

// The largest value that falls into the bucket.
std::int64_t upper_of(std::size_t bucket) {
  const auto index = static_cast<std::int64_t>(bucket);
  const std::int64_t shift = std::max<std::int64_t>(0, index / kHalf - 1);
  const std::uint64_t next = static_cast<std::uint64_t>(index - shift * kHalf + 1) << shift;
  return static_cast<std::int64_t>(next - 1);
}

}  // namespace

void Histogram::record(std::int64_t value, std::int64_t times) {
  CAUSEWAY_CHECK(times >= 0, "a histogram is to forget values");
  if (times == 0) return;
  value = std::max<std::int64_t>(value, 0);
  const std::size_t bucket = bucket_of(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  buckets_[bucket] += times;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void Histogram::record(std::span<const std::int64_t> values) {
  if (values.empty()) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::int64_t first = std::max<std::int64_t>(*least, 0);
  const std::int64_t last = std::max<std::int64_t>(*most, 0);
  if (bucket_of(last) >= buckets_.size()) buckets_.resize(bucket_of(last) + 1);
  double sum = sum_;
  for (const std::int64_t value : values) {
    const std::int64_t counted = std::max<std::int64_t>(value, 0);
    buckets_[bucket_of(counted)] += 1;
    sum += static_cast<double>(counted);
  }
  sum_ = sum;
  min_ = count_ == 0 ? first : std::min(min_, first);
  max_ = std::max(max_, last);
  count_ += std::ssize(values);
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (buckets_.size() < other.buckets_.size()) buckets_.resize(other.buckets_.size());
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

void Histogram::clear() { *this = Histogram(); }

std::int64_t Histogram::percentile(double fraction) const {
  if (count_ == 0) return 0;
  if (!(fraction > 0)) return min_;
  if (fraction >= 1) return max_;
  const double rank = std::ceil(fraction * static_cast<double>(count_));
  const auto wanted = std::clamp<std::int64_t>(static_cast<std::int64_t>(rank), 1, count_);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= wanted) return std::clamp(upper_of(i), min_, max_);
  }
  return max_;
}

}  // namespace causeway
