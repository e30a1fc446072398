// Several slices of the CPU in one process, on one home: with weights read there, or cached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "base/testing/must.h"
#include "slice/host_slice.h"
#include "slice/testing/neighbours.h"
#include "slice/testing/small_model.h"

namespace causeway::slice::host_slices_test {
namespace {

using testing::Answers;
using testing::Catalogue;
using ::testing::HasSubstr;
using testing::Neighbour;

constexpr Bytes kFrame = kib(16);
constexpr Bytes kExtent = kib(64);
constexpr std::int64_t kPrompts[] = {1, 7, 40};
constexpr std::int64_t kOutput = 8;
constexpr double kLink = 400e6;

const Catalogue& catalogue() {
  static const Catalogue kCatalogue{
      .models = 4,
      .max_model_len = Tokens(256),
      .config = [](ModelId model) { return testing::small_model(3, model.value % 2 == 0); },
      .fill =
          [](std::span<std::byte> memory, ModelId model) {
            testing::fill_random(memory, static_cast<std::uint64_t>(model.value));
          }};
  return kCatalogue;
}

// What slices have beside KV.
enum class Kind { kAtHome, kCached, kStreamed };

class HostSlices : public ::testing::TestWithParam<Kind> {
 protected:
  HostSlices() {
    device::HostMachineOptions host{.extent_bytes = kExtent};
    host.links = device::make_link_tree({.link = kLink, .link_duplex = 2 * kLink});
    machine_ = must(Machine::open_host(std::move(host), {}, home_, clock_), "the machine");
  }
  ~HostSlices() override {
    forget_homes(catalogue(), home_);
    EXPECT_FALSE(machine_->slices().serving());
    for (std::size_t i = 0; i < machine_->shares().resources().size(); ++i) {
      EXPECT_EQ(machine_->shares().reserved(static_cast<int>(i)), 0);
    }
    machine_.reset();
    EXPECT_EQ(home_.memory.total_bytes(), Bytes(0));
  }

  // With a cache there is room for about one model and a half.
  HostSliceOptions options() const {
    const auto card =
        must(model::make_card(testing::small_model(3, false), DType::kF32, kFrame), "a card");
    const Bytes model = round_up(card.layout.bytes, kExtent);
    HostSliceOptions options{.kv = mib(1), .kv_frame = kFrame, .threads = 1};
    if (GetParam() == Kind::kCached) options.cache = kExtent * (model * 3 / 2 / kExtent);
    if (GetParam() == Kind::kStreamed) options.cache = model - kExtent;
    options.residency.quantum_min = millis(5);
    options.engine.core.prefix_caching = false;
    return options;
  }
  Neighbour::Parts parts(const HostSliceOptions& options) {
    return {.home = home_, .clock = clock_, .open = [this, options](engine::OutputSink& sink) {
              return must(open_host_slice(options, *machine_, sink), "the slice");
            }};
  }
  // The answers of a slice that is alone, and caches nothing.
  Answers undisturbed() {
    HostSliceOptions plain = options();
    plain.cache = Bytes(0);
    Neighbour alone(catalogue(), all(), parts(plain));
    return alone.all_answers(kPrompts, kOutput);
  }
  static std::vector<ModelId> all() { return {ModelId(0), ModelId(1), ModelId(2), ModelId(3)}; }

