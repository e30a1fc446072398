#include "server/metrics.h"

#include <cstdlib>
#include <fstream>
#include <regex>

#include "base/testing/temporary_directory.h"
#include "server/testing/fixture.h"

namespace causeway::server::metrics_test {
namespace {

using testing::Client;
using testing::says;
using testing::Script;
using testing::ServerTest;

// The value of the series whose line begins with `name`, or -1.
double value_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
}

TEST_F(ServerTest, MetricsCountWhatHappened) {
  start();
  chat();
  chat(R"("stream":true)");
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("x");
    script.reason = request::FinishReason::kLength;
    script.queued = seconds(2);
    script.switched = {.missing = Bytes(1), .predicted = seconds(1), .took = seconds(3)};
    return script;
  };
  chat("", "x-slo-ttft-ms: 0.000001\r\n");
  const std::string text = Client(server->port()).get("/metrics").body;
  const std::string label = R"({model_name="tiny"})";
  EXPECT_EQ(value_of(text, "causeway:prompt_tokens_total" + label), 60);
  EXPECT_EQ(value_of(text, "causeway:generation_tokens_total" + label), 11);
  EXPECT_EQ(value_of(text, "causeway:time_to_first_token_seconds_count" + label), 3);
  EXPECT_EQ(value_of(text, "causeway:inter_token_latency_seconds_count" + label), 8);
  EXPECT_EQ(value_of(text, "causeway:e2e_request_latency_seconds_count" + label), 3);
  EXPECT_EQ(value_of(text, "causeway:request_queue_time_seconds_count" + label), 1);
  EXPECT_EQ(value_of(text, "causeway:request_queue_time_seconds_sum" + label), 2);
  EXPECT_EQ(value_of(text, R"(causeway:request_success_total{finished_reason="stop",)"
                           R"(model_name="tiny"})"),
            2);
  EXPECT_EQ(value_of(text, R"(causeway:request_success_total{finished_reason="length",)"
                           R"(model_name="tiny"})"),
            1);
  EXPECT_EQ(value_of(text, R"(causeway:slo_missed_total{kind="ttft",model_name="tiny"})"), 1);
  EXPECT_EQ(value_of(text, R"(causeway:slo_attained_total{kind="ttft",model_name="tiny"})"), 2);
  EXPECT_EQ(value_of(text, "causeway:num_requests_running" + label), 0);
  EXPECT_EQ(value_of(text, R"(causeway:model_switch_seconds_sum{from="host",)"
                           R"(model_name="tiny"})"),
            3);
  EXPECT_EQ(value_of(text, R"(causeway:model_switch_seconds_count{from="host",)"
                           R"(model_name="tiny"})"),
            1);
  EXPECT_EQ(value_of(text, R"(causeway:model_resident_bytes{model_name="tiny",tier="host"})"),
            5000);
  EXPECT_EQ(value_of(text, R"(causeway:model_resident_bytes{model_name="tiny",tier="device"})"),
            3000);
  EXPECT_EQ(value_of(text, R"(causeway:link_bytes_total{direction="in",purpose="weights"})"), 9000);
}

