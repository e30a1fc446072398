#include "engine/kv_rotation.h"

#include <gtest/gtest.h>

namespace causeway::engine {
namespace {

// A link that takes 1 ms for a frame, each way.
class Links final : public StepExecutor {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch, weights::StepWeights) override { return {}; }
  std::optional<request::StepResult> wait(Nanos) override { return std::nullopt; }
  kv::KvCopyRates copy_rates() const override { return {.in = 1e6, .out = 1e6}; }

 private:
  const Capabilities capabilities_{.rotates = true};
};

class KvRotationBudget : public testing::Test {
 protected:
  schedule::RotationBudget budget(Bytes weights_in) {
    return rotation_.inputs(0, weights_in, Nanos(0)).budget;
  }

  kv::KvCache kv_{{.frames = 1000, .twins = 1000}};
  Links links_;
  KvRotation rotation_{{.frame = Bytes(1000)}, kv_, links_};
};

TEST_F(KvRotationBudget, IsWhatWeightsLeaveOfAStep) {
  EXPECT_EQ(budget(Bytes(0)), (schedule::RotationBudget{.out = 10, .in = 10, .exchange = 10}));
  EXPECT_EQ(budget(Bytes(4000)), (schedule::RotationBudget{.out = 10, .in = 6, .exchange = 6}));
  EXPECT_EQ(budget(gib(1)), (schedule::RotationBudget{.out = 10, .in = 1, .exchange = 1}));
}

TEST_F(KvRotationBudget, FollowsTheTimeOfSteps) {
  for (int i = 0; i < 60; ++i) rotation_.step_took(millis(20));
  EXPECT_NEAR(static_cast<double>(budget(Bytes(0)).exchange), 20, 1);
}

}  // namespace
}  // namespace causeway::engine
