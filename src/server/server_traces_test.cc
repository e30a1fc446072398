// Traces of requests, as a collector gets them.
#include <gmock/gmock.h>

#include "base/testing/log_lines.h"
#include "server/testing/collector.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_traces_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Client;
using testing::Collector;
using testing::says;
using testing::Script;

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kCaller =
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";

class TracesTest : public testing::ServerTest {
 protected:
  TracesTest() {
    options.traces = {.endpoint = collector.endpoint(), .seed = 5, .period = millis(5)};
  }
  // All spans, once those of so many requests are there.
  std::vector<json> spans(std::size_t requests = 1) {
    std::vector<json> all;
    for (std::size_t batches = 1; roots(all) < requests; ++batches) {
      if (!collector.wait_for(batches)) break;
      all.clear();
      for (const std::string& body : collector.bodies()) {
        const json batch = json::parse(body);
        for (const json& span : batch["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
          all.push_back(span);
        }
      }
    }
    return all;
  }
  static std::size_t roots(const std::vector<json>& spans) {
    return static_cast<std::size_t>(std::count_if(spans.begin(), spans.end(), [](const json& span) {
      return span["name"] == "llm_request";
    }));
  }
  static std::vector<std::string> names(const std::vector<json>& spans) {
    std::vector<std::string> names;
    for (const json& span : spans) names.push_back(span["name"]);
    return names;
  }
  static json attribute(const json& span, const std::string& key) {
    for (const json& one : span["attributes"]) {
      if (one["key"] == key) return one["value"].items().begin().value();
    }
    return {};
  }
  std::string metrics() { return Client(server->port()).get("/metrics").body; }

  Collector collector;
};

TEST_F(TracesTest, TellARequestsWay) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("Hello");
    script.queued = Nanos(2000);
    script.held_for = Nanos(700);
    script.weights = Nanos(300);
    script.rotations = {{.out = Nanos(1), .in = Nanos(2)}};
    script.cached = 3;
    return script;
  };
  const Answer answer = chat(R"("temperature":0.25,"max_tokens":9)");
  ASSERT_EQ(answer.status, 200);
  const auto all = spans();
  EXPECT_THAT(names(all),
              ::testing::IsSupersetOf({"llm_request", "prepare", "load_model", "bring_weights",
                                       "prefill", "decode", "rotation"}));
  const json& root = all[0];
  EXPECT_EQ(root["name"], "llm_request");
  EXPECT_FALSE(root.contains("parentSpanId")) << "the trace begins here";
  EXPECT_EQ(attribute(root, "gen_ai.request.id"), parsed(answer.body)["id"]);
  EXPECT_EQ(attribute(root, "gen_ai.request.model"), "tiny");
  EXPECT_EQ(attribute(root, "gen_ai.request.max_tokens"), "9");
  EXPECT_EQ(attribute(root, "gen_ai.request.temperature"), 0.25);
  EXPECT_EQ(attribute(root, "gen_ai.usage.completion_tokens"), "5");
  EXPECT_EQ(attribute(root, "gen_ai.usage.prompt_tokens"),
            std::to_string(parsed(answer.body)["usage"]["prompt_tokens"].get<int>()));
  EXPECT_EQ(attribute(root, "causeway.usage.cached_tokens"), "3");
  EXPECT_EQ(attribute(root, "http.response.status_code"), "200");
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["parentSpanId"], root["spanId"]);
    EXPECT_EQ(all[i]["traceId"], root["traceId"]);
  }
}

TEST_F(TracesTest, TellWhatATokenIsExpectedToTake) {
  start();
  fleet->on_status = [](ModelId, fleet::ModelStatus& status) {
    status.predicted_tpot = millis(250);
    status.best_effort = true;
  };
  ASSERT_EQ(chat().status, 200);
  const json root = spans()[0];
  EXPECT_EQ(attribute(root, "causeway.predicted_tpot"), 0.25);
  EXPECT_EQ(attribute(root, "causeway.best_effort"), "1");
}

