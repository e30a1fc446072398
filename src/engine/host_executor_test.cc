// The whole way of a request on the CPU: engine, scheduler, KV, forward pass and sampling give the
// golden greedy answer of stories260K, alone, in batches, and after preemption.
#include "engine/host_executor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/testing/test_data.h"
#include "device/host_memory.h"
#include "engine/engine.h"
#include "engine/testing/collecting_sink.h"
#include "model/config.h"
#include "weights/model_pool.h"

namespace causeway::engine::host_executor_test {
namespace {

constexpr ModelId kStories(1);
constexpr Bytes kFrame = kib(16);  // 12 tokens of stories260K in f32

// A slice that serves stories260K out of `frames` frames.
class Slice {
 public:
  explicit Slice(std::int64_t frames) : frames_(frames) {}

  Status start(const std::filesystem::path& directory, const EngineOptions& options) {
    CAUSEWAY_ASSIGN(const model::ModelConfig config, model::load_config(directory));
    const DType dtype = model::host_dtype(config.dtype);
    const auto plan = model::plan_weights(config, dtype);
    CAUSEWAY_ASSIGN(const auto placed, weights::lay_out(plan));
    CAUSEWAY_TRY(pool_.load(kStories, {directory, plan, placed}, {}));
    CAUSEWAY_ASSIGN(home_, pool_.pin(kStories));
    CAUSEWAY_ASSIGN(const RegionId region,
                    memory_.allocate({.name = "kv frames", .bytes = kFrame * frames_}));
    std::byte* base = memory_.resolve({region, Bytes(0)}, kFrame * frames_).data();
    CAUSEWAY_ASSIGN(executor_, HostExecutor::start({base, kFrame, frames_}, clock_));
    CAUSEWAY_ASSIGN(const kv::BlockLayout layout,
                    kv::plan_block(model::kv_shape(config, dtype), kFrame));
    CAUSEWAY_TRY(executor_->add_model(
        kStories, {.forward = std::make_unique<model::HostForward>(config, home_->weights()),
                   .layout = layout,
                   .kv_dtype = dtype}));
    CAUSEWAY_ASSIGN(engine_, Engine::start(options, clock_, *executor_, sink_));
    return engine_->add_model(kStories, {.tokens_per_block = layout.tokens,
                                         .max_model_len = config.max_position,
                                         .vocab = config.vocab});
  }

  Engine& engine() { return *engine_; }
  HostExecutor& executor() { return *executor_; }
  CollectingSink& sink() { return sink_; }
  const Clock& clock() const { return clock_; }

 private:
  std::int64_t frames_;
  RealClock clock_;
  device::HostMemory memory_;
  weights::ModelPool pool_{memory_, clock_, mib(64)};
  std::unique_ptr<weights::PinnedModel> home_;
  std::unique_ptr<HostExecutor> executor_;
  CollectingSink sink_;
  std::unique_ptr<Engine> engine_;
};

class HostEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    CAUSEWAY_TEST_DATA_OR_SKIP(model, "models/stories260K");
    directory_ = *model;
    std::ifstream file(directory_ / "greedy_golden.json");
    const auto golden = nlohmann::json::parse(file);
    prompt_ = golden.at("prompt_ids").get<std::vector<TokenId>>();
    answer_ = golden.at("greedy_ids").get<std::vector<TokenId>>();
  }

  EngineOptions options(std::int64_t frames) {
    EngineOptions options;
    options.core.frames = frames;
    return options;
  }

  request::Request greedy(std::int64_t id, const Clock& clock) {
    request::Request request;
    request.id = RequestId(id);
    request.model = kStories;
    request.prompt = prompt_;
    request.sampling.temperature = 0;
    request.max_tokens = Tokens(static_cast<std::int64_t>(answer_.size()));
    request.arrival = clock.now();
    return request;
  }

  std::filesystem::path directory_;
  std::vector<TokenId> prompt_, answer_;
};

