#include "commands/gpu_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "slice/model_home.h"

namespace causeway::app::gpu_option_test {
namespace {

using ::testing::HasSubstr;

TEST(GpuOption, IsANumberOrAName) {
  for (const char* text : {"0", "63", "GPU-8f3c01d2-0000-1111-2222-333344445555", "MIG-aa"}) {
    EXPECT_EQ(check_gpu_option(text), "") << text;
  }
  for (const char* text : {"", "-1", "+1", "1x", "one", "gpu-8f", "99999999999", "*", " 0"}) {
    EXPECT_THAT(check_gpu_option(text), HasSubstr("neither a number from 0")) << text;
  }
}

TEST(GpuOption, NumbersStayAsTheyAreAndNamesWantAGpu) {
  const RealClock clock;
  slice::ModelHome home(clock, mib(1));
  const auto machine = slice::Machine::open_host({}, {}, home, clock).value();
  for (const char* slices : {"all", "", "0:all;1:2x4", ";", "2x1;", "x:GPU-1"}) {
    const auto choice = gpu_choice("3", slices, *machine);
    ASSERT_TRUE(choice.ok()) << choice.error().message;
    EXPECT_EQ(choice->gpu, 3);
    EXPECT_EQ(choice->slices, slices);
  }
  EXPECT_THAT(gpu_choice("GPU-8f", "all", *machine).error().message, HasSubstr("--device cuda"));
  for (const char* slices : {"GPU-8f:all", "0:all;GPU-8f:2x4", "0:all;MIG-aa:all"}) {
    EXPECT_THAT(gpu_choice("0", slices, *machine).error().message, HasSubstr("--device cuda"))
        << slices;
  }
}

}  // namespace
}  // namespace causeway::app::gpu_option_test
