#include "server/tracing/request_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/random.h"

namespace causeway::server::request_trace_test {
namespace {

ChoiceTrace make_run() {
  return {.submitted = millis(110),
          .held = millis(200),
          .weights = millis(50),
          .queued = millis(300),
          .first_token = millis(500),
          .ended = millis(900),
          .rotations = {{.out = millis(500), .in = millis(600)}},
          .generated_tokens = 7,
          .preemptions = 2,
          .resumes = 1};
}

// Came at 100 ms of a clock that began 10 s after 1970 did.
RequestTrace make_trace() {
  RequestTrace trace;
  trace.context = {.trace = {1, 2}, .parent = 3, .state = {}};
  trace.root = 77;
  trace.unix_epoch = -seconds(10);
  trace.arrival = millis(100);
  trace.ended = millis(910);
  trace.choices = 1;
  trace.runs = {make_run()};
  return trace;
}

std::map<std::string_view, Span> by_name(const RequestTrace& trace) {
  std::map<std::string_view, Span> spans;
  for (Span& span : spans_of(trace)) {
    const std::string_view name = span.name;
    EXPECT_TRUE(spans.emplace(name, std::move(span)).second) << name;
  }
  return spans;
}

const SpanAttribute* find(const Span& span, std::string_view name) {
  for (const SpanAttribute& one : span.attributes) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

double number(const Span& span, std::string_view name) {
  const SpanAttribute* const found = find(span, name);
  if (found == nullptr) return -1;
  if (const auto* integer = std::get_if<std::int64_t>(&found->value)) {
    return static_cast<double>(*integer);
  }
  return std::get<double>(found->value);
}

TEST(RequestTrace, StagesFollowEachOther) {
  const auto spans = by_name(make_trace());
  ASSERT_EQ(spans.size(), 8u);
  const auto at = [](std::int64_t ms) { return seconds(10) + millis(ms); };
  const auto expect = [&](std::string_view name, std::int64_t begin, std::int64_t end) {
    ASSERT_TRUE(spans.contains(name)) << name;
    EXPECT_EQ(spans.at(name).begin, at(begin)) << name;
    EXPECT_EQ(spans.at(name).end, at(end)) << name;
  };
  expect("llm_request", 100, 910);
  expect("prepare", 100, 110);
  expect("load_model", 110, 310);
  expect("bring_weights", 310, 360);
  expect("queue", 360, 400);
  expect("prefill", 400, 500);
  expect("decode", 500, 900);
  expect("rotation", 600, 700);
}

TEST(RequestTrace, AllAreChildrenOfTheRequest) {
  const std::vector<Span> spans = spans_of(make_trace());
  EXPECT_EQ(spans[0].name, "llm_request");
  EXPECT_EQ(spans[0].id, 77u);
  EXPECT_EQ(spans[0].parent, 3u) << "the caller's";
  EXPECT_TRUE(spans[0].server);
  std::map<std::uint64_t, int> ids;
  for (const Span& span : spans) ++ids[span.id];
  EXPECT_EQ(ids.size(), spans.size());
  for (std::size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].parent, 77u);
    EXPECT_FALSE(spans[i].server);
    EXPECT_EQ(find(spans[i], "causeway.choice"), nullptr) << "there is one";
  }
}

TEST(RequestTrace, LatenciesAreThoseOfItsStages) {
  RequestTrace trace = make_trace();
  trace.prompt_tokens = 12;
  trace.generated_tokens = 7;
  const Span root = spans_of(trace)[0];
  EXPECT_DOUBLE_EQ(number(root, "gen_ai.latency.e2e"), 0.81);
  EXPECT_DOUBLE_EQ(number(root, "gen_ai.latency.time_in_queue"), 0.29);
  EXPECT_DOUBLE_EQ(number(root, "causeway.latency.time_to_load_model"), 0.2);
  EXPECT_DOUBLE_EQ(number(root, "causeway.latency.time_to_bring_weights"), 0.05);
  EXPECT_DOUBLE_EQ(number(root, "gen_ai.latency.time_to_first_token"), 0.4);
  EXPECT_DOUBLE_EQ(number(root, "gen_ai.latency.time_in_model_prefill"), 0.1);
  EXPECT_DOUBLE_EQ(number(root, "gen_ai.latency.time_in_model_decode"), 0.4);
  EXPECT_DOUBLE_EQ(number(root, "gen_ai.latency.time_in_model_inference"), 0.5);
  EXPECT_EQ(number(root, "gen_ai.usage.prompt_tokens"), 12);
  EXPECT_EQ(number(root, "gen_ai.usage.completion_tokens"), 7);
  EXPECT_EQ(number(root, "causeway.preemptions"), 2);
  EXPECT_EQ(number(root, "causeway.rotations"), 1);
  EXPECT_EQ(number(root, "causeway.resumes"), 1);
}

TEST(RequestTrace, NothingIsSaidOfATokenOfWhichNothingIsExpected) {
  const auto names = [](const RequestTrace& trace) {
    std::set<std::string> all;
    const auto spans = spans_of(trace);
    for (const SpanAttribute& one : spans[0].attributes) all.emplace(one.name);
    return all;
  };
  RequestTrace trace = make_trace();
  EXPECT_FALSE(names(trace).contains("causeway.predicted_tpot"));
  EXPECT_FALSE(names(trace).contains("causeway.best_effort"));
  trace.predicted_tpot = millis(20);
  EXPECT_EQ(number(spans_of(trace)[0], "causeway.predicted_tpot"), 0.02);
  EXPECT_EQ(number(spans_of(trace)[0], "causeway.best_effort"), 0);
}

TEST(RequestTrace, WhatNeverCameIsAsFarAsItGot) {
  RequestTrace trace = make_trace();
  trace.error = "the model could not be loaded";
  trace.runs[0] = {.submitted = millis(110), .held = millis(500), .ended = millis(610)};
  auto spans = by_name(trace);
  EXPECT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans.at("load_model").end - spans.at("load_model").begin, millis(500));
  EXPECT_EQ(spans.at("llm_request").error, trace.error);
  EXPECT_EQ(number(spans.at("llm_request"), "gen_ai.latency.time_to_first_token"), -1);
  EXPECT_EQ(number(spans.at("llm_request"), "gen_ai.latency.time_in_queue"), -1);

