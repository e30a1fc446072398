#include "device/cuda/cuda_queues.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <system_error>

namespace causeway::device {
namespace {

bool is_gpu(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

int cuda_queues(bool own_links, const std::filesystem::path& devices) {
  if (own_links) return kCudaQueues;
  int gpus = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator each(devices, failed), end; !failed && each != end;
       each.increment(failed)) {
    gpus += is_gpu(each->path().filename().string());
  }
  return failed || gpus > 1 ? kCudaQueuesOfRelays : kCudaQueues;
}

void set_cuda_queues(bool own_links) {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(cuda_queues(own_links)).c_str(), 0);
}

}  // namespace causeway::device
