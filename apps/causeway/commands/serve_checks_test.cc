#include "commands/serve_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::app::serve_checks_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Room for four models of 20 MiB at home, for two on the device.
const ServeMemory kMemory{.pool = mib(80), .device = {.budget = mib(64), .extent = mib(32)}};

ServedModel model(const char* name, Bytes bytes, bool pinned = false) {
  return {name, bytes, pinned};
}

TEST(ServeChecks, WhatFitsPasses) {
  EXPECT_TRUE(
      check_memory({model("a", mib(20), true), model("b", mib(60), true)}, {kMemory.pool}).ok());
  EXPECT_TRUE(check_memory({model("a", mib(20), true), model("b", mib(60))}, kMemory).ok());
  EXPECT_TRUE(check_pins({"a"}, {"a", "b"}).ok());
  EXPECT_TRUE(check_host_cache(mib(1), mib(2), mib(3)).ok());
}

TEST(ServeChecks, AnUnknownPinListsTheNames) {
  const Status status = check_pins({"a", "c"}, {"a", "b"});
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("--pin c"), HasSubstr("a, b")));
}

TEST(ServeChecks, PinsThatDoNotFitTogetherNameTheNumbers) {
  const Status device = check_memory(
      {model("a", mib(20), true), model("b", mib(20), true), model("c", mib(20), true)}, kMemory);
  EXPECT_THAT(device.error().message,
              AllOf(HasSubstr("96 MiB together"), HasSubstr("64 MiB of device"),
                    HasSubstr("b (32 MiB)"), HasSubstr("--weights-memory-bytes")));
  const Status host = check_memory({model("a", mib(50), true), model("b", mib(50), true)}, kMemory);
  EXPECT_THAT(host.error().message,
              AllOf(HasSubstr("100 MiB together"), HasSubstr("80 MiB of host"),
                    HasSubstr("--pool-memory-bytes")));
}

TEST(ServeChecks, AModelLargerThanTheCacheIsStreamed) {
  EXPECT_TRUE(check_memory({model("a", mib(20)), model("big", mib(65))}, kMemory).ok());
}

TEST(ServeChecks, ModelsAndBytes) {
  const auto limit = parse_model_bytes("a=b=40GB", "--x");
  ASSERT_TRUE(limit.ok());
  EXPECT_EQ(limit->model, "a=b");
  EXPECT_EQ(limit->bytes, gib(40));
  for (const char* wrong : {"", "a", "=4GB", "a=", "a=-1", "a=four", "a=0", "a=9999999999GB"}) {
    const auto refused = parse_model_bytes(wrong, "--x");
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("MODEL=BYTES")) << wrong;
  }
}

TEST(ServeChecks, APoolThatIsTooSmallForTheOneModelIsAnError) {
  ServeMemory memory{.pool = kib(64)};
  EXPECT_TRUE(check_memory({model("a", kib(65))}, memory).ok()) << "it fails alone";
  memory.single = true;
  EXPECT_THAT(
      check_memory({model("a", kib(65))}, memory).error().message,
      AllOf(HasSubstr("needs 65 KiB"), HasSubstr("64 KiB"), HasSubstr("--pool-memory-bytes")));
}

TEST(ServeChecks, SlicesWithoutRoomForAnyModelAreAnError) {
  std::vector<ServedModel> models = {model("a", mib(80)), model("b", mib(70))};
  EXPECT_TRUE(check_any_fits(models, 4).ok());
  EXPECT_TRUE(check_any_fits({}, 4).ok()) << "what cannot be read is told when it is loaded";
  models[0].no_room = "it takes 64 MiB, and may have 32 MiB";
  EXPECT_TRUE(check_any_fits(models, 4).ok()) << "the other is served";
  models[1].no_room = "it takes 48 MiB, and may have 32 MiB";
  const Status none = check_any_fits(models, 4);
  EXPECT_EQ(none.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(
      none.error().message,
      AllOf(HasSubstr("no slice of 4"), HasSubstr("b: it takes 48 MiB, and may have 32 MiB"),
            HasSubstr("--weights-memory-bytes"), HasSubstr("--slices")));
}

TEST(ServeChecks, ARateIsAModelsAndANumber) {
  const auto rate = parse_model_rate("org/a=b=0.25", "--expected-rate");
  ASSERT_TRUE(rate.ok()) << rate.error().message;
  EXPECT_EQ(rate->model, "org/a=b");
  EXPECT_EQ(rate->rate, 0.25);
  EXPECT_EQ(parse_model_rate("a=0", "--expected-rate").value().rate, 0);
  for (const char* wrong : {"a", "=1", "a=", "a=-1", "a=1x", "a=nan", "a=inf", "a=1e9", ""}) {
    EXPECT_THAT(parse_model_rate(wrong, "--expected-rate").error().message,
                AllOf(HasSubstr("--expected-rate"), HasSubstr("MODEL=RATE")))
        << wrong;
  }
}

TEST(ServeChecks, AHostCacheLargerThanTheMachineIsAnError) {
  EXPECT_THAT(check_host_cache(mib(30), mib(20), mib(40)).error().message,
              AllOf(HasSubstr("30 MiB"), HasSubstr("20 MiB"), HasSubstr("40 MiB")));
}

TEST(ServeChecks, KvLargerThanTheMachineIsAnErrorThatNamesItsOptions) {
  EXPECT_TRUE(check_host_cache(Bytes(0), mib(40), mib(40)).ok());
  EXPECT_THAT(check_host_cache(Bytes(0), mib(41), mib(40)).error().message,
              AllOf(HasSubstr("41 MiB"), HasSubstr("40 MiB"), HasSubstr("--kv-cache-memory-bytes"),
                    HasSubstr("--kv-host-memory-bytes"), Not(HasSubstr("--weights"))));
}

}  // namespace
}  // namespace causeway::app::serve_checks_test