  trace.runs[0] = {.submitted = millis(110), .queued = millis(300), .ended = millis(610)};
  spans = by_name(trace);
  EXPECT_EQ(spans.size(), 4u) << "no first token";
  EXPECT_EQ(spans.at("prefill").end, seconds(10) + millis(610));

  trace.runs.clear();
  spans = by_name(trace);
  EXPECT_EQ(spans.size(), 2u) << "refused before there was a choice";
  EXPECT_EQ(spans.at("prepare").end, spans.at("llm_request").end);
}

TEST(RequestTrace, ARotationThatHasNotEndedEndsWithTheChoice) {
  RequestTrace trace = make_trace();
  trace.runs[0].rotations = {{.out = millis(700)}};
  EXPECT_EQ(by_name(trace).at("rotation").end, seconds(10) + millis(900));
}

TEST(RequestTrace, EachOfSeveralChoicesHasItsStages) {
  RequestTrace trace = make_trace();
  trace.choices = 2;
  trace.runs.push_back(make_run());
  std::map<double, int> stages;
  for (const Span& span : spans_of(trace)) ++stages[number(span, "causeway.choice")];
  EXPECT_EQ(stages, (std::map<double, int>{{-1, 2}, {0, 6}, {1, 6}}));
}

// Whatever is measured, and in whatever order: times may come from two clocks' readings, and some
// never happen.
TEST(RequestTrace, EverySpanLiesWithinTheRequestAndStagesLeaveNoGap) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    const auto any = [&] { return Nanos(random.between(-3, 30)); };
    RequestTrace trace = make_trace();
    trace.unix_epoch = Nanos(0);
    trace.arrival = Nanos(random.below(10));
    trace.ended = trace.arrival + Nanos(random.below(20));
    trace.runs.clear();
    trace.choices = random.below(4);
    for (std::int64_t i = 0; i < trace.choices; ++i) {
      trace.runs.push_back({.submitted = any(),
                            .held = any(),
                            .weights = any(),
                            .queued = any(),
                            .first_token = any(),
                            .ended = any(),
                            .rotations = {{.out = any(), .in = any()}, {.out = any()}}});
    }
    const std::vector<Span> spans = spans_of(trace);
    ASSERT_EQ(std::ssize(spans), trace.spans()) << seed;
    std::map<double, Nanos> reached;
    for (const Span& span : spans) {
      ASSERT_GE(span.begin, trace.arrival) << seed << span.name;
      ASSERT_GE(span.end, span.begin) << seed << span.name;
      ASSERT_LE(span.end, trace.ended) << seed << span.name;
      if (span.name == "llm_request" || span.name == "prepare" || span.name == "rotation") continue;
      const auto [at, first] = reached.emplace(number(span, "causeway.choice"), span.end);
      if (first) continue;
      ASSERT_EQ(span.begin, std::exchange(at->second, span.end)) << seed << span.name;
    }
  }
}

}  // namespace
}  // namespace causeway::server::request_trace_test
