// A CUDA driver that fails when it is told to, for tests on a GPU: preloaded before `causeway`, it
// stands in for some of the driver's entry points in the table of a program that looks them up with
// dlsym(). The file that CAUSEWAY_FAULT_FILE names says what they do from now on:
//
//   (no file)   what the driver does
//   lost        work that is waited for has failed with an illegal address
//   lost-1      the same on the second GPU alone
//   full        no memory is left on the GPU
//   unpinned    host memory cannot be registered: pages cannot be pinned
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

constexpr int kOutOfMemory = 2;
constexpr int kIllegalAddress = 700;

using Lookup = void* (*)(void*, const char*);

bool told(const char* what) {
  static const char* const file = std::getenv("CAUSEWAY_FAULT_FILE");
  std::string word;
  return file != nullptr && std::ifstream(file) >> word && word == what;
}

int (*real_event_query)(void*) = nullptr;
int (*real_stream_query)(void*) = nullptr;
int (*real_context_device)(int*) = nullptr;
int (*real_create)(unsigned long long*, std::size_t, const void*, unsigned long long) = nullptr;
int (*real_register)(void*, std::size_t, unsigned) = nullptr;

// Whether the GPU whose context the caller has is lost.
bool is_lost() {
  if (told("lost")) return true;
  int device = 0;
  return told("lost-1") && real_context_device != nullptr && real_context_device(&device) == 0 &&
         device == 1;
}
int event_query(void* event) { return is_lost() ? kIllegalAddress : real_event_query(event); }
int stream_query(void* stream) { return is_lost() ? kIllegalAddress : real_stream_query(stream); }
int create(unsigned long long* handle, std::size_t bytes, const void* properties,
           unsigned long long flags) {
  return told("full") ? kOutOfMemory : real_create(handle, bytes, properties, flags);
}
int register_host(void* address, std::size_t bytes, unsigned flags) {
  return told("unpinned") ? kOutOfMemory : real_register(address, bytes, flags);
}

Lookup real_dlsym() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version)) {
      return reinterpret_cast<Lookup>(found);
    }
  }
  std::abort();
}

template <typename Function>
void* stand_in(void* found, Function& real, Function ours) {
  real = reinterpret_cast<Function>(found);
  return reinterpret_cast<void*>(ours);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* library, const char* name) {
  static const Lookup look_up = real_dlsym();
  void* const found = look_up(library, name);
  if (found == nullptr) return nullptr;
  if (real_context_device == nullptr && std::strncmp(name, "cu", 2) == 0) {
    real_context_device = reinterpret_cast<int (*)(int*)>(look_up(library, "cuCtxGetDevice"));
  }
  if (std::strcmp(name, "cuEventQuery") == 0) {
    return stand_in(found, real_event_query, event_query);
  }
  if (std::strcmp(name, "cuStreamQuery") == 0) {
    return stand_in(found, real_stream_query, stream_query);
  }
  if (std::strcmp(name, "cuMemHostRegister_v2") == 0) {
    return stand_in(found, real_register, register_host);
  }
  if (std::strcmp(name, "cuMemCreate") == 0) return stand_in(found, real_create, create);
  return found;
}
