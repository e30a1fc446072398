#include "device/cuda/cuda_api.h"

#include <gtest/gtest.h>

#include "device/testing/fake_cuda.h"

namespace causeway::device::cuda_api_test {
namespace {

using testing::FakeCuda;

TEST(CudaApi, AsksTheDriver) {
  FakeCuda driver;
  const auto facts = ask_cuda(driver.api());
  EXPECT_EQ(facts->driver_version, kCudaVersionMin);
  EXPECT_EQ(facts->devices, 2);
}

TEST(CudaApi, DriverErrorsAreNamed) {
  FakeCuda driver;
  driver.fail_next("cuInit", 999);
  const auto facts = ask_cuda(driver.api());
  EXPECT_EQ(facts.error().code, ErrorCode::kDevice);
  EXPECT_EQ(facts.error().message, "cuInit failed with 999: the driver's own words");
  CudaApi mute = driver.api();
  mute.cuGetErrorString = [](int, const char**) { return 1; };
  driver.fail_next("cuDeviceGetCount", 2);
  const auto full = ask_cuda(mute);
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(full.error().message.find("no description"), std::string::npos);
}

TEST(CudaApi, NoDeviceIsUnavailable) {
  {
    FakeCuda driver({.gpus = 0});
    EXPECT_EQ(ask_cuda(driver.api()).error().code, ErrorCode::kUnavailable);
  }
  FakeCuda driver;
  driver.fail_next("cuInit", kCudaNoDevice);
  const auto facts = ask_cuda(driver.api());
  EXPECT_EQ(facts.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(facts.error().message.find("no NVIDIA GPU"), std::string::npos);
}

TEST(CudaApi, AStartThatFailsTellsWhatToDo) {
  const std::pair<int, const char*> cases[] = {{kCudaStubLibrary, "stub"},
                                               {kCudaDeviceUnavailable, "compute mode"},
                                               {kCudaNoDevice, "nvidia-smi -L"},
                                               {kCudaInvalidDevice, "shows this process"},
                                               {kCudaOperatingSystem, "/dev/nvidia*"},
                                               {kCudaNotPermitted, "/dev/nvidia-caps"},
                                               {kCudaSystemNotReady, "fabricmanager"},
                                               {kCudaDriverMismatch, "reboot"},
                                               {kCudaCompatNotSupported, "update the driver"}};
  for (const auto& [result, advice] : cases) {
    for (const char* call : {"cuInit", "cuDeviceGetCount"}) {
      FakeCuda driver;
      driver.fail_next(call, result);
      const auto facts = ask_cuda(driver.api());
      ASSERT_FALSE(facts.ok());
      const std::string& message = facts.error().message;
      EXPECT_NE(message.find(std::to_string(result) + ": the driver's own words; "),
                std::string::npos)
          << message;
      EXPECT_NE(message.find(advice), std::string::npos) << message;
    }
  }
  FakeCuda none({.gpus = 0});
  EXPECT_NE(ask_cuda(none.api()).error().message.find("/dev/nvidia-caps"), std::string::npos);
}

TEST(CudaApi, OldDriversAreToldBothVersions) {
  FakeCuda driver({.driver_version = 12'040});
  const auto facts = ask_cuda(driver.api());
  EXPECT_EQ(facts.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(facts.error().message,
            "the NVIDIA driver is too old: it supports CUDA 12.4, and Causeway needs CUDA 13.0 or "
            "newer; update the driver");
}

TEST(CudaApi, MissingLibrarySaysSo) {
  const auto api = load_cuda_api("libcuda-that-nobody-has.so.1");
  EXPECT_EQ(api.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(api.error().message.rfind("no NVIDIA driver: ", 0), 0u) << api.error().message;
  EXPECT_NE(api.error().message.find("libcuda-that-nobody-has"), std::string::npos);
  EXPECT_NE(api.error().message.find("install one for CUDA 13.0"), std::string::npos);
}

TEST(CudaApi, LibraryWithoutTheEntryPointsIsNamed) {
  const auto api = load_cuda_api("libm.so.6");
  EXPECT_EQ(api.error().code, ErrorCode::kDevice);
  EXPECT_NE(api.error().message.find("lacks cuDriverGetVersion"), std::string::npos);
}

TEST(CudaApi, ThisMachine) {
  const auto api = load_cuda_api();
  if (!api.ok()) {
    EXPECT_EQ(api.error().message.rfind("no NVIDIA driver: ", 0), 0u) << api.error().message;
    GTEST_SKIP() << api.error().message;
  }
  const auto facts = ask_cuda(*api);
  if (facts.ok()) {
    EXPECT_GE(facts->driver_version, kCudaVersionMin);
  } else {
    EXPECT_EQ(facts.error().code, ErrorCode::kUnavailable) << facts.error().message;
  }
}

}  // namespace
}  // namespace causeway::device::cuda_api_test
