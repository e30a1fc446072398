#include "worker/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "engine/testing/tiny_slice.h"

namespace causeway::worker::messages_test {
namespace {

using ::testing::HasSubstr;

request::Output some_output() {
  request::Output output;
  output.request = RequestId(17);
  output.tokens = {{3, -0.5f, {{3, -0.5f}, {9, -1.5f}}}, {4, -2.0f, {}}};
  output.prompt = {{5, -0.25f, {{7, -0.125f}}}};
  output.embedding = {0.5f, -3.0f};
  output.finished = true;
  output.reason = request::FinishReason::kError;
  output.error = "größer als alles";
  output.code = ErrorCode::kResourceExhausted;
  output.cached_prompt = Tokens(32);
  output.queued = millis(3);
  output.preemptions = 2;
  output.switched = request::ModelSwitch{mib(3), millis(5), millis(6)};
  return output;
}

request::Observation some_observation() {
  request::Observation seen;
  std::int64_t next = 1;
  for (std::int64_t* const number : {&seen.requests_running,
                                     &seen.requests_waiting,
                                     &seen.requests_rotary,
                                     &seen.frames_total,
                                     &seen.frames_used,
                                     &seen.frames_stranded,
                                     &seen.twins_total,
                                     &seen.twins_used,
                                     &seen.weights_cached.count,
                                     &seen.preemptions,
                                     &seen.rotations,
                                     &seen.kv_copies.eager_out,
                                     &seen.kv_copies.rotation_out,
                                     &seen.kv_copies.rotation_in,
                                     &seen.kv_copies.prefix_in,
                                     &seen.kv_copies.failed,
                                     &seen.steps,
                                     &seen.prompt_tokens,
                                     &seen.generated_tokens,
                                     &seen.prefix_queried_tokens,
                                     &seen.prefix_hit_tokens,
                                     &seen.prefix_host_tokens,
                                     &seen.expert_hits,
                                     &seen.expert_misses,
                                     &seen.link_bytes.count,
                                     &seen.requests_resumed,
                                     &seen.device_busy.count}) {
    *number = next++;
  }
  return seen;
}

WorkerPlan some_plan() {
  SlicePlan slice{.processors = 56,
                  .unit = 8,
                  .share = 0.5,
                  .kv = mib(3),
                  .kv_frame = kib(4),
                  .kv_host = mib(5),
                  .weights = mib(7),
                  .ring = mib(1),
                  .experts = weights::ExpertPolicy::kLru,
                  .memory_utilization = 0.7,
                  .engine = {}};
  slice.engine.requests_max = 77;
  slice.engine.core.prefix_hash_seed = 0xfeedfacecafebeef;
  slice.engine.core.schedule.policy = schedule::PolicyKind::kRotary;
  slice.engine.core.schedule.running_max = 9;
  slice.engine.core.step_timeout = seconds(3);
  slice.engine.core.step_start = engine::StepStart::kAtOnce;
  schedule::ChunkOptions& chunk = slice.engine.core.schedule.chunk;
  chunk.automatic = true;
  chunk.profile = {.file = "f.json",
                   .machine = "NVIDIA H200",
                   .tables = {{.shape = "s",
                               .processors = 56,
                               .table = {.decodes = 8, .times = {{Tokens(1), 0.5, 0.75}}}}}};
  return {.backend = Backend::kCuda,
          .gpu = 2,
          .slices = {slice, slice},
          .models = {{ModelId(1), "a", "/models/a", Tokens(99), true, gib(1)}},
          .link_least = {2e9, 1e9}};
}

transfer::LinkAsk some_ask() {
  transfer::LinkAsk ask{.at = millis(9), .applied = 4, .wants = {}};
  double next = 1;
  for (double& rate : ask.wants.in) rate = next++;
  for (double& rate : ask.wants.out) rate = next++;
  return ask;
}

std::vector<Message> one_of_each() {
  Random random(5);
  const auto requests =
      engine::random_requests({.count = 40, .edited = true, .scored = true}, random);
  std::vector<Message> messages{
      Hello{.version = "1.2"},
      Prepare{some_plan()},
      Prepared{},
      Open{},
      Opened{{{5, {mib(3), kib(64)}, {1e9, 2e9, 3e9, gib(1)}}}},
      Failed{{ErrorCode::kDevice, "no GPU"}},
      Attach{4,
             1,
             ModelId(3),
             "m",
             "/m",
             Tokens(128),
             mib(1),
             0.25,
             millis(30),
             true,
             mib(2),
             {5, 6},
             text::ToolCallFormat::kMistralArgs},
      Attached{4, {}, mib(1), millis(2)},
      Attached{5, Error{ErrorCode::kCorrupt, "x"}, {}, {}},
      Detach{6, 1, ModelId(3), seconds(2)},
      Detached{6, {}},
      Cancel{1, RequestId(4)},
      Outputs{1, {some_output(), request::Output()}},
      Observed{1, some_observation(), {{ModelId(2), some_observation()}}},
      Alive{},
      Queued{2, RequestId(5)},
      Stepping{1, {RequestId(3), RequestId(8)}},
      some_ask(),
      transfer::LinkLease{7, millis(30), millis(500), {1e9, 2e9}, {3, 4}}};
  for (const request::Request& request : requests) messages.emplace_back(Submit{1, request});
  request::Request embedded = requests[1];
  embedded.pooling = request::Pooling::kMean;
  messages.emplace_back(Submit{1, embedded});
  messages.emplace_back(
      Submit{1, requests[0], true, {request::ConstraintKind::kRegex, std::string("a\0b", 3)}});
  return messages;
}

TEST(WorkerMessages, ArriveAsTheyWere) {
  for (const Message& message : one_of_each()) {
    const auto bytes = encode(message);
    const auto read = decode(bytes);
    ASSERT_TRUE(read.ok()) << message.index() << ": " << read.error().message;
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encode(*read), bytes) << message.index();
  }
}

TEST(WorkerMessages, FieldsAreWhatTheyWere) {
  const Submit formed{1, {}, true, {request::ConstraintKind::kGrammar, "root ::= \"a\""}};
  const auto submit = decode(encode(formed)).value();
  EXPECT_TRUE(std::get<Submit>(submit).formed);
  EXPECT_EQ(std::get<Submit>(submit).form, formed.form);
  const auto read = decode(encode(Outputs{1, {some_output()}})).value();
  const request::Output& output = std::get<Outputs>(read).outputs.front();
  EXPECT_EQ(output.request, RequestId(17));
  EXPECT_EQ(output.tokens[0].top[1].token, 9);
  EXPECT_EQ(output.tokens[1].logprob, -2.0f);
  EXPECT_EQ(output.prompt[0].top[0].token, 7);
  EXPECT_EQ(output.embedding, (std::vector<float>{0.5f, -3.0f}));
  EXPECT_EQ(output.reason, request::FinishReason::kError);
  EXPECT_EQ(output.error, "größer als alles");
  EXPECT_EQ(output.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(output.queued, millis(3));
  EXPECT_EQ(output.switched->took, millis(6));
  const auto plan = std::get<Prepare>(decode(encode(Prepare{some_plan()})).value()).plan;
  EXPECT_EQ(plan.slices[1].engine.core.schedule.policy, schedule::PolicyKind::kRotary);
  EXPECT_EQ(plan.slices[1].engine.core.step_timeout, seconds(3));
  const auto& profile = plan.slices[1].engine.core.schedule.chunk.profile;
  EXPECT_EQ(profile.file, "f.json");
  EXPECT_EQ(profile.machine, "NVIDIA H200");
  EXPECT_EQ(profile.tables[0].shape, "s");
  EXPECT_EQ(profile.tables[0].processors, 56);
  EXPECT_EQ(profile.tables[0].table.decodes, 8);
  EXPECT_EQ(profile.tables[0].table.times[0].tokens, Tokens(1));
  EXPECT_EQ(profile.tables[0].table.times[0].alone, 0.5);
  EXPECT_EQ(profile.tables[0].table.times[0].beside, 0.75);
  EXPECT_EQ(plan.slices[1].engine.core.prefix_hash_seed, 0xfeedfacecafebeef);
  EXPECT_EQ(plan.models[0].directory, "/models/a");
  EXPECT_EQ(plan.link_least.in, 2e9);
  EXPECT_EQ(plan.link_least.out, 1e9);
  const auto ask = std::get<transfer::LinkAsk>(decode(encode(some_ask())).value());
  EXPECT_EQ(ask.wants.in.front(), 1);
  EXPECT_EQ(ask.wants.out.back(), 2 * device::kCopyPriorities);
  const Observed told{1, some_observation(), {}, Nanos(28)};
  const auto seen = std::get<Observed>(decode(encode(told)).value());
  EXPECT_EQ(seen.link_busy, Nanos(28));
  EXPECT_EQ(seen.all.expert_misses, 24);
  EXPECT_EQ(seen.all.link_bytes, Bytes(25));
  EXPECT_EQ(seen.all.requests_resumed, 26);
  EXPECT_EQ(seen.all.device_busy, Nanos(27));
}

TEST(WorkerMessages, CutAnywhereTheyAreRefused) {
  for (const Message& message : one_of_each()) {
    const auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decode(std::span(bytes).first(size)).error().code, ErrorCode::kCorrupt);
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_EQ(decode(longer).error().code, ErrorCode::kCorrupt);
  }
}

TEST(WorkerMessages, BrokenAnywhereTheyAreRefusedOrPlainData) {
  Random random(7);
  const auto messages = one_of_each();
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = encode(messages[static_cast<std::size_t>(random.below(std::ssize(messages)))]);
    for (std::int64_t n = random.between(1, 4); n > 0; --n) {
      bytes[static_cast<std::size_t>(random.below(std::ssize(bytes)))] =
          static_cast<std::byte>(random.chance(0.5) ? 0xff : random.below(256));
    }
    const auto read = decode(bytes);
    if (!read.ok()) continue;
    const auto again = encode(*read);
    const auto reread = decode(again);
    ASSERT_TRUE(reread.ok());
    EXPECT_EQ(encode(*reread), again);
    ++taken;
  }
  EXPECT_GT(taken, 1000);
}

