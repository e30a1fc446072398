#include "fleet/routed_requests.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"
#include "fleet/testing/idle_slice.h"

namespace causeway::fleet::routed_requests_test {
namespace {

// A slice of which only its loss is asked.
class NoSlice final : public testing::IdleSlice {
 public:
  request::Observation observe() const override {
    request::Observation seen;
    seen.lost = lost;
    return seen;
  }
  std::string lost;
};

request::Request make_request(std::int64_t id) {
  request::Request request;
  request.id = RequestId(id);
  request.prompt = {1, 2, 3};
  request.max_tokens = Tokens(40);
  return request;
}

request::Output output_of(const request::Request& request, std::vector<TokenId> tokens) {
  request::Output output;
  output.request = request.id;
  output.attempt = request.attempt;
  output.queued = millis(3 + request.attempt);
  output.cached_prompt = Tokens(2 + request.attempt);
  output.held = millis(1 + request.attempt);
  output.weights = millis(2 + request.attempt);
  for (const TokenId token : tokens) output.tokens.push_back({token, 0, {}});
  return output;
}

request::Output lost_end(const request::Request& request) {
  request::Output output = output_of(request, {});
  output.finished = output.lost = true;
  output.reason = request::FinishReason::kError;
  output.queued = Nanos(-1);
  return output;
}

request::Output cancelled_end(const request::Request& request) {
  request::Output output = output_of(request, {});
  output.finished = true;
  output.reason = request::FinishReason::kCancelled;
  return output;
}

class RoutedRequestsTest : public ::testing::Test {
 protected:
  std::vector<request::Output> pass(request::Output output) {
    return routed_.pass({std::move(output)}).outputs;
  }
  NoSlice one_, two_;
  RoutedRequests routed_;
  const request::Request request_ = make_request(1);
};

TEST_F(RoutedRequestsTest, GoesOnBehindWhatWasDelivered) {
  ASSERT_TRUE(routed_.add(request_, one_));
  EXPECT_FALSE(routed_.add(request_, one_));
  EXPECT_EQ(pass(output_of(request_, {5})).size(), 1u);
  one_.lost = "it fell off the bus";
  EXPECT_TRUE(pass(lost_end(request_)).empty()) << "the fleet decides what becomes of it";
  EXPECT_EQ(pass(output_of(request_, {6})).size(), 1u) << "it had been under way";
  const request::Request again = routed_.again(RequestId(1), two_).value();
  EXPECT_EQ(again.output, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(again.prompt, request_.prompt);
  EXPECT_EQ(again.max_tokens, request_.max_tokens);
  EXPECT_TRUE(pass(output_of(request_, {7})).empty()) << "too late";
  EXPECT_TRUE(pass(lost_end(request_)).empty());
  auto passed = pass(output_of(again, {7}));
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_EQ(passed[0].queued, millis(3)) << "it began once";
  EXPECT_EQ(passed[0].cached_prompt, Tokens(2));
  EXPECT_EQ(passed[0].held, millis(1));
  EXPECT_EQ(passed[0].weights, millis(2));
  request::Output end = output_of(again, {8});
  end.finished = true;
  EXPECT_EQ(pass(end).size(), 1u);
  EXPECT_TRUE(pass(end).empty());
  EXPECT_FALSE(routed_.again(RequestId(1), one_)) << "it has ended";
}

TEST_F(RoutedRequestsTest, ALossThatNobodyWillHearOfIsAnEnd) {
  ASSERT_TRUE(routed_.add(request_, one_));
  EXPECT_FALSE(routed_.goes_on(RequestId(1), 0));
  EXPECT_EQ(pass(lost_end(request_)).size(), 1u) << "a slice that hangs, and is not lost";
  ASSERT_TRUE(routed_.add(request_, one_));
  one_.lost = "gone";
  EXPECT_TRUE(routed_.goes_on(RequestId(1), 0));
  EXPECT_TRUE(pass(lost_end(request_)).empty());
  routed_.close();
  EXPECT_FALSE(routed_.goes_on(RequestId(1), 0));
  EXPECT_EQ(pass(lost_end(request_)).size(), 1u);
}

TEST_F(RoutedRequestsTest, WhatTheFleetEndsIsForgotten) {
  ASSERT_TRUE(routed_.add(request_, one_));
  EXPECT_TRUE(routed_.forget(RequestId(1)));
  EXPECT_FALSE(routed_.forget(RequestId(1)));
  EXPECT_TRUE(pass(output_of(request_, {5})).empty());
  EXPECT_FALSE(routed_.again(RequestId(1), two_));
}

TEST_F(RoutedRequestsTest, WhatASliceGivesBackGoesOnElsewhere) {
  ASSERT_TRUE(routed_.add(request_, one_));
  EXPECT_EQ(pass(cancelled_end(request_)).size(), 1u) << "nobody asked for it: its client did";
  EXPECT_FALSE(routed_.withdraw(RequestId(1)));
  ASSERT_TRUE(routed_.add(request_, one_));
  ASSERT_TRUE(routed_.withdraw(RequestId(1)));
  EXPECT_EQ(pass(output_of(request_, {5})).size(), 1u) << "it goes on until then";
  EXPECT_FALSE(routed_.is_given_back(RequestId(1)));
  const auto passed = routed_.pass({cancelled_end(request_)});
  EXPECT_TRUE(passed.outputs.empty());
  EXPECT_EQ(passed.given_back, std::vector{RequestId(1)});
  EXPECT_TRUE(routed_.is_given_back(RequestId(1)));
  const request::Request again = routed_.again(RequestId(1), two_).value();
  EXPECT_EQ(again.output, std::vector<TokenId>{5});
  EXPECT_FALSE(routed_.is_given_back(RequestId(1)));
  EXPECT_EQ(pass(cancelled_end(again)).size(), 1u);
  EXPECT_FALSE(routed_.is_given_back(RequestId(1)));
}

TEST_F(RoutedRequestsTest, WhatEndsBeforeItIsGivenBackHasEnded) {
  ASSERT_TRUE(routed_.add(request_, one_));
  ASSERT_TRUE(routed_.withdraw(RequestId(1)));
  request::Output end = output_of(request_, {5});
  end.finished = true;
  EXPECT_EQ(pass(end).size(), 1u);
  EXPECT_FALSE(routed_.is_given_back(RequestId(1)));
}

// Slices that say the tokens 0, 1, 2 … from where they begin, whose outputs are under way for a
// while, also beyond their loss, and that give it back: the client sees each token once, in order,
// and one end.
TEST(RoutedRequestsHistory, NoTokenIsDeliveredTwiceOrLost) {
  std::int64_t given = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    RoutedRequests routed;
    NoSlice slices[2];
    request::Request running = make_request(1);
    running.max_tokens = Tokens(random.between(1, 40));
    ASSERT_TRUE(routed.add(running, slices[0]));
    std::deque<request::Output> under_way[2];
    std::int64_t said = 0, delivered = 0, losses = 0;
    std::size_t at = 0;
    bool ended = false, told = false, given_back = false;
    const auto arrive = [&](std::size_t from) {
      if (under_way[from].empty()) return;
      const auto passed = routed.pass({std::move(under_way[from].front())});
      under_way[from].pop_front();
      given_back = given_back || !passed.given_back.empty();
      for (const request::Output& output : passed.outputs) {
        ASSERT_FALSE(ended);
        for (const auto& token : output.tokens) ASSERT_EQ(token.token, delivered++);
        ended = output.finished;
        ASSERT_FALSE(output.lost);
      }
    };
    while (!ended) {
      const double dice = random.uniform();
      if (dice < 0.25 && said < running.max_tokens.count) {
        request::Output output = output_of(running, {static_cast<TokenId>(said++)});
        output.finished = said == running.max_tokens.count;
        output.reason = request::FinishReason::kLength;
        under_way[at].push_back(std::move(output));
      } else if (dice < 0.95) {
        arrive(random.chance(0.5) ? 0 : 1);
      } else if (slices[at].lost.empty()) {
        slices[at].lost = "lost";
        under_way[at].push_back(lost_end(running));
        for (int i = 0; i < random.below(5); ++i) arrive(at);
        if (ended) break;
        if (given_back) slices[at].lost.clear();
      }
      if (!given_back && !slices[at].lost.empty()) {
        slices[1 - at].lost.clear();
        running = routed.again(RequestId(1), slices[1 - at]).value();
        ASSERT_EQ(running.attempt, ++losses);
        said = std::ssize(running.output);
        ASSERT_EQ(said, delivered);
        at = 1 - at;
        told = false;
      }
      if (!ended && !told && random.chance(0.03)) {
        ASSERT_TRUE(routed.withdraw(RequestId(1)));
        told = true;
        under_way[at].push_back(cancelled_end(running));
      }
      if (!given_back || ended) continue;
      ASSERT_TRUE(routed.is_given_back(RequestId(1)));
      given_back = told = false;
      under_way[at].clear();
      running = routed.again(RequestId(1), slices[1 - at]).value();
      slices[1 - at].lost.clear();
      losses += 1;
      given += 1;
      said = std::ssize(running.output);
      at = 1 - at;
    }
    ASSERT_EQ(delivered, running.max_tokens.count) << "seed " << seed;
  }
  EXPECT_GT(given, 1000);
}

}  // namespace
}  // namespace causeway::fleet::routed_requests_test
