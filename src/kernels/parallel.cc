#include "kernels/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace causeway::kernels {

#ifdef _OPENMP
int thread_count() { return std::max(1, omp_get_max_threads()); }

// The setting is the calling thread's own: OpenMP keeps it by thread.
void limit_threads(int threads) { omp_set_num_threads(std::max(1, threads)); }

void run_parts(int parts, PartBody body) {
  if (parts <= 1) {
    if (parts == 1) body(0);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) body(part);
}
#else
int thread_count() { return 1; }

void limit_threads(int) {}

void run_parts(int parts, PartBody body) {
  for (int part = 0; part < parts; ++part) body(part);
}
#endif

}  // namespace causeway::kernels