TEST_F(HostEngine, AnswersAsTheGoldenFile) {
  Slice slice(64);
  const Status started = slice.start(directory_, options(64));
  ASSERT_TRUE(started.ok()) << started.error().message;
  ASSERT_TRUE(slice.engine().submit(greedy(1, slice.clock())).ok());
  ASSERT_TRUE(slice.sink().wait_for_ends(1, 120));
  const Collected got = slice.sink().of(RequestId(1));
  EXPECT_EQ(got.end->reason, request::FinishReason::kLength) << got.end->error;
  EXPECT_EQ(got.tokens, answer_);
  EXPECT_EQ(slice.engine().observe().generated_tokens, static_cast<std::int64_t>(answer_.size()));
}

// A prompt of thousands of tokens through billions of parameters takes minutes on two cores.
TEST(HostExecutor, IsPatientWithSlowSteps) {
  const RealClock clock;
  alignas(64) std::byte frame[64];
  const auto executor = HostExecutor::start({.base = frame, .bytes = Bytes(64), .count = 1}, clock);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  EXPECT_GE((*executor)->capabilities().step_timeout, seconds(3600));
}

// Preempted sequences are recomputed in chunks beside others: every answer stays the same.
TEST_F(HostEngine, CompanyChunksAndPreemptionChangeNothing) {
  constexpr std::int64_t kFrames = 40;  // an answer takes 17
  Slice slice(kFrames);
  EngineOptions wanted = options(kFrames);
  wanted.core.schedule.tokens_per_step_max = 24;
  const Status started = slice.start(directory_, wanted);
  ASSERT_TRUE(started.ok()) << started.error().message;
  constexpr int kRequests = 6;
  for (int i = 0; i < kRequests; ++i) {
    request::Request request = greedy(i, slice.clock());
    // Some continue a story that is under way.
    for (int told = 0; told < i * 9; ++told) {
      request.prompt.push_back(answer_[static_cast<std::size_t>(told)]);
      request.max_tokens -= Tokens(1);
    }
    ASSERT_TRUE(slice.engine().submit(std::move(request)).ok());
  }
  ASSERT_TRUE(slice.sink().wait_for_ends(kRequests, 300));
  for (int i = 0; i < kRequests; ++i) {
    const Collected got = slice.sink().of(RequestId(i));
    ASSERT_EQ(got.end->error, "");
    EXPECT_EQ(got.tokens, std::vector<TokenId>(answer_.begin() + i * 9, answer_.end())) << i;
  }
  EXPECT_GT(slice.engine().observe().preemptions, 0);
}

TEST_F(HostEngine, ModelsComeAndGoWhileItRuns) {
  Slice slice(64);
  ASSERT_TRUE(slice.start(directory_, options(64)).ok());
  ASSERT_TRUE(slice.engine().submit(greedy(1, slice.clock())).ok());
  ASSERT_TRUE(slice.engine().remove_model(kStories, seconds(120)).ok());
  EXPECT_TRUE(slice.executor().remove_model(kStories).ok());
  EXPECT_EQ(slice.sink().of(RequestId(1)).tokens, answer_);
  EXPECT_EQ(slice.engine().submit(greedy(2, slice.clock())).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(slice.executor().remove_model(kStories).error().code, ErrorCode::kNotFound);
}

TEST(HostExecutor, RefusesFramesThatCannotBe) {
  RealClock clock;
  EXPECT_FALSE(HostExecutor::start({nullptr, kib(4), 4}, clock).ok());
  alignas(64) std::byte memory[128];
  EXPECT_FALSE(HostExecutor::start({memory + 1, Bytes(64), 1}, clock).ok());
  auto executor = HostExecutor::start({memory, Bytes(64), 2}, clock);
  ASSERT_TRUE(executor.ok());
  EXPECT_FALSE((*executor)->add_model(ModelId(1), {}).ok());
  EXPECT_EQ((*executor)->submit({}, {}).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace causeway::engine::host_executor_test
