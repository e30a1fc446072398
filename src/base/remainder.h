// The remainder by a divisor that stays the same, without dividing: a multiplication says how often
// the divisor fits, or once less.
#pragma once

#include <cstdint>
#include <limits>

#include "base/check.h"

namespace causeway {

class Remainder {
 public:
  explicit Remainder(std::uint64_t divisor) : divisor_(divisor) {
    CAUSEWAY_CHECK(divisor > 0, "no remainder is left by zero");
    inverse_ = std::numeric_limits<std::uint64_t>::max() / divisor;
  }

  // value % divisor.
  std::uint64_t of(std::uint64_t value) const {
    // 2^64 / divisor − inverse_ ≤ 1, so that what is left of the quotient is less than 1, too.
    const auto product = static_cast<unsigned __int128>(value) * inverse_;
    const std::uint64_t left = value - static_cast<std::uint64_t>(product >> 64) * divisor_;
    return left < divisor_ ? left : left - divisor_;
  }

 private:
  std::uint64_t divisor_;
  std::uint64_t inverse_;
};

}  // namespace causeway
