#include "schedule/rotation_policy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace causeway::schedule::rotation_policy_test {
namespace {

SequenceFacts waiting_since(Nanos arrival) {
  SequenceFacts facts;
  facts.request = RequestId(1);
  facts.arrival = arrival;
  facts.last_token = arrival;
  return facts;
}

SequenceFacts rotary_since(Nanos last_token) {
  SequenceFacts facts = waiting_since(Nanos(0));
  facts.rotary = facts.answered = true;
  facts.last_token = last_token;
  return facts;
}

// The paper's defaults: S_F 5 s, β_F 0.5, S_B 0.1 s, β_B 0, α 3.
TEST(RotaryPolicy, LagsAsThePaperSays) {
  const auto policy = make_rotation_policy(PolicyKind::kRotary);
  const Standing waiting = policy->outside(waiting_since(seconds(10)));
  EXPECT_DOUBLE_EQ(waiting.lag(seconds(12)), 0.0);
  EXPECT_DOUBLE_EQ(waiting.lag(seconds(14)), 1.5);
  const Standing rotary = policy->outside(rotary_since(seconds(10)));
  EXPECT_DOUBLE_EQ(rotary.lag(seconds(12)), 6.0);
}

TEST(RotaryPolicy, TakesTargetsSlacksAndAlphaFromTheRequest) {
  const auto policy = make_rotation_policy(PolicyKind::kRotary);
  SequenceFacts facts = rotary_since(seconds(10));
  facts.alpha = 2;
  facts.slo = {.ttft = seconds(1), .tpot = seconds(1), .ttft_slack = 0.25, .tpot_slack = -1};
  EXPECT_DOUBLE_EQ(policy->outside(facts).lag(seconds(10)), 2.0) << "a head start of a second";
  SequenceFacts patient = facts;
  patient.slo.tpot = seconds(86'400);
  EXPECT_LE(policy->outside(patient).lag(seconds(10)), 2 * 10) << "a head start of days";
  facts.answered = false;
  facts.arrival = seconds(9);
  EXPECT_DOUBLE_EQ(policy->outside(facts).lag(seconds(10)), 0.75)
      << "one without an answer has a target for its first token, wherever its KV is";
}

TEST(RotaryPolicy, DisplacesOnlyWhoHadMoreThanItIsOwed) {
  const SequenceFacts late = waiting_since(seconds(0)), early = waiting_since(seconds(99));
  const auto may = [](DisplacesEarly who, const SequenceFacts& candidate, double victim_lag) {
    const auto policy = make_rotation_policy(PolicyKind::kRotary, {.lag = {.early = who}});
    return policy->displaces(candidate, {}, victim_lag, seconds(100));
  };
  for (const DisplacesEarly who :
       {DisplacesEarly::kNone, DisplacesEarly::kUnanswered, DisplacesEarly::kAll}) {
    EXPECT_EQ(parse_displaces_early(name_of(who)).value(), who);
    EXPECT_TRUE(may(who, late, -1));
    EXPECT_FALSE(may(who, late, 0));
    EXPECT_EQ(may(who, early, -1), who != DisplacesEarly::kNone);
    SequenceFacts answered = rotary_since(seconds(100));
    EXPECT_EQ(may(who, answered, -1), who == DisplacesEarly::kAll);
    SequenceFacts hopeless = waiting_since(seconds(90));
    hopeless.late = true;
    EXPECT_EQ(may(who, hopeless, -1), who == DisplacesEarly::kAll);
  }
  EXPECT_FALSE(parse_displaces_early("everybody").ok());
}

// 11 tokens in 200 ms, where a second would have been in time: 800 ms ahead.
TEST(RotaryPolicy, WhoIsAheadMayPause) {
  SequenceFacts facts = rotary_since(millis(10'200));
  facts.first_token = seconds(10);
  facts.output = Tokens(11);
  const auto onset = [&](double share) {
    const auto policy = make_rotation_policy(PolicyKind::kRotary, {.lag = {.ahead_share = share}});
    return policy->outside(facts).onset;
  };
  EXPECT_EQ(onset(0), millis(10'200));
  EXPECT_EQ(onset(0.5), millis(10'600));
  EXPECT_EQ(onset(1), millis(11'000));
  facts.slo.tpot_slack = -1;
  EXPECT_EQ(onset(0.5), millis(10'500));
  facts.output = Tokens(10'000);
  EXPECT_EQ(onset(1), millis(15'100)) << "no longer than the target for a first token";
  facts.output = Tokens(2);
  EXPECT_EQ(onset(1), millis(10'100)) << "who is behind has no less time than others";
}

TEST(RotaryPolicy, WhoseFirstTokenIsLateStepsBack) {
  SequenceFacts facts = waiting_since(seconds(10));
  facts.late = true;
  const auto policy = make_rotation_policy(PolicyKind::kRotary, {.lag = {.late_after = 4}});
  EXPECT_TRUE(policy->traits().steps_back);
  EXPECT_EQ(policy->outside(facts).onset, seconds(30));
  const auto never = make_rotation_policy(PolicyKind::kRotary, {.lag = {.late_after = 0}});
  EXPECT_FALSE(never->traits().steps_back);
}

TEST(RotaryPolicy, OptionsAreRefusedOutsideTheirRange) {
  EXPECT_TRUE(check_lag({}).ok());
  EXPECT_TRUE(check_lag({.ahead_share = 0, .late_after = 0}).ok());
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    EXPECT_FALSE(check_lag({.ahead_share = share}).ok()) << share;
  }
  for (const double late : {-1.0, 0.5, 1001.0, std::nan("")}) {
    EXPECT_FALSE(check_lag({.late_after = late}).ok()) << late;
  }
}

bool leads(const RotationPolicy& policy, const SequenceFacts& a, const SequenceFacts& b) {
  return leads(Ranked{.standing = policy.outside(a), .arrival = a.arrival},
               Ranked{.standing = policy.outside(b), .arrival = b.arrival}, seconds(1'000));
}

TEST(RotationPolicies, DifferInWhoComesInFirst) {
  const SequenceFacts old = waiting_since(seconds(1));
  SequenceFacts young = rotary_since(seconds(500));
  young.arrival = seconds(2);
  young.priority = 1;
  EXPECT_TRUE(leads(*make_rotation_policy(PolicyKind::kFcfs), old, young));
  EXPECT_TRUE(leads(*make_rotation_policy(PolicyKind::kArtifact), old, young));
  EXPECT_TRUE(leads(*make_rotation_policy(PolicyKind::kWaitingFirst), old, young));
  EXPECT_TRUE(leads(*make_rotation_policy(PolicyKind::kSwappedFirst), young, old));
  EXPECT_TRUE(leads(*make_rotation_policy(PolicyKind::kPriority), young, old));
  EXPECT_TRUE(leads(*make_rotation_policy(PolicyKind::kRotary), young, old));
}

TEST(RotationPolicies, ByLengthGoByWhatIsLeft) {
  const auto policy = make_rotation_policy(PolicyKind::kSjfOracle);
  SequenceFacts begun = waiting_since(seconds(1)), fresh = begun;
  begun.output_expected = Tokens(100);
  begun.output = Tokens(90);
  fresh.output_expected = Tokens(20);
  EXPECT_TRUE(leads(*policy, begun, fresh));
  EXPECT_GT(policy->inside(begun), policy->inside(fresh));
}

TEST(RotationPolicies, RankedPredictsWithTheStatedError) {
  const auto exact = make_rotation_policy(PolicyKind::kRanked, {.predicted_error = 0});
  EXPECT_EQ(exact->expected_output(RequestId(3), Tokens(77)), Tokens(77));
  const auto policy = make_rotation_policy(PolicyKind::kRanked, {.predicted_error = 0.4});
  double sum = 0, squares = 0;
  constexpr int kDraws = 4'000;
  for (int id = 0; id < kDraws; ++id) {
    const Tokens predicted = policy->expected_output(RequestId(id), Tokens(1'000'000));
    EXPECT_EQ(predicted, policy->expected_output(RequestId(id), Tokens(1'000'000)));
    const double error = std::log(static_cast<double>(predicted.count) / 1e6);
    sum += error;
    squares += error * error;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / kDraws), 0.4, 0.03);
  EXPECT_GE(policy->expected_output(RequestId(0), Tokens(1)), Tokens(1));
}

TEST(RotationPolicies, AreFoundByTheirNames) {
  for (const PolicyKind kind :
       {PolicyKind::kRotary, PolicyKind::kArtifact, PolicyKind::kPriority,
        PolicyKind::kWaitingFirst, PolicyKind::kFcfs, PolicyKind::kSwappedFirst,
        PolicyKind::kPastFuture, PolicyKind::kSjfOracle, PolicyKind::kRanked}) {
    const auto found = parse_policy(make_rotation_policy(kind)->name());
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found.value(), kind);
  }
  EXPECT_EQ(parse_preemption("auto").value(), PreemptionKind::kAuto);
  const auto unknown = parse_preemption("swap");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("rotate"), std::string::npos);
}

TEST(Alpha, IsRefusedOutsideItsRange) {
  EXPECT_TRUE(check_alpha(kAlphaDefault).ok());
  EXPECT_TRUE(check_alpha(kAlphaMax).ok());
  EXPECT_FALSE(check_alpha(0).ok());
  EXPECT_FALSE(check_alpha(-1).ok());
  EXPECT_FALSE(check_alpha(1'000.5).ok());
  EXPECT_FALSE(check_alpha(std::nan("")).ok());
}

TEST(Alpha, HasAtMostSixteenValues) {
  std::vector<double> alphas;
  for (int i = 0; i < 40; ++i) alphas.push_back(1 + i % kAlphasMax);
  EXPECT_TRUE(check_alphas(alphas).ok());
  alphas.push_back(0.5);
  EXPECT_FALSE(check_alphas(alphas).ok());
}

}  // namespace
}  // namespace causeway::schedule::rotation_policy_test
