#include "simulate/latency_recorder.h"

#include <gtest/gtest.h>

#include <string>

namespace causeway::simulate::latency_recorder_test {
namespace {

using Part = LatencyRecorder::Part;

Part part_of(std::int64_t request, Nanos at, std::int64_t tokens) {
  Part part;
  part.request = RequestId(request);
  part.at = at;
  part.tokens = tokens;
  return part;
}

Part end_of(std::int64_t request, Nanos at, std::int64_t tokens, request::FinishReason reason) {
  Part part = part_of(request, at, tokens);
  part.finished = true;
  part.reason = reason;
  return part;
}

Workload five_requests() {
  Workload workload(5);
  for (Arrival& arrival : workload) arrival.output = Tokens(4);
  workload[1].model = 1;
  return workload;
}

// One is served; one of the other model is cancelled behind two tokens; one is refused; one fails;
// one has a token and does not end.
void record_all(LatencyRecorder& recorder) {
  using request::FinishReason;
  for (std::int64_t i = 0; i < 5; ++i) recorder.arrived(i);
  const std::vector<RequestId> first = {RequestId(0)};
  const std::vector<Nanos> times = {millis(2), millis(3), millis(5)};
  recorder.record_tokens(first, times, 1);
  recorder.record(end_of(0, millis(9), 1, FinishReason::kLength), 0);
  recorder.record(part_of(1, millis(4), 1), 1);
  recorder.record(part_of(1, millis(7), 1), 0);
  recorder.record(end_of(1, millis(8), 0, FinishReason::kCancelled), 1);
  recorder.refused(RequestId(2), millis(1));
  recorder.record(end_of(3, millis(6), 0, FinishReason::kError));
  recorder.record(part_of(4, millis(6), 1));
}

TEST(LatencyRecorder, OutcomesAreWhatBecameOfRequests) {
  const Workload workload = five_requests();
  LatencyRecorder recorder(workload, {"a", "b"}, Recorded::kRequests, 2);
  LatencyRecorder in_short(workload, {"a", "b"}, Recorded::kOutcomes, 2);
  record_all(recorder);
  record_all(in_short);
  const std::vector<ServedRequest> served = recorder.take_served();
  const Outcomes outcomes = in_short.take_outcomes();
  ASSERT_EQ(outcomes.requests.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    SCOPED_TRACE(i);
    const RequestOutcome& outcome = outcomes.requests[i];
    EXPECT_EQ(outcome.failure(), served[i].failure);
    EXPECT_EQ(outcome.ended, served[i].ended);
    ASSERT_EQ(outcome.tokens, std::ssize(served[i].token_times));
    if (outcome.tokens == 0) continue;
    EXPECT_EQ(outcome.first_token, served[i].token_times.front());
    EXPECT_EQ(outcome.last_token, served[i].token_times.back());
  }
  EXPECT_EQ(in_short.last_end(), recorder.last_end());
  EXPECT_EQ(in_short.live(), 1);
  EXPECT_TRUE(in_short.models().empty());
}

TEST(LatencyRecorder, GapsAreThoseOfServedRequests) {
  const Workload workload = five_requests();
  LatencyRecorder recorder(workload, {"a", "b"}, Recorded::kOutcomes, 2);
  record_all(recorder);
  const Outcomes outcomes = recorder.take_outcomes();
  ASSERT_EQ(outcomes.gaps.size(), 2u);
  EXPECT_EQ(outcomes.gaps[0].count(), 3);
  EXPECT_EQ(outcomes.gaps[0].sum(), millis(7).count) << "1, 2 and 4 ms";
  EXPECT_EQ(outcomes.gaps[0].max(), millis(4).count);
  EXPECT_EQ(outcomes.gaps[1].count(), 0) << "it was cancelled";
}

TEST(LatencyRecorder, MemoryOfEndedRequestsHoldsNothingOfThem) {
  const Workload workload = five_requests();
  LatencyRecorder recorder(workload, {"a", "b"}, Recorded::kOutcomes);
  const auto length = request::FinishReason::kLength;
  recorder.arrived(0);
  recorder.record(part_of(0, millis(1), 1));
  recorder.record(end_of(0, millis(2), 1, length));
  recorder.arrived(2);
  recorder.record(end_of(2, millis(9), 1, length));
  const Outcomes outcomes = recorder.take_outcomes();
  EXPECT_EQ(outcomes.requests[2].tokens, 1);
  EXPECT_EQ(outcomes.requests[2].first_token, millis(9));
  EXPECT_EQ(outcomes.gaps[0].count(), 1);
}

}  // namespace
}  // namespace causeway::simulate::latency_recorder_test
