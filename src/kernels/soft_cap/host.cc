#include <cmath>

#include "base/check.h"
#include "kernels/parallel.h"
#include "kernels/soft_cap/soft_cap.h"

namespace causeway::kernels::soft_cap {

void run(const Params& p) {
  CAUSEWAY_CHECK(p.cap > 0, "a cap that is not above 0");
  constexpr std::int64_t kElementsPerThread = 8 << 10;
  parallel_ranges(p.count, kElementsPerThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) p.x[i] = p.cap * std::tanh(p.x[i] / p.cap);
  });
}

}  // namespace causeway::kernels::soft_cap
