// A library that stands before a function of libc and calls the next one: a library that interposes
// dlsym() must not change which function RTLD_NEXT finds for it.
#include <dlfcn.h>

extern "C" __attribute__((visibility("default"))) long labs(long value) {
  using Labs = long (*)(long);
  const auto next = reinterpret_cast<Labs>(dlsym(RTLD_NEXT, "labs"));
  return 1'000'000 + next(value);
}
