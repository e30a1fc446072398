// Hardware queues of a GPU's context. A stream that waits for a word of memory holds up the copies
// of streams that share its queue. On an H200 with driver 580.159 (an experiment whose program is
// not kept here) most streams share one unless the driver is told how many to make; told 8, none of
// 20 streams of a context holds up another, nor does one of any green context, which has queues of
// its own. Told 32, a context takes 0.4 s more to make.
#pragma once

#include <filesystem>

namespace causeway::device {

inline constexpr int kCudaQueues = 8;
// Where copies for other GPUs pass through this one: several engines have streams in its context.
inline constexpr int kCudaQueuesOfRelays = 32;

// How many a process wants. `own_links`: no copy passes through another GPU. `devices`: the folder
// with a file for each GPU that the process may open (`nvidia0`). The driver itself tells their
// number too late: it reads what it is told when it is initialised.
int cuda_queues(bool own_links, const std::filesystem::path& devices = "/dev");

// Tells the driver (CUDA_DEVICE_MAX_CONNECTIONS), unless the user did. Before it is initialised.
void set_cuda_queues(bool own_links);

}  // namespace causeway::device