TEST_F(ServerTest, MetricsAndListTellOfBestEffort) {
  start();
  fleet->on_status = [](ModelId, fleet::ModelStatus& status) {
    status.predicted_tpot = millis(250);
    status.best_effort = true;
  };
  Client client(server->port());
  const std::string text = client.get("/metrics").body;
  const std::string label = R"({model_name="tiny"})";
  EXPECT_EQ(value_of(text, "causeway:predicted_time_per_output_token_seconds" + label), 0.25);
  EXPECT_EQ(value_of(text, "causeway:best_effort" + label), 1);
  const auto list = nlohmann::json::parse(client.get("/v1/models").body);
  EXPECT_EQ(list["data"][0]["predicted_tpot_us"], 250'000);
  EXPECT_EQ(list["data"][0]["best_effort"], true);
}

TEST_F(ServerTest, MetricsTellHitsOfThePrefixCacheByTier) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  fleet->add_model("tiny");
  fleet->counted.prefix_queried_tokens = 100;
  fleet->counted.prefix_hit_tokens = 60;
  fleet->counted.prefix_host_tokens = 20;
  fleet->counted.twins_total = 8;
  fleet->counted.twins_used = 2;
  fleet->counted.frames_stranded = 3;
  fleet->counted.device_busy = millis(1500);
  fleet->counted.kv_copies = {
      .eager_out = 5, .rotation_out = 6, .rotation_in = 7, .prefix_in = 8, .failed = 9};
  ASSERT_TRUE(server->start(*fleet).ok());
  Client client(server->port());
  client.get("/metrics");  // what the fleet counted is followed, not added again
  const std::string text = client.get("/metrics").body;
  const auto value = [&](const std::string& name) { return value_of(text, "causeway:" + name); };
  EXPECT_EQ(value(R"(prefix_cache_queries_total{model_name="tiny"})"), 100);
  EXPECT_EQ(value(R"(prefix_cache_hits_total{model_name="tiny",tier="hbm"})"), 40);
  EXPECT_EQ(value(R"(prefix_cache_hits_total{model_name="tiny",tier="host"})"), 20);
  EXPECT_EQ(value("kv_host_usage_perc"), 0.25);
  EXPECT_EQ(value("kv_frames_stranded"), 3);
  EXPECT_DOUBLE_EQ(value("device_busy_seconds_total"), 1.5);
  EXPECT_EQ(value(R"(kv_rotation_blocks_total{direction="out",reason="eager"})"), 5);
  EXPECT_EQ(value(R"(kv_rotation_blocks_total{direction="out",reason="rotation"})"), 6);
  EXPECT_EQ(value(R"(kv_rotation_blocks_total{direction="in",reason="rotation"})"), 7);
  EXPECT_EQ(value(R"(kv_rotation_blocks_total{direction="in",reason="prefix"})"), 8);
  EXPECT_EQ(value("kv_copies_failed_total"), 9);
}

class MetricsOfRequests : public ServerTest {
 protected:
  MetricsOfRequests() {
    start();
    metrics_.emplace(*fleet);
  }
  double value(const std::string& name) {
    return value_of(metrics_->exposition(*fleet), "causeway:" + name);
  }
  double lag(const std::string& part, const std::string& at) {
    return value("slo_lag_seconds_" + part + R"({at=")" + at + R"(",model_name="tiny"})");
  }
  // A request ends whose targets are 1 s and 100 ms.
  void end(Finished measured) {
    measured.slo = {.ttft = seconds(1), .tpot = millis(100)};
    metrics_->finished(*fleet->catalogue().front(), measured);
  }
  double slo(const std::string& outcome, const std::string& kind) {
    return value("slo_" + outcome + R"(_total{kind=")" + kind + R"(",model_name="tiny"})");
  }

  std::optional<Metrics> metrics_;
};

TEST_F(MetricsOfRequests, LagsAreBehindTheTargetOrAheadOfIt) {
  end({.generated_tokens = 11,
       .ttft = millis(1500),
       .e2e = seconds(2),
       .queued = millis(250),
       .tpot = millis(50),
       .slo = {}});
  EXPECT_EQ(lag("count", "scheduled"), 1);
  EXPECT_DOUBLE_EQ(lag("sum", "scheduled"), -0.75);
  EXPECT_DOUBLE_EQ(lag("sum", "first_token"), 0.5);
  EXPECT_DOUBLE_EQ(lag("sum", "finished"), -0.5) << "10 tokens, 50 ms each";
  EXPECT_EQ(value(R"(slo_lag_seconds_bucket{at="first_token",model_name="tiny",le="0"})"), 0);
  EXPECT_EQ(value(R"(slo_lag_seconds_bucket{at="finished",model_name="tiny",le="0"})"), 1);
  EXPECT_EQ(slo("missed", "ttft"), 1);
  EXPECT_EQ(slo("attained", "tpot"), 1);
}

