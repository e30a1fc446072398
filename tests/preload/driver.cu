#include "driver.cuh"

#include <dlfcn.h>

#include <functional>

#include "program.h"

#define PROGRAM_TEXT_OF(name) #name
#define PROGRAM_TEXT(name) PROGRAM_TEXT_OF(name)

namespace program {

namespace {

// Finds a function by its name in documents, and that of its current version in the library.
using Find = std::function<void*(const char* name, const char* versioned)>;

Find by_dlsym(bool per_thread) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Skip("no CUDA driver");
  return [library, per_thread](const char*, const char* versioned) {
    if (per_thread) {
      for (const char* const twin : {"_ptsz", "_ptds"}) {
        if (void* const found = ::dlsym(library, (std::string(versioned) + twin).c_str()))
          return found;
      }
    }
    return ::dlsym(library, versioned);
  };
}

// The CUDA version whose function of that name cuda.h declares.
int version_of(const std::string& name) {
  return name == "cuCtxSynchronize" ? 12000 : 13000;  // that of 13.0 takes a context
}

Find by_proc_address(bool per_thread) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Skip("no CUDA driver");
  const auto ask = reinterpret_cast<decltype(&::cuGetProcAddress)>(
      ::dlsym(library, PROGRAM_TEXT(cuGetProcAddress)));
  expect(ask != nullptr, "the driver has no %s", PROGRAM_TEXT(cuGetProcAddress));
  const cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                      : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  return [ask, flags](const char* name, const char*) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult result{};
    if (ask(name, &found, version_of(name), flags, &result) != CUDA_SUCCESS)
      return static_cast<void*>(nullptr);
    return found;
  };
}

Driver found_by(const Find& find) {
  Driver made;
#define PROGRAM_DRIVER_FIND(name)                                                      \
  made.name##_ = reinterpret_cast<decltype(&::name)>(find(#name, PROGRAM_TEXT(name))); \
  expect(made.name##_ != nullptr, "the driver has no %s", PROGRAM_TEXT(name));
  PROGRAM_DRIVER_FUNCTIONS(PROGRAM_DRIVER_FIND)
#undef PROGRAM_DRIVER_FIND
  return made;
}

#ifdef PROGRAM_LINKED
Driver linked() {
  Driver made;
#define PROGRAM_DRIVER_LINKED(name) made.name##_ = &::name;
  PROGRAM_DRIVER_FUNCTIONS(PROGRAM_DRIVER_LINKED)
#undef PROGRAM_DRIVER_LINKED
  return made;
}
#endif

}  // namespace

Driver find_driver(const std::string& way) {
#ifdef PROGRAM_LINKED
  if (way == "linked") return linked();
#endif
  if (way == "dlsym") return found_by(by_dlsym(false));
  if (way == "dlsym-ptds") return found_by(by_dlsym(true));
  if (way == "proc") return found_by(by_proc_address(false));
  if (way == "proc-ptds") return found_by(by_proc_address(true));
  throw Wrong("PROGRAM_DRIVER: this program knows no way '" + way + "' to the driver");
}

}  // namespace program
