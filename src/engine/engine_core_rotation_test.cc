// EngineCore whose KV rotates between HBM and host memory: a sequence that runs finds its KV,
// whatever was copied when, and nothing is computed twice unless a copy failed.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "base/random.h"
#include "base/testing/log_lines.h"
#include "engine/copy_backoff.h"
#include "engine/engine_core.h"
#include "engine/testing/core_requests.h"
#include "engine/testing/fake_executor.h"

namespace causeway::engine::engine_core_rotation_test {
namespace {

using request::FinishReason;

const std::int64_t kBlock = kFacts.tokens_per_block.count;

// The token at a place of a request; prompts differ by request.
TokenId token_at(RequestId request, std::int64_t prompt, std::int64_t place) {
  if (place >= prompt) return static_cast<TokenId>(FakeExecutor::kTokenBase + place);
  return static_cast<TokenId>((7 * request.value + place) % 1000);
}

// Records for every frame and twin the tokens whose KV it holds, and checks that a step finds what
// it reads. Copies out read when they end, which is late; copies in at the latest when a step waits
// for them.
class RotatingExecutor final : public StepExecutor {
 public:
  explicit RotatingExecutor(int steps_in_flight_max, std::uint64_t seed)
      : inner_(steps_in_flight_max), random_(seed) {
    capabilities_ = inner_.capabilities();
    capabilities_.rotates = true;
  }
  const Capabilities& capabilities() const override { return capabilities_; }

  Status submit(request::Batch batch, weights::StepWeights weights) override {
    begin_copies(batch.copies_in);
    begin_copies(batch.copies_out);
    for (std::size_t i = 0; i < copies_.size();) {
      const bool awaited = copies_[i].direction == kv::KvCopy::Direction::kIn &&
                           batch.copies_awaited.valid() && !(batch.copies_awaited < copies_[i].id);
      if (awaited) end(i);
      if (!awaited) ++i;
    }
    for (const request::BatchEntry& entry : batch.entries) compute(batch, entry);
    return inner_.submit(std::move(batch), weights);
  }
  std::optional<request::StepResult> wait(Nanos timeout) override {
    auto result = inner_.wait(timeout);
    if (result) result->duration = millis(1);
    return result;
  }

  void begin_copies(std::span<const kv::KvCopy> copies) override {
    copies_.insert(copies_.end(), copies.begin(), copies.end());
  }
  std::vector<kv::KvCopyEnd> poll_copies() override {
    for (std::size_t i = 0; i < copies_.size() && !stalled_;) {
      if (random_.chance(0.5)) {
        end(i);
      } else {
        ++i;
      }
    }
    return std::exchange(ends_, {});
  }
  kv::KvCopyRates copy_rates() const override { return {.in = 1e9, .out = 1e9}; }

  // So many of 100 copies that end from now on fail; or of copies out alone.
  void fail(int of_hundred) { failing_ = failing_out_ = of_hundred; }
  void fail_out(int of_hundred) { failing_out_ = of_hundred; }
  // Only copies that a step waits for end.
  void stall(bool stalls) { stalled_ = stalls; }
  // Those that are under way.
  void give_up() {
    for (const kv::KvCopy& copy : copies_) {
      if (!given_up_.insert(copy.id).second) continue;
      ends_.push_back({copy.id, kv::KvCopyEnd::Outcome::kGivenUp, "a planted stall"});
    }
  }
  const std::set<std::int64_t>& wrong() const { return wrong_; }
  std::int64_t computed() const { return computed_; }

 private:
  void end(std::size_t index) {
    const kv::KvCopy copy = copies_[index];
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
    kv::KvCopyEnd end{.copy = copy.id};
    const bool out = copy.direction == kv::KvCopy::Direction::kOut;
    if (random_.below(100) < (out ? failing_out_ : failing_)) {
      end.outcome = kv::KvCopyEnd::Outcome::kFailed;
      end.why = "a planted failure";
      (out ? twins_[copy.twin.value] : frames_[copy.frame.value]).clear();
    } else if (out) {
      twins_[copy.twin.value] = frames_[copy.frame.value];
    } else {
      frames_[copy.frame.value] = twins_[copy.twin.value];
    }
    ends_.push_back(std::move(end));
  }

