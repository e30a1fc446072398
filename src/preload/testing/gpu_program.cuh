// What the library's own GPU programs begin with: errors of CUDA end them, and the library lies
// beside them.
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

// The path of this program; "" when the system does not say.
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

}  // namespace causeway::preload::testing
