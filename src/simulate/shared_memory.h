// The bandwidth of a memory that several slices of one GPU share. Each slice reads as fast as its
// processors can while the others leave that much; otherwise all get equal shares. Each other that
// reads, at whatever rate, makes its reads slower, by `slowdown` of what they take alone. Pure.
#pragma once

#include <algorithm>
#include <map>

namespace causeway::simulate {

class SharedMemory {
 public:
  explicit SharedMemory(double bytes_per_second, double slowdown = 0)
      : rate_(bytes_per_second), slowdown_(slowdown) {}

  // The part of the rate `own` that the user gets beside the present use of the others.
  double granted(int user, double own) const {
    double others = 0, users = 1;
    for (const auto& [other, rate] : used_) {
      if (other == user || rate <= 0) continue;
      others += rate;
      users += 1;
    }
    const double slowed = own / (1 + slowdown_ * (users - 1));
    return std::min(slowed, std::max(rate_ - others, rate_ / users));
  }
  // Sets the user's rate from now on; zero: it reads nothing.
  void use(int user, double bytes_per_second) { used_[user] = bytes_per_second; }

 private:
  const double rate_, slowdown_;
  std::map<int, double> used_;
};

}  // namespace causeway::simulate