  // The result for a sequence whose copy failed is not looked at.
  void compute(const request::Batch& batch, const request::BatchEntry& entry) {
    const auto frame_of = [&](std::int64_t place) -> std::map<std::int64_t, TokenId>& {
      const auto at = static_cast<std::size_t>(entry.frame_begin + place / kBlock);
      return frames_[batch.frames.at(at).value];
    };
    const auto expected = [&](std::int64_t place) {
      return token_at(entry.request, entry.prompt_tokens, place);
    };
    for (std::int64_t place = 0; place < entry.context; ++place) {
      const auto& frame = frame_of(place);
      const auto found = frame.find(place % kBlock);
      if (found == frame.end() || found->second != expected(place)) {
        wrong_.insert(entry.request.value);
      }
    }
    for (std::int64_t i = 0; i < entry.token_count; ++i) {
      const std::int64_t place = entry.context + i;
      frame_of(place)[place % kBlock] = expected(place);
    }
    computed_ += entry.token_count;
  }

  FakeExecutor inner_;
  Capabilities capabilities_;
  Random random_;
  std::vector<kv::KvCopy> copies_;
  std::vector<kv::KvCopyEnd> ends_;
  std::set<kv::CopyId> given_up_;
  std::map<std::int64_t, std::map<std::int64_t, TokenId>> frames_, twins_;
  std::set<std::int64_t> wrong_;  // requests whose KV was not what they had computed
  std::int64_t computed_ = 0;     // tokens
  int failing_ = 0;
  int failing_out_ = 0;
  bool stalled_ = false;
};

struct Rotating {
  schedule::PolicyKind policy = schedule::PolicyKind::kRotary;
  schedule::PreemptionKind preemption = schedule::PreemptionKind::kRotate;
  std::int64_t frames = 12;
  std::int64_t twins = 64;
  int steps_in_flight = 2;
  std::uint64_t seed = 1;
  double seconds_per_token = 0;  // 0: unknown; copying is taken to be faster
  std::int64_t tokens_per_step = 2048;
};

CoreOptions options_of(const Rotating& how) {
  CoreOptions options{.frames = how.frames,
                      .twins = how.twins,
                      .frame = kib(16),
                      .rotation = {.frames_share_max = 0.3},
                      .schedule = {},
                      .step_timeout = seconds(2)};
  options.schedule.policy = how.policy;
  options.schedule.preemption = how.preemption;
  // Waiting requests displace running ones.
  options.schedule.rotation.lag = schedule::kLagOfPaper;
  options.schedule.tokens_per_step_max = how.tokens_per_step;
  return options;
}

class RotatingCore {
 public:
  explicit RotatingCore(const Rotating& how)
      : executor_(how.steps_in_flight, how.seed), core_(options_of(how), executor_) {
    ModelFacts facts = kFacts;
    facts.seconds_per_token = how.seconds_per_token;
    EXPECT_TRUE(core_.add_model(kModel, facts).ok());
  }

  void submit(std::int64_t id, std::int64_t prompt, std::int64_t output) {
    request::Request request = make_request(id, static_cast<std::size_t>(prompt), output);
    for (std::int64_t i = 0; i < prompt; ++i) {
      request.prompt[static_cast<std::size_t>(i)] = token_at(request.id, prompt, i);
    }
    request.slo.ttft = millis(20);
    request.slo.tpot = millis(2);
    request.arrival = now_;
    const Status taken = core_.submit(std::move(request), now_);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
    sent_ += output;
    prompts_ += prompt;
  }
  void pass(Nanos time) { now_ += time; }
  // A millisecond passes, and with it a step.
  void tick() {
    core_.start_step(now_);
    check();
    now_ += millis(1);
    if (core_.step_in_flight()) core_.finish_step(*executor_.wait(Nanos(0)), now_);
    check();
    for (request::Output& output : core_.take_outputs()) {
      tokens_ += std::ssize(output.tokens);
      if (output.finished) ends_[output.request.value] = output.reason;
      check_times(output);
      if (!output.error.empty()) errors_[output.request.value] = output.error;
    }
  }
  void run(std::int64_t ticks_max = 20'000) {
    for (std::int64_t i = 0; core_.requests() > 0 && i < ticks_max; ++i) tick();
    EXPECT_EQ(core_.requests(), 0) << "requests that never end";
    for (int i = 0; core_.copies_under_way() && i < 100; ++i) tick();
    EXPECT_FALSE(core_.copies_under_way());
  }
  // They follow each other, and have ended, but for the last of all.
  void check_times(const request::Output& output) {
    for (const request::RotationTimes& times : output.rotations) {
      Nanos& before = returned_[output.request.value];
      EXPECT_GE(times.out, before);
      EXPECT_TRUE(times.in >= Nanos(0) || output.finished);
      before = std::max(times.out, times.in);
      EXPECT_LE(before, now_);
      ++times_told_;
    }
  }
  void check() {
    const Status intact = core_.check_integrity();
    ASSERT_TRUE(intact.ok()) << intact.error().message;
  }