TEST_F(MetricsOfRequests, ATargetIsMissedHoweverTheRequestEnds) {
  end({.ending = Ending::kAbort, .e2e = seconds(3), .slo = {}});   // its client waited in vain
  end({.ending = Ending::kAbort, .e2e = millis(300), .slo = {}});  // it did not wait for long
  end({.ending = Ending::kError, .e2e = seconds(2), .slo = {}});   // no token in time
  end({.ending = Ending::kAbort,
       .generated_tokens = 5,  // it had its first token
       .ttft = millis(10),
       .e2e = seconds(3),
       .tpot = seconds(1),
       .slo = {}});
  EXPECT_EQ(slo("missed", "ttft"), 2);
  EXPECT_EQ(slo("attained", "ttft"), 1);
  EXPECT_EQ(slo("missed", "tpot") + slo("attained", "tpot"), 0) << "it was not to the end";
  EXPECT_EQ(lag("count", "scheduled"), 0);
  EXPECT_EQ(lag("count", "first_token"), 1);
  EXPECT_EQ(lag("count", "finished"), 0);
}

TEST_F(MetricsOfRequests, AnswersOfOneTokenHaveNoTimeBetweenTokens) {
  end({.generated_tokens = 1, .ttft = millis(10), .e2e = millis(10), .slo = {}});
  EXPECT_EQ(slo("attained", "ttft"), 1);
  EXPECT_EQ(slo("missed", "tpot") + slo("attained", "tpot"), 0);
  EXPECT_EQ(lag("count", "finished"), 0);
}

TEST_F(MetricsOfRequests, StagesAreQueuePrefillAndDecode) {
  const auto sum = [&](const std::string& stage) {
    return value("request_" + stage + R"(_time_seconds_sum{model_name="tiny"})");
  };
  end({.generated_tokens = 11,
       .ttft = millis(1500),
       .e2e = seconds(2),
       .queued = millis(250),
       .slo = {}});
  EXPECT_DOUBLE_EQ(sum("queue"), 0.25);
  EXPECT_DOUBLE_EQ(sum("prefill"), 1.25);
  EXPECT_DOUBLE_EQ(sum("decode"), 0.5);
  EXPECT_DOUBLE_EQ(sum("inference"), 1.75);
  // The engine did not say when it began.
  end({.generated_tokens = 2, .ttft = millis(500), .e2e = seconds(1), .slo = {}});
  EXPECT_DOUBLE_EQ(sum("prefill"), 1.25);
  EXPECT_DOUBLE_EQ(sum("decode"), 1);
  end({.ending = Ending::kAbort, .ttft = millis(1), .e2e = seconds(9), .slo = {}});
  EXPECT_DOUBLE_EQ(sum("decode"), 1);
}

TEST_F(ServerTest, MetricsTellALongestChoiceOfEachPrompt) {
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    return says(std::string(request.prompt.size(), 'x'));
  };
  completion(R"("prompt":["a","abcd"],"n":2,"max_tokens":9)");
  completion(R"("prompt":"a","max_tokens":-1)");  // refused: counts nothing
  const std::string text = Client(server->port()).get("/metrics").body;
  const auto value = [&](const std::string& name) {
    return value_of(text, "causeway:request_" + name + R"({model_name="tiny"})");
  };
  EXPECT_EQ(value("max_num_generation_tokens_count"), 2);
  EXPECT_EQ(value("max_num_generation_tokens_sum"), 5);
  EXPECT_EQ(value("params_n_sum"), 4);
  EXPECT_EQ(value("params_max_tokens_sum"), 18);
}

// Whether there is a series of this name of the model "tiny".
bool has_series(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find("\n" + name + "{"); at != std::string::npos;
       at = text.find("\n" + name + "{", at + 1)) {
    const std::string_view line(text.data() + at + 1, text.find('\n', at + 1) - at - 1);
    if (line.find(R"(model_name="tiny")") != std::string_view::npos) return true;
  }
  return false;
}

// What the queries of vLLM's dashboard ask for: examples/observability/prometheus_grafana/
// grafana.json of its repository, each with {model_name="$model_name"}.
constexpr const char* kOfVllmsDashboard[] = {
    "e2e_request_latency_seconds_bucket",
    "e2e_request_latency_seconds_sum",
    "e2e_request_latency_seconds_count",
    "prompt_tokens_total",
    "generation_tokens_total",
    "inter_token_latency_seconds_bucket",
    "inter_token_latency_seconds_sum",
    "inter_token_latency_seconds_count",
    "num_requests_running",
    "num_requests_waiting",
    "time_to_first_token_seconds_bucket",
    "time_to_first_token_seconds_sum",
    "time_to_first_token_seconds_count",
    "kv_cache_usage_perc",
    "request_prompt_tokens_bucket",
    "request_generation_tokens_bucket",
    "request_success_total",
    "request_queue_time_seconds_sum",
    "request_prefill_time_seconds_sum",
    "request_decode_time_seconds_sum",
    "request_max_num_generation_tokens_sum",
};

