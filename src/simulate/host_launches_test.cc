#include "simulate/host_launches.h"

#include <gtest/gtest.h>

namespace causeway::simulate::host_launches_test {
namespace {

HardwareProfile slow_host() {
  HardwareProfile profile;
  profile.plain_launch = micros(1000);
  profile.shape_choice = micros(400);
  return profile;
}

ModelShape shape_of_width(std::int64_t hidden = 64) {
  ModelShape shape;
  shape.config.hidden = hidden;
  return shape;
}

// So many sequences, of one token each, or of more.
request::Batch batch(ModelId model, std::int64_t sequences, std::int32_t tokens = 1) {
  request::Batch batch;
  batch.model = model;
  batch.tokens.resize(static_cast<std::size_t>(sequences * tokens));
  batch.entries.resize(static_cast<std::size_t>(sequences));
  for (request::BatchEntry& entry : batch.entries) entry.token_count = tokens;
  return batch;
}

constexpr ModelId kOne(1), kTwo(2), kThree(3);

TEST(HostLaunches, AGraphIsCapturedTheSecondTimeAndReplayedThen) {
  HostLaunches host(slow_host());
  const ModelShape shape = shape_of_width();
  EXPECT_EQ(host.launch(batch(kOne, 1), shape, Nanos(0)), micros(1000));
  EXPECT_FALSE(host.has_graph(batch(kOne, 1)));
  EXPECT_EQ(host.launch(batch(kOne, 1), shape, millis(10)), millis(11));
  EXPECT_TRUE(host.has_graph(batch(kOne, 1)));
  EXPECT_EQ(host.launch(batch(kOne, 1), shape, millis(20)), millis(20));
  EXPECT_FALSE(host.has_graph(batch(kOne, 64))) << "another size has another graph";
  EXPECT_FALSE(host.has_graph(batch(kTwo, 1))) << "and so has another model";
  EXPECT_FALSE(host.has_graph(batch(kOne, 1, 2)));
  host.forget(kOne);
  EXPECT_EQ(host.launch(batch(kOne, 1), shape, millis(30)), micros(31'000));
}

TEST(HostLaunches, PromptsAreLaunchedPlainlyAndNewShapesChooseTheirKernels) {
  HostLaunches host(slow_host());
  const ModelShape shape = shape_of_width();
  EXPECT_EQ(host.launch(batch(kOne, 1, 100), shape, Nanos(0)), micros(1400));
  EXPECT_EQ(host.launch(batch(kTwo, 1, 100), shape, millis(10)), micros(11'000))
      << "kernels are chosen for shapes, not models";
  EXPECT_EQ(host.launch(batch(kOne, 1, 101), shape, millis(20)), micros(21'400));
  EXPECT_EQ(host.launch(batch(kThree, 1, 100), shape_of_width(128), millis(30)), micros(31'400));
}

TEST(HostLaunches, OneThreadLaunchesOneStepAfterTheOther) {
  HostLaunches host(slow_host());
  const ModelShape shape = shape_of_width();
  (void)host.launch(batch(kOne, 1, 100), shape, Nanos(0));
  EXPECT_EQ(host.launch(batch(kTwo, 1, 100), shape, Nanos(0)), micros(2400));
  EXPECT_EQ(host.until(), micros(2400));
}

TEST(HostLaunches, AHostThatIsNotModelledTakesNoTime) {
  HostLaunches host(HardwareProfile{});
  EXPECT_EQ(host.launch(batch(kOne, 1, 100), shape_of_width(), millis(5)), millis(5));
  EXPECT_EQ(host.launch(batch(kOne, 1), shape_of_width(), millis(6)), millis(6));
}

}  // namespace
}  // namespace causeway::simulate::host_launches_test
