// A running server on a port of its own with a scripted fleet behind it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "server/server.h"
#include "server/testing/client.h"
#include "server/testing/scripted_fleet.h"

namespace causeway::server::testing {

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    options.port = 0;
    options.version = "1.2.3";
    options.limits.keep_alive_period = seconds(600);
  }
  ~ServerTest() override {
    if (server) server->stop();
    fleet.reset();
  }

  // With a model whose template shows tools, calls and their answers as JSON, and which writes
  // calls in `format`.
  void start_with_tools(text::ToolCallFormat format) {
    server.emplace(options, clock);
    fleet.emplace(server->sink());
    auto& entry = fleet->add_model("tiny");
    auto chat_template = text::ChatTemplate::compile(
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}:"
        "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{{ m.content }}\n"
        "{% endfor %}");
    ASSERT_TRUE(chat_template.ok());
    entry.chat_template.emplace(std::move(chat_template).value());
    entry.tool_calls = format;
    ASSERT_TRUE(server->start(*fleet).ok());
  }
  // What the last request had the model read; special tokens are |.
  std::string last_prompt() const {
    std::string out;
    for (const TokenId id : fleet->last().prompt) out += id < 256 ? static_cast<char>(id) : '|';
    return out;
  }
  // After a test has set options; `models` are added first.
  void start(const std::vector<std::string>& models = {"tiny"}) {
    server.emplace(options, clock);
    fleet.emplace(server->sink());
    for (const auto& name : models) fleet->add_model(name);
    const Status status = server->start(*fleet);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  Answer chat(const std::string& more = "", const std::string& headers = "") {
    return Client(server->port()).post("/v1/chat/completions", chat_body(more), headers);
  }
  Answer completion(const std::string& more) {
    return Client(server->port())
        .post("/v1/completions", R"({"model":"tiny")" + (more.empty() ? "" : "," + more) + "}");
  }
  static std::string chat_body(const std::string& more = "") {
    return R"({"model":"tiny","messages":[{"role":"user","content":"hi"}])" +
           (more.empty() ? "" : "," + more) + "}";
  }
  static nlohmann::json parsed(const std::string& text) {
    return nlohmann::json::parse(text, nullptr, false);
  }
  // {"message", "type", "param", "code"} of an error answer.
  static nlohmann::json error(const Answer& answer) {
    const auto body = parsed(answer.body);
    return body.is_object() && body.contains("error") ? body["error"] : nlohmann::json();
  }

  ManualClock manual;
  RealClock clock;
  ServerOptions options;
  std::optional<Server> server;
  std::optional<ScriptedFleet> fleet;
};

// For tests of time limits: a clock that the test moves.
class TimedServerTest : public ServerTest {
 protected:
  void start_timed() {
    server.emplace(options, manual);
    fleet.emplace(server->sink());
    fleet->add_model("tiny");
    const Status status = server->start(*fleet);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
};

}  // namespace causeway::server::testing
