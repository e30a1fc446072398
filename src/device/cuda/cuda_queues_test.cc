#include "device/cuda/cuda_queues.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temporary_directory.h"

namespace causeway::device::cuda_queues_test {
namespace {

class CudaQueues : public ::testing::Test {
 protected:
  void add(const std::string& name) { std::ofstream(folder_.path() / name); }
  int queues(bool own_links) { return cuda_queues(own_links, folder_.path()); }

  TemporaryDirectory folder_;
};

TEST_F(CudaQueues, AreFewWithOneGpu) {
  EXPECT_EQ(queues(false), kCudaQueues);
  for (const char* name : {"nvidia7", "nvidiactl", "nvidia-uvm", "nvidia", "nvidia-caps", "null"}) {
    add(name);
  }
  EXPECT_EQ(queues(false), kCudaQueues);
}

TEST_F(CudaQueues, AreManyWhereSeveralGpusMayRelay) {
  add("nvidia0");
  add("nvidia12");
  EXPECT_EQ(queues(false), kCudaQueuesOfRelays);
  EXPECT_EQ(queues(true), kCudaQueues);
}

TEST_F(CudaQueues, AreManyWhereGpusCannotBeCounted) {
  EXPECT_EQ(cuda_queues(false, folder_.path() / "missing"), kCudaQueuesOfRelays);
}

}  // namespace
}  // namespace causeway::device::cuda_queues_test