  EngineCore& core() { return core_; }
  RotatingExecutor& executor() { return executor_; }
  Nanos now() const { return now_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t sent() const { return sent_; }
  std::int64_t times_told() const { return times_told_; }  // of rotations
  std::int64_t prompts() const { return prompts_; }
  const std::map<std::int64_t, FinishReason>& ends() const { return ends_; }
  const std::map<std::int64_t, std::string>& errors() const { return errors_; }

 private:
  RotatingExecutor executor_;
  EngineCore core_;
  Nanos now_{1};
  std::int64_t tokens_ = 0, sent_ = 0, prompts_ = 0, times_told_ = 0;
  std::map<std::int64_t, Nanos> returned_;
  std::map<std::int64_t, FinishReason> ends_;
  std::map<std::int64_t, std::string> errors_;
};

TEST(Rotation, NothingIsComputedTwice) {
  for (const int steps_in_flight : {1, 2}) {
    RotatingCore run({.steps_in_flight = steps_in_flight});
    for (std::int64_t id = 0; id < 12; ++id) run.submit(id, 9 + id % 5, 25);
    run.run();
    EXPECT_EQ(run.tokens(), run.sent());
    EXPECT_TRUE(run.executor().wrong().empty());
    const request::Observation seen = run.core().observe();
    EXPECT_EQ(seen.device_busy, millis(1) * seen.steps);
    EXPECT_GT(seen.rotations, 5);
    EXPECT_EQ(run.times_told(), seen.rotations);
    EXPECT_EQ(seen.preemptions, 0);
    EXPECT_GT(seen.kv_copies.rotation_in, 0);
    EXPECT_GT(seen.kv_copies.eager_out, 0);
    // The last token of each is never computed.
    EXPECT_EQ(run.executor().computed(), run.prompts() + run.sent() - 12);
    EXPECT_EQ(run.core().kv().counts().in_use(), 0);
  }
}

TEST(Rotation, WithoutRoomInHostMemoryVictimsAreRecomputed) {
  const LogLines log;
  RotatingCore run({.twins = 1});
  for (std::int64_t id = 0; id < 8; ++id) run.submit(id, 9, 25);
  run.run();
  EXPECT_EQ(log.count("host memory for KV is full"), 1) << "it says so once";
  EXPECT_EQ(run.tokens(), run.sent());
  EXPECT_TRUE(run.executor().wrong().empty());
  EXPECT_GT(run.core().observe().preemptions, 0);
}

TEST(Rotation, WhoseCopyFailedIsRecomputed) {
  RotatingCore run({});
  run.executor().fail(30);
  for (std::int64_t id = 0; id < 12; ++id) run.submit(id, 9 + id % 5, 25);
  run.run();
  EXPECT_EQ(run.tokens(), run.sent());
  for (const auto& [id, reason] : run.ends()) EXPECT_EQ(reason, FinishReason::kLength) << id;
  EXPECT_GT(run.core().observe().kv_copies.failed, 0);
  EXPECT_GT(run.core().observe().preemptions, 0);
}

// Two large requests that do not fit together displace each other for ever, and each loses all that
// it had computed: it needs more steps than it gets. Without a rest there are up to 1,400 losses
// here, until the small ones beside them, which make victims possible, have ended.
TEST(Rotation, WhereCopiesFailRequestsLoseLittle) {
  for (const bool only_out : {false, true}) {
    for (std::uint64_t seed = 100; seed < 120; ++seed) {
      RotatingCore run({.frames = 10, .seed = seed, .tokens_per_step = 2});
      only_out ? run.executor().fail_out(100) : run.executor().fail(100);
      run.submit(0, 21, 4);
      run.submit(1, 31, 3);
      for (std::int64_t id = 2; id < 5; ++id) run.submit(id, 4, 16);
      run.run();
      EXPECT_EQ(run.tokens(), run.sent());
      EXPECT_GT(run.core().observe().kv_copies.failed, 0);
      EXPECT_LT(run.core().observe().preemptions, 20) << "seed " << seed;
    }
  }
}

// When they succeed again, rotation goes on.
TEST(Rotation, TriesAgainAfterAWhile) {
  RotatingCore run({});
  run.executor().fail(100);
  for (std::int64_t id = 0; id < 12; ++id) run.submit(id, 9 + id % 5, 25);
  run.run();
  const std::int64_t rotations = run.core().observe().rotations;
  run.executor().fail(0);
  for (std::int64_t id = 12; id < 24; ++id) run.submit(id, 9 + id % 5, 25);
  for (int i = 0; i < 20; ++i) run.tick();
  EXPECT_EQ(run.core().observe().rotations, rotations) << "it does not rest";
  run.pass(CopyBackoff::kLongest);
  run.run();
  EXPECT_GT(run.core().observe().rotations, rotations);
  EXPECT_EQ(run.tokens(), run.sent());
}

TEST(Rotation, RequestsEndInEveryState) {
  std::int64_t rotary = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RotatingCore run({.steps_in_flight = 1 + static_cast<int>(seed % 2), .seed = seed});
    Random random(seed);
    run.executor().fail(seed % 4 == 0 ? 10 : 0);
    std::int64_t sent = 0;
    for (int tick = 0; tick < 400; ++tick) {
      if (sent < 40 && random.chance(0.2)) {
        run.submit(sent++, random.between(1, 20), random.between(1, 27));
      }
      if (random.chance(0.05)) {
        run.core().cancel(RequestId(random.below(sent + 1)), run.now());
      }
      rotary += run.core().observe().requests_rotary;
      run.tick();
      if (::testing::Test::HasFatalFailure()) return;
    }
    run.run();
    EXPECT_EQ(std::ssize(run.ends()), sent);
    if (seed % 4 != 0) {
      EXPECT_TRUE(run.executor().wrong().empty()) << "seed " << seed;
    }
    EXPECT_EQ(run.core().kv().counts().in_use(), 0) << "seed " << seed;
  }
  EXPECT_GT(rotary, 1000);
}

TEST(Rotation, EveryPolicyEndsWhatItBegins) {
  using enum schedule::PolicyKind;
  for (const auto policy : {kFcfs, kPriority, kRotary, kWaitingFirst, kSwappedFirst, kSjfOracle,
                            kRanked, kPastFuture, kArtifact}) {
    for (const auto preemption :
         {schedule::PreemptionKind::kRotate, schedule::PreemptionKind::kRecompute,
          schedule::PreemptionKind::kAuto}) {
      RotatingCore run({.policy = policy, .preemption = preemption});
      for (std::int64_t id = 0; id < 12; ++id) run.submit(id, 9 + id % 5, 25);
      run.run();
      EXPECT_EQ(run.tokens(), run.sent()) << static_cast<int>(policy);
      EXPECT_TRUE(run.executor().wrong().empty()) << static_cast<int>(policy);
    }
  }
}

// A prompt that begins like an earlier one, after so many others that only host memory still has
// it.
void ask_again(RotatingCore& run) {
  constexpr std::int64_t kAgain = 1001;  // token_at() gives it the tokens of 1
  for (std::int64_t id = 1; id <= 8; ++id) {
    run.submit(id, 5 * kBlock, 2);
    run.run();
  }
  run.submit(kAgain, 5 * kBlock, 2);
}

TEST(Rotation, APrefixComesBackFromHostMemory) {
  const LogLines log;
  RotatingCore run({});
  ask_again(run);
  const std::int64_t before = run.executor().computed();
  run.run();
  EXPECT_EQ(log.count("a prefix of 4 blocks came from host memory in"), 1);
  EXPECT_EQ(log.count("ms predicted"), 1);
  const request::Observation seen = run.core().observe();
  EXPECT_EQ(seen.kv_copies.prefix_in, 4) << "the last block is computed for its last token";
  EXPECT_EQ(seen.prefix_host_tokens, 4 * kBlock);
  EXPECT_EQ(run.executor().computed() - before, kBlock + 1);
  EXPECT_TRUE(run.executor().wrong().empty());
  EXPECT_EQ(run.tokens(), run.sent());
}

TEST(Rotation, APrefixThatIsSoonComputedIsNotBroughtBack) {
  RotatingCore run({.seconds_per_token = 1e-9});
  ask_again(run);
  run.run();
  EXPECT_EQ(run.core().observe().kv_copies.prefix_in, 0);
  EXPECT_EQ(run.tokens(), run.sent());
}

TEST(Rotation, APrefixThatCannotBeCopiedIsComputed) {
  RotatingCore run({});
  ask_again(run);
  run.executor().fail(100);
  run.run();
  EXPECT_EQ(run.tokens(), run.sent());
  EXPECT_EQ(run.core().observe().kv_copies.prefix_in, 4) << "tried once";
  EXPECT_EQ(run.ends().at(1001), FinishReason::kLength);
}

TEST(Rotation, APolicyThatDoesNotRotateHasNoUseForHostMemory) {
  for (const auto policy : {schedule::PolicyKind::kFcfs, schedule::PolicyKind::kPriority}) {
    RotatingCore run({.policy = policy, .preemption = schedule::PreemptionKind::kRecompute});
    run.executor().stall(true);
    for (std::int64_t id = 0; id < 12; ++id) run.submit(id, 9 + id % 5, 25);
    run.run();
    EXPECT_EQ(run.tokens(), run.sent());
    const request::Observation seen = run.core().observe();
    EXPECT_GT(seen.preemptions, 0);
    EXPECT_EQ(seen.twins_total, 0);
    EXPECT_EQ(seen.kv_copies.eager_out, 0);
  }
}

// A request with 7 of 12 frames leaves; its copies out do not end and are given up, and it is
// cancelled. A new request needs 6.
class GivenUp : public ::testing::Test {
 protected:
  void SetUp() override {
    run_.executor().stall(true);
    run_.submit(kLarge, 25, 20);
    for (int i = 0; i < 3; ++i) run_.tick();
    run_.submit(kSmall, 2, 8);
    run_.tick();
    run_.submit(kNewcomer, 24, 3);
    for (int i = 0; i < 30 && run_.core().observe().requests_rotary == 0; ++i) run_.tick();
    ASSERT_EQ(run_.core().observe().requests_rotary, 1);
    run_.core().cancel(RequestId(kLarge), run_.now());
    for (int i = 0; i < 30; ++i) {
      run_.executor().give_up();
      run_.tick();
    }
    ASSERT_EQ(run_.ends().at(kLarge), FinishReason::kCancelled);
    ASSERT_EQ(run_.ends().at(kSmall), FinishReason::kLength);
    ASSERT_EQ(run_.core().requests(), 1);
    ASSERT_FALSE(run_.core().step_in_flight());
    stranded_ = run_.core().kv().counts().stranded;
    ASSERT_GE(stranded_, 7);
  }