TEST(WorkerMessages, NumbersThatAreAddedUpCannotOverflow) {
  request::Observation seen;
  seen.steps = std::numeric_limits<std::int64_t>::max();
  seen.frames_used = -5;
  const auto read = std::get<Observed>(decode(encode(Observed{0, seen, {}})).value());
  EXPECT_EQ(read.all.steps, std::int64_t{1} << 53);
  EXPECT_EQ(read.all.frames_used, 0);
}

TEST(WorkerMessages, TextForPeopleIsText) {
  const auto read = [](std::string message) {
    const auto failed = decode(encode(Failed{{ErrorCode::kIo, std::move(message)}}));
    return std::get<Failed>(failed.value()).error.message;
  };
  EXPECT_EQ(read("a\xff\xc3z"), "a??z");
  EXPECT_EQ(read(std::string(1 << 20, 'x')).size(), 64u << 10);
}

TEST(WorkerMessages, AnotherBuildIsToldApart) {
  const Hello ours{.version = "1.0"};
  EXPECT_TRUE(check_hello(ours, ours).ok());
  const Status other = check_hello({.version = "1.1"}, ours);
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message,
              HasSubstr("version 1.1 (protocol " + std::to_string(kProtocol) +
                        "), this one of version 1.0"));
  EXPECT_EQ(check_hello({.protocol = kProtocol + 1, .version = "1.0"}, ours).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(check_hello({.magic = 1, .version = "1.0"}, ours).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace causeway::worker::messages_test
