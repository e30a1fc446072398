#include "openmp_waits.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>

namespace causeway::app {

void wait_briefly(char** argv, char* (*get_environment)(const char*)) {
  constexpr const char* kSpins = "GOMP_SPINCOUNT";
  if (get_environment("OMP_WAIT_POLICY") != nullptr || get_environment(kSpins) != nullptr) return;
  // Started as an argument of the dynamic loader: /proc/self/exe is that.
  if (::getauxval(AT_BASE) == 0) return;
  if (::setenv(kSpins, kSpinPauses, 0) != 0) return;
  ::execv("/proc/self/exe", argv);
}

}  // namespace causeway::app
