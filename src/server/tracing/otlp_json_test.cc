#include "server/tracing/otlp_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace causeway::server::otlp_json_test {
namespace {

using nlohmann::json;

RequestTrace make_trace() {
  RequestTrace trace;
  trace.context = {.trace = {0x0af7651916cd43dd, 0x8448eb211c80319c},
                   .parent = 0xb7ad6b7169203331,
                   .state = "vendor=x"};
  trace.root = 0xff;
  trace.unix_epoch = -seconds(1'700'000'000);
  trace.arrival = Nanos(5);
  trace.ended = seconds(1);
  trace.id = "cmpl-1";
  trace.endpoint = "/v1/completions";
  trace.operation = "text_completion";
  trace.model = "a \"model\"\n\xff";
  trace.prompt_tokens = std::numeric_limits<std::int64_t>::max();
  trace.temperature = 0.5;
  return trace;
}

json value_of(const json& span, const std::string& key) {
  for (const json& one : span["attributes"]) {
    if (one["key"] == key) return one["value"];
  }
  return {};
}

TEST(OtlpJson, IsAsTheStandardEncodesIt) {
  const RequestTrace traces[] = {make_trace(), make_trace()};
  const json body = json::parse(otlp_body({.version = "1.2", .instance = "i"}, traces));
  const json& of_resource = body["resourceSpans"][0];
  EXPECT_EQ(value_of(of_resource["resource"], "service.name")["stringValue"], "causeway");
  EXPECT_EQ(value_of(of_resource["resource"], "service.version")["stringValue"], "1.2");
  EXPECT_EQ(value_of(of_resource["resource"], "service.instance.id")["stringValue"], "i");
  const json& scope = of_resource["scopeSpans"][0];
  EXPECT_EQ(scope["scope"]["name"], "causeway");
  ASSERT_EQ(scope["spans"].size(), 4u);
  const json& root = scope["spans"][0];
  EXPECT_EQ(root["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(root["spanId"], "00000000000000ff");
  EXPECT_EQ(root["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(root["traceState"], "vendor=x");
  EXPECT_EQ(root["name"], "llm_request");
  EXPECT_EQ(root["kind"], 2);
  EXPECT_EQ(root["startTimeUnixNano"], "1700000000000000005") << "64 bits are a string";
  EXPECT_EQ(root["endTimeUnixNano"], "1700000001000000000");
  EXPECT_FALSE(root.contains("status"));
  EXPECT_EQ(value_of(root, "gen_ai.usage.prompt_tokens")["intValue"], "9223372036854775807");
  EXPECT_EQ(value_of(root, "gen_ai.request.temperature")["doubleValue"], 0.5);
  EXPECT_EQ(value_of(root, "gen_ai.request.model")["stringValue"], "a \"model\"\n\xef\xbf\xbd");
  const json& child = scope["spans"][1];
  EXPECT_EQ(child["parentSpanId"], root["spanId"]);
  EXPECT_EQ(child["kind"], 1);
}

TEST(OtlpJson, AnErrorIsAStatus) {
  RequestTrace trace = make_trace();
  trace.context.parent = 0;
  trace.context.state.clear();
  trace.error = "the queue is full";
  trace.error_type = "queue_full";
  trace.status = 429;
  const json body = json::parse(otlp_body({}, std::span(&trace, 1)));
  const json& root = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(root["status"]["code"], 2);
  EXPECT_EQ(root["status"]["message"], "the queue is full");
  EXPECT_EQ(value_of(root, "error.type")["stringValue"], "queue_full");
  EXPECT_EQ(value_of(root, "http.response.status_code")["intValue"], "429");
  EXPECT_FALSE(root.contains("parentSpanId"));
  EXPECT_FALSE(root.contains("traceState"));
}

TEST(OtlpJson, WhatACollectorRejects) {
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"5"}})"), 5);
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":7}})"), 7);
  for (const std::string_view answer :
       {"", "{}", "[]", "5", "nonsense", "{\"partialSuccess\":5}", "{\"partialSuccess\":{}}",
        R"({"partialSuccess":{"rejectedSpans":-5}})", R"({"partialSuccess":{"rejectedSpans":[]}})",
        R"({"partialSuccess":{"rejectedSpans":"x"}})"}) {
    EXPECT_EQ(rejected_spans(answer), 0) << answer;
  }
  EXPECT_EQ(rejected_spans(std::string(60'000, '[')), 0);
}

}  // namespace
}  // namespace causeway::server::otlp_json_test
