#include "server/metrics.h"

#include <cstdlib>
#include <fstream>
#include <regex>

#include "base/testing/temporary_directory.h"
#include "server/testing/fixture.h"

namespace causeway::server {
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
}  // namespace causeway::server
