#include "device/cuda/cuda_api.h"

#include <gtest/gtest.h>

namespace causeway::device {
namespace {

// A driver of a machine with two GPUs, with single calls replaced.
CudaApi two_gpus() {
  return {.cuInit = [](unsigned) { return 0; },
          .cuDriverGetVersion =
              [](int* version) {
                *version = 13'000;
                return 0;
              },
          .cuDeviceGetCount =
              [](int* count) {
                *count = 2;
                return 0;
              },
          .cuGetErrorString =
              [](int, const char** text) {
                *text = "the driver's own words";
                return 0;
              }};
}

TEST(CudaApi, AsksTheDriver) {
  const auto facts = ask_cuda(two_gpus());
  EXPECT_EQ(facts->driver_version, 13'000);
  EXPECT_EQ(facts->devices, 2);
}

TEST(CudaApi, DriverErrorsAreNamed) {
  CudaApi api = two_gpus();
  api.cuDriverGetVersion = [](int*) { return 999; };
  const auto facts = ask_cuda(api);
  EXPECT_EQ(facts.error().code, ErrorCode::kDevice);
  EXPECT_EQ(facts.error().message, "cuDriverGetVersion failed with 999: the driver's own words");
  api.cuGetErrorString = [](int, const char**) { return 1; };
  EXPECT_NE(ask_cuda(api).error().message.find("no description"), std::string::npos);
}

TEST(CudaApi, NoDeviceIsUnavailable) {
  CudaApi api = two_gpus();
  api.cuDeviceGetCount = [](int* count) { return *count = 0; };
  EXPECT_EQ(ask_cuda(api).error().code, ErrorCode::kUnavailable);
  api.cuInit = [](unsigned) { return 100; };
  EXPECT_EQ(ask_cuda(api).error().code, ErrorCode::kUnavailable);
  EXPECT_NE(ask_cuda(api).error().message.find("no NVIDIA GPU"), std::string::npos);
}

TEST(CudaApi, MissingLibrarySaysSo) {
  const auto api = load_cuda_api("libcuda-that-nobody-has.so.1");
  EXPECT_EQ(api.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(api.error().message.rfind("no NVIDIA driver: ", 0), 0u) << api.error().message;
  EXPECT_NE(api.error().message.find("libcuda-that-nobody-has"), std::string::npos);
}

TEST(CudaApi, LibraryWithoutTheEntryPointsIsNamed) {
  const auto api = load_cuda_api("libm.so.6");
  EXPECT_EQ(api.error().code, ErrorCode::kDevice);
  EXPECT_NE(api.error().message.find("lacks cuInit"), std::string::npos);
}

TEST(CudaApi, ThisMachine) {
  const auto api = load_cuda_api();
  if (!api.ok()) {
    EXPECT_EQ(api.error().message.rfind("no NVIDIA driver: ", 0), 0u) << api.error().message;
    GTEST_SKIP() << api.error().message;
  }
  const auto facts = ask_cuda(*api);
  if (facts.ok()) {
    EXPECT_GT(facts->driver_version, 0);
  } else {
    EXPECT_EQ(facts.error().code, ErrorCode::kUnavailable) << facts.error().message;
  }
}

}  // namespace
}  // namespace causeway::device