  static constexpr std::int64_t kLarge = 0, kSmall = 1, kNewcomer = 2, kAnother = 3;
  RotatingCore run_{{}};
  std::int64_t stranded_ = 0;
};

TEST_F(GivenUp, WhatTheyHoldIsWaitedFor) {
  run_.executor().stall(false);
  run_.run();
  EXPECT_EQ(run_.ends().at(kNewcomer), FinishReason::kLength);
  EXPECT_TRUE(run_.executor().wrong().empty());
  EXPECT_EQ(run_.core().kv().counts().in_use(), 0);
}

TEST_F(GivenUp, WhoNeedsMoreThanIsLeftEndsAfterAWhile) {
  const auto until = run_.core().next_wakeup();
  ASSERT_TRUE(until);
  run_.submit(kAnother, 5, 3);
  run_.tick();
  EXPECT_EQ(run_.core().requests(), 2) << "it does not pass the one before it";
  run_.pass(*until - run_.now());
  for (int i = 0; i < 30; ++i) run_.tick();
  EXPECT_EQ(run_.core().requests(), 0);
  EXPECT_EQ(run_.ends().at(kNewcomer), FinishReason::kError);
  EXPECT_NE(run_.errors().at(kNewcomer).find("needs 6 KV frames"), std::string::npos);
  EXPECT_NE(run_.errors().at(kNewcomer).find("have not ended"), std::string::npos);
  EXPECT_EQ(run_.ends().at(kAnother), FinishReason::kLength);
  EXPECT_EQ(run_.core().kv().counts().stranded, stranded_);
}

TEST(Rotation, AModelWithRotaryRequestsStays) {
  RotatingCore run({});
  for (std::int64_t id = 0; id < 12; ++id) run.submit(id, 9, 25);
  while (run.core().observe().requests_rotary == 0 && run.core().requests() > 0) run.tick();
  ASSERT_GT(run.core().observe().requests_rotary, 0);
  EXPECT_EQ(run.core().remove_model(kModel).error().code, ErrorCode::kUnavailable);
  run.core().cancel_all(run.now());
  for (int i = 0; i < 50; ++i) run.tick();
  EXPECT_TRUE(run.core().remove_model(kModel).ok());
}

// Weights and frames come as soon as they are asked for.
class QuickMover final : public weights::WeightMover {
 public:
  void submit(std::span<const weights::WeightCommand> commands) override {
    using Kind = weights::WeightCommand::Kind;
    for (const weights::WeightCommand& command : commands) {
      if (command.kind == Kind::kBring) {
        events_.push_back({command.model, command.group, command.arrival, {}});
      }
      if (command.model.valid() || command.kind != Kind::kCommit) continue;
      for (std::int64_t i = 0; i < command.extents; ++i) {
        weights::WeightEvent& event = events_.emplace_back();
        event.extent = command.first_extent + i;
      }
    }
  }
  std::vector<weights::WeightEvent> poll() override { return std::exchange(events_, {}); }
  bool issued(ModelId) const override { return true; }
  const device::Semaphore* semaphore(ModelId, int) const override { return nullptr; }
  double granted_rate() const override { return 1e9; }