TEST_F(ServerTest, MetricsHaveAllThatVllmsDashboardAsksFor) {
  options.metrics.vllm_names = true;
  start();
  chat();
  const std::string text = Client(server->port()).get("/metrics").body;
  for (const std::string name : kOfVllmsDashboard) {
    EXPECT_TRUE(has_series(text, "vllm:" + name)) << name;
    EXPECT_TRUE(has_series(text, "causeway:" + name)) << name;
  }
  const std::string tokens = R"(:generation_tokens_total{model_name="tiny"})";
  EXPECT_GT(value_of(text, "vllm" + tokens), 0);
  EXPECT_EQ(value_of(text, "vllm" + tokens), value_of(text, "causeway" + tokens));
  EXPECT_GT(value_of(text, R"(vllm:request_success_total{finished_reason="stop",)"
                           R"(model_name="tiny"})"),
            0);
  EXPECT_FALSE(has_series(text, "vllm:model_resident_bytes")) << "vLLM has none";
}

TEST_F(ServerTest, MetricsHaveOneNameUnlessAsked) {
  start();
  EXPECT_EQ(Client(server->port()).get("/metrics").body.find("vllm:"), std::string::npos);
}

// The bounds of a histogram's buckets, as they are written.
std::vector<double> bounds_of(const std::string& text, const std::string& name) {
  std::vector<double> bounds;
  const std::string line = "\n" + name + R"(_bucket{model_name="tiny",le=")";
  for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) {
    if (text.compare(at + line.size(), 4, "+Inf") == 0) continue;
    bounds.push_back(std::stod(text.substr(at + line.size())));
  }
  return bounds;
}

// So that its quantiles and heat maps are comparable.
TEST_F(ServerTest, MetricsHaveVllmsBuckets) {
  start();
  const std::string text = Client(server->port()).get("/metrics").body;
  const std::vector<double> ttft = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                    0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                    20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
  const std::vector<double> token = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                     0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
  const std::vector<double> request = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                       5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                       60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
  EXPECT_EQ(bounds_of(text, "causeway:time_to_first_token_seconds"), ttft);
  EXPECT_EQ(bounds_of(text, "causeway:inter_token_latency_seconds"), token);
  EXPECT_EQ(bounds_of(text, "causeway:request_time_per_output_token_seconds"), token);
  for (const char* name : {"e2e_request_latency", "request_queue_time", "request_inference_time",
                           "request_prefill_time", "request_decode_time"}) {
    EXPECT_EQ(bounds_of(text, std::string("causeway:") + name + "_seconds"), request) << name;
  }
  const std::vector<double> lengths = bounds_of(text, "causeway:request_prompt_tokens");
  ASSERT_GE(lengths.size(), 4u);
  EXPECT_EQ(std::vector<double>(lengths.begin(), lengths.begin() + 4),
            (std::vector<double>{1, 2, 5, 10}));
  EXPECT_EQ(bounds_of(text, "causeway:request_params_n"), (std::vector<double>{1, 2, 5, 10, 20}));
}

TEST_F(ServerTest, MetricsPassPromtool) {
  if (std::system("command -v promtool > /dev/null") != 0) GTEST_SKIP() << "no promtool";
  start({"tiny", "a \"quoted\" \\ name\n"});
  chat();
  // promtool holds that names have no colon (they are meant for recording rules). The field's
  // servers use one as prefix all the same, and so do we: that one opinion is left out.
  const std::string text = std::regex_replace(Client(server->port()).get("/metrics").body,
                                              std::regex("causeway:"), "causeway_");
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "metrics.txt";
  std::ofstream(path) << text;
  EXPECT_EQ(std::system(("promtool check metrics < " + path).c_str()), 0) << text;
}

}  // namespace
}  // namespace causeway::server::metrics_test
