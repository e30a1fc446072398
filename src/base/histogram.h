// A recorder of non-negative integers (durations in nanoseconds, lengths in tokens) that answers
// for percentiles in little memory: buckets grow with the value, so that a percentile is at most
// 1/128 (0.8 %) above the recorded value it stands for; values below 256 are exact.
//
//   value       0 1 2 … 255 │ 256 258 … 510 │ 512 516 … │ …
//   bucket width      1     │       2       │     4     │ …      128 buckets a doubling
//
// Count, sum, minimum and maximum are exact. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace causeway {

class Histogram {
 public:
  // A negative value counts as 0.
  void record(std::int64_t value, std::int64_t times = 1);
  // The same of each of these, once.
  void record(std::span<const std::int64_t> values);
  void merge(const Histogram& other);
  void clear();

  std::int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  std::int64_t min() const { return count_ == 0 ? 0 : min_; }
  std::int64_t max() const { return max_; }

  // The value that a `fraction` (0 to 1) of the recorded ones do not exceed, by nearest rank: 0 is
  // the minimum, 0.5 the median, 1 the maximum. 0 when nothing was recorded.
  std::int64_t percentile(double fraction) const;

 private:
  std::vector<std::int64_t> buckets_;  // as many as the largest recorded value needs
  std::int64_t count_ = 0;
  double sum_ = 0;
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace causeway