  RealClock clock_;
  ModelHome home_{clock_, mib(64)};
  std::unique_ptr<Machine> machine_;
};

TEST_P(HostSlices, ServeSeveralModelsBesideEachOther) {
  const Answers expected = undisturbed();
  Neighbour first(catalogue(), {ModelId(0), ModelId(1), ModelId(2)}, parts(options()));
  Neighbour second(catalogue(), {ModelId(1), ModelId(2), ModelId(3)}, parts(options()));
  std::int64_t wrong = 0;
  std::thread other([&] { wrong = second.ask_at_random({.seed = 2, .requests = 40}, expected); });
  EXPECT_EQ(first.ask_at_random({.seed = 1, .requests = 40}, expected), 0);
  other.join();
  EXPECT_EQ(wrong, 0);
  if (GetParam() != Kind::kAtHome) {
    EXPECT_GT(first.slice().link_bytes(), Bytes(0));
    EXPECT_GT(second.slice().link_bytes(), Bytes(0));
  }
}

// It ends with requests under way every second time.
TEST_P(HostSlices, OneEndsAndComesBackWhileTheOtherServes) {
  const Answers expected = undisturbed();
  std::atomic<bool> stop{false};
  {
    Neighbour stays(catalogue(), {ModelId(0), ModelId(1)}, parts(options()));
    std::int64_t wrong = 0;
    std::thread serves([&] {
      wrong = stays.ask_at_random(
          {.seed = 3, .requests = 1'000'000, .stop = [&] { return stop.load(); }}, expected);
    });
    for (std::uint64_t round = 0; round < 4; ++round) {
      Neighbour comes(catalogue(), {ModelId(1), ModelId(2)}, parts(options()));
      EXPECT_EQ(comes.ask_at_random({.seed = 10 + round, .requests = 6}, expected), 0);
      if (round % 2 != 0) continue;
      for (const std::int64_t prompt : kPrompts) comes.ask({ModelId(2), prompt}, 100);
    }
    stop = true;
    serves.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(stays.asked(), 4);
  }
  EXPECT_TRUE(home_.pool.is_loaded(ModelId(2)));  // it stays at home, for the next slice
}

// Each with host memory of its own for KV that gives up its frames.
TEST_P(HostSlices, HaveTwinsBesideEachOther) {
  const Answers expected = undisturbed();
  HostSliceOptions rotating = options();
  rotating.kv = kFrame * 8;
  rotating.kv_host.bytes = kFrame * 32;
  rotating.engine.core.schedule.policy = schedule::PolicyKind::kRotary;
  HostSliceOptions growing = rotating;
  growing.kv_host.ahead = kFrame * 3;
  Neighbour first(catalogue(), {ModelId(0), ModelId(1)}, parts(rotating));
  Neighbour second(catalogue(), {ModelId(2), ModelId(3)}, parts(growing));
  std::int64_t wrong = 0;
  std::thread other([&] { wrong = second.ask_at_random({.seed = 5, .requests = 20}, expected); });
  EXPECT_EQ(first.ask_at_random({.seed = 4, .requests = 20}, expected), 0);
  other.join();
  EXPECT_EQ(wrong, 0);
  for (Neighbour* one : {&first, &second}) {
    const auto twins = [&] { return one->slice().engine().observe().twins_total; };
    const Nanos until = clock_.now() + seconds(20);
    while (twins() < 32 && clock_.now() < until) std::this_thread::yield();
    EXPECT_EQ(twins(), 32);
  }
}

// At any time while twins are coming.
TEST_P(HostSlices, EndWhileTheyGetTwins) {
  const Answers expected = undisturbed();
  HostSliceOptions growing = options();
  growing.engine.core.schedule.policy = schedule::PolicyKind::kRotary;
  growing.kv_host.bytes = kFrame * 2000;
  growing.kv_host.ahead = kFrame;
  for (int requests = 0; requests < 3; ++requests) {
    Neighbour slice(catalogue(), {ModelId(0)}, parts(growing));
    EXPECT_EQ(slice.ask_at_random({.seed = 6, .requests = requests}, expected), 0);
    EXPECT_GE(slice.slice().engine().observe().twins_total, std::min(requests, 1));
  }
}

TEST_P(HostSlices, SayWhatTheyHave) {
  const Neighbour::Parts own = parts(options());
  Neighbour neighbour(catalogue(), {ModelId(0)}, own);
  Slice& slice = neighbour.slice();
  const SliceLimits limits = slice.limits();
  EXPECT_EQ(limits.flops_per_second, 0);
  EXPECT_EQ(limits.memory_bytes_per_second, 0);
  if (GetParam() == Kind::kAtHome) {
    EXPECT_EQ(limits.memory, Bytes(0));
    EXPECT_EQ(limits.link_bytes_per_second, 0);
  } else {
    EXPECT_EQ(limits.memory, options().cache + options().kv);
    EXPECT_NEAR(limits.link_bytes_per_second, kLink, kLink * 0.01);
  }
  EXPECT_EQ(slice.device().capabilities().processors, 1);
}

TEST_P(HostSlices, AThreadThatIsNotThereIsAnError) {
  const SliceFacts facts = must(machine_->slice_facts(), "facts");
  ASSERT_EQ(facts.gpus.size(), 1u);
  EXPECT_TRUE(facts.threads);
  testing::AnswersSink sink;
  HostSliceOptions many = options();
  many.threads = facts.gpus[0].processors + 1;
  const auto refused = open_host_slice(many, *machine_, sink);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("threads"));
  EXPECT_EQ(machine_->slice_facts(1).error().code, ErrorCode::kInvalidArgument);
}

std::string name_of_kind(const ::testing::TestParamInfo<Kind>& kind) {
  constexpr const char* kNames[] = {"AtHome", "Cached", "Streamed"};
  return kNames[static_cast<int>(kind.param)];
}
INSTANTIATE_TEST_SUITE_P(Weights, HostSlices,
                         ::testing::Values(Kind::kAtHome, Kind::kCached, Kind::kStreamed),
                         name_of_kind);

}  // namespace
}  // namespace causeway::slice::host_slices_test