 private:
  std::vector<weights::WeightEvent> events_;
};

// KV has four extents of three frames, and copies that were given up hold frames of all of them. A
// model needs three of these beside the two that weights have.
TEST(Rotation, RequestsOfAModelWhoseMemoryIsHeldEndAfterAWhile) {
  constexpr ModelId kOther(2);
  constexpr Bytes kExtent(1000);
  QuickMover mover;
  weights::WeightCache cache({.extent = kExtent, .extents = 2, .extents_max = 6}, mover);
  RotatingExecutor executor(2, 1);
  CoreOptions options = options_of({});
  options.border = schedule::BorderRules{.frames_per_extent = 3, .kv_min = 1, .kv_max = 4};
  EngineCore core(options, executor, &cache);
  ASSERT_TRUE(core.add_model(kModel, kFacts).ok());
  ModelFacts facts = kFacts;
  facts.weights = {.groups = {{.offset = Bytes(0), .bytes = kExtent * 5}}, .layout_groups = {0}};
  ASSERT_TRUE(core.add_model(kOther, facts).ok());
  Nanos now = millis(1);
  std::map<std::int64_t, std::string> errors;
  const auto tick = [&] {
    core.start_step(now);
    ASSERT_TRUE(core.check_integrity().ok());
    now += millis(1);
    if (core.step_in_flight()) core.finish_step(*executor.wait(Nanos(0)), now);
    executor.give_up();
    for (const request::Output& output : core.take_outputs()) {
      if (output.finished) errors[output.request.value] = output.error;
    }
  };
  const auto ask = [&](std::int64_t id, ModelId model, std::size_t prompt) {
    request::Request request = make_request(id, prompt, 2);
    request.model = model;
    request.prompt[0] = static_cast<TokenId>(100 + id);  // no prefix is another's
    ASSERT_TRUE(core.submit(std::move(request), now).ok());
  };
  executor.stall(true);
  for (std::int64_t id = 0; id < 4; ++id) ask(id, kModel, 10);  // three blocks each
  for (int i = 0; i < 20; ++i) tick();
  ASSERT_EQ(errors.size(), 4u);
  for (const auto& [id, error] : errors) ASSERT_EQ(error, "") << id;
  ask(4, kOther, 4);
  for (int i = 0; i < 20; ++i) tick();
  ASSERT_EQ(core.requests(), 1) << "it waits for the copies to end";
  for (int i = 0; i < 40 && core.requests() > 0; ++i) {
    now = std::max(now, core.next_wakeup().value_or(now));
    tick();
  }
  EXPECT_EQ(core.requests(), 0);
  EXPECT_NE(errors[4].find("have not ended"), std::string::npos) << errors[4];
  EXPECT_LT(now, seconds(40));
}

}  // namespace
}  // namespace causeway::engine::engine_core_rotation_test