TEST_F(TracesTest, BelongToTheirCallers) {
  start();
  chat("", std::string(kCaller) + "tracestate: a=1\r\ntracestate: b=2\r\n");
  chat(R"("stream":true)", "traceparent: nonsense\r\n");
  chat("", std::string(kCaller) + kCaller);
  const auto all = spans(3);
  std::vector<json> roots;
  for (const json& span : all) {
    if (span["name"] == "llm_request") roots.push_back(span);
  }
  ASSERT_EQ(roots.size(), 3u);
  EXPECT_EQ(roots[0]["traceId"], kTrace);
  EXPECT_EQ(roots[0]["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(roots[0]["traceState"], "a=1,b=2");
  EXPECT_NE(roots[1]["traceId"], kTrace);
  EXPECT_FALSE(roots[1].contains("parentSpanId"));
  EXPECT_NE(roots[2]["traceId"], kTrace) << "two callers are none";
  EXPECT_NE(roots[2]["traceId"], roots[1]["traceId"]);
}

TEST_F(TracesTest, OnesThatAreNotRecordedAreNotSent) {
  options.traces->sample_ratio = 0;
  start();
  for (int i = 0; i < 20; ++i) chat();
  chat("", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n");
  chat("", kCaller);
  const auto all = spans();
  EXPECT_EQ(roots(all), 1u);
  EXPECT_EQ(all[0]["traceId"], kTrace);
}

TEST_F(TracesTest, TellWhyARequestFailed) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    return exhausted("the queue is full");
  };
  EXPECT_EQ(chat().status, 429);
  EXPECT_EQ(chat(R"("temperature":"warm")").status, 400);
  const auto all = spans(2);
  ASSERT_EQ(names(all),
            (std::vector<std::string>{"llm_request", "prepare", "llm_request", "prepare"}));
  EXPECT_EQ(attribute(all[0], "http.response.status_code"), "429");
  EXPECT_EQ(all[0]["status"]["code"], 2);
  EXPECT_EQ(attribute(all[2], "http.response.status_code"), "400");
  EXPECT_THAT(all[2]["status"]["message"].get<std::string>(), ::testing::HasSubstr("temperature"));
}

TEST_F(TracesTest, EveryChoiceHasItsStages) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("x");
    script.queued = Nanos(1);
    return script;
  };
  chat(R"("n":2)");
  completion(R"("prompt":["a","b","c","d","e"],"n":2)");
  const auto all = spans(2);
  std::map<std::string, int> decodes;
  for (const json& span : all) {
    if (span["name"] == "decode") ++decodes[attribute(span, "causeway.choice")];
  }
  EXPECT_EQ(decodes.size(), kChoicesTracedMax) << "of ten";
  EXPECT_EQ(decodes["0"], 2);
}

TEST_F(TracesTest, AreCounted) {
  start();
  EXPECT_THAT(metrics(), ::testing::HasSubstr("\ncauseway:trace_spans_exported_total 0\n"));
  chat();
  const std::size_t sent = spans().size();
  const std::string wanted = "\ncauseway:trace_spans_exported_total " + std::to_string(sent) + "\n";
  for (const Nanos limit = clock.now() + seconds(10); clock.now() < limit;) {
    if (metrics().find(wanted) != std::string::npos) break;
  }
  EXPECT_THAT(metrics(), ::testing::HasSubstr(wanted));
}

TEST_F(TracesTest, ACollectorThatHangsDelaysNobody) {
  const LogLines log;
  collector.answer("");
  options.traces->queued_spans_max = 20;
  options.traces->flush_time_max = millis(200);
  start();
  const Nanos began = clock.now();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(chat().status, 200);
  EXPECT_LT(clock.now() - began, seconds(4)) << "less than it takes to give the collector up";
  const std::string text = metrics();
  const std::string dropped = "causeway:trace_spans_dropped_total{reason=\"queue_full\"} ";
  const std::size_t at = text.find(dropped);
  ASSERT_NE(at, std::string::npos);
  EXPECT_GT(std::stod(text.substr(at + dropped.size())), 0);
  const Nanos stops = clock.now();
  server->stop();
  EXPECT_LT(clock.now() - stops, seconds(4));
}

TEST_F(TracesTest, AStopSendsWhatIsLeft) {
  options.traces->period = seconds(100);
  start();
  chat();
  server->stop();
  EXPECT_EQ(roots(spans()), 1u);
}

TEST_F(TracesTest, WithoutAnEndpointNothingIsRead) {
  options.traces.reset();
  start();
  EXPECT_EQ(chat("", kCaller).status, 200);
  EXPECT_TRUE(collector.bodies().empty());
  EXPECT_THAT(metrics(), ::testing::HasSubstr("\ncauseway:trace_spans_exported_total 0\n"));
}

}  // namespace
}  // namespace causeway::server::server_traces_test
