// The common beginning of the library's own GPU programs: errors of CUDA end them, and the library
// lies beside them.
#pragma once

#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK_CUDA(call)                                                                   \
  do {                                                                                     \
    const cudaError_t status = (call);                                                     \
    if (status != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                   \
                   cudaGetErrorString(status));                                            \
      std::_Exit(2);                                                                       \
    }                                                                                      \
  } while (false)

namespace causeway::preload::testing {

inline constexpr int kSkipped = 77;

// The path of this program; "" when the system does not tell.
inline std::string own_path() {
  char self[4096] = {};
  return readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ? "" : self;
}

// What CAUSEWAY_PRELOAD_LIBRARY names, or where a build tree or a bundle has it; "": nowhere.
inline std::string library_for(const std::string& program) {
  if (const char* given = std::getenv("CAUSEWAY_PRELOAD_LIBRARY")) return given;
  const std::string folder = program.substr(0, program.rfind('/') + 1);
  for (const char* place : {"libcauseway-preload.so", "../lib/libcauseway-preload.so",
                            "lib/libcauseway-preload.so"}) {
    const std::string path = folder + place;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

// How to tell the dynamic linker of a library in any folder. The linker cuts LD_PRELOAD at spaces,
// but LD_LIBRARY_PATH only at colons and semicolons: the one names the library, the other its
// folder.
struct Preloading {
  std::string ld_preload;
  std::string ld_library_path;
};

inline Preloading preloading(const std::string& library) {
  const std::size_t slash = library.rfind('/');
  const char* const others = std::getenv("LD_LIBRARY_PATH");
  Preloading made{library, others == nullptr ? "" : others};
  if (slash == std::string::npos) return made;
  made.ld_preload = library.substr(slash + 1);
  made.ld_library_path.insert(0, library.substr(0, slash + 1) + (others == nullptr ? "" : ":"));
  return made;
}

}  // namespace causeway::preload::testing
