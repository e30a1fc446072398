// A library that stands before one of libc's functions and calls the next: a library that
// interposes dlsym() must not change what "next" is for it.
#include <dlfcn.h>

extern "C" __attribute__((visibility("default"))) long labs(long value) {
  using Labs = long (*)(long);
  const auto next = reinterpret_cast<Labs>(dlsym(RTLD_NEXT, "labs"));
  return 1'000'000 + next(value);
}
