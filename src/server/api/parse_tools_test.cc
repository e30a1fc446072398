#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "server/api/chat_body.h"
#include "server/api/generation_request.h"

namespace causeway::server::parse_tools_test {
namespace {

MaybeError parse(const std::string& more, GenerationRequest& out,
                 const std::string& messages = R"([{"role":"user","content":"x"}])") {
  return parse_generation(Endpoint::kChat,
                          R"({"model":"m","messages":)" + messages + "," + more + "}", {}, out);
}
MaybeError parse(const std::string& more) {
  GenerationRequest out;
  return parse(more, out);
}
MaybeError parse_messages(const std::string& messages, GenerationRequest& out) {
  return parse(R"("n":1)", out, messages);
}

const std::string kTool = R"({"type":"function","function":{"name":"f","description":"d",)"
                          R"("parameters":{"type":"object"}}})";

TEST(ParseTools, KeepsThemAsTheyWereSent) {
  GenerationRequest out;
  ASSERT_FALSE(parse("\"tools\":[" + kTool + "]", out));
  EXPECT_TRUE(out.calls_tools);
  EXPECT_TRUE(out.parallel_tool_calls);
  EXPECT_EQ(out.chat->tools.dump(), "[" + kTool + "]");
  GenerationRequest one;
  ASSERT_FALSE(
      parse("\"tools\":[" + kTool + R"(],"tool_choice":"auto","parallel_tool_calls":false)", one));
  EXPECT_TRUE(one.calls_tools);
  EXPECT_FALSE(one.parallel_tool_calls);
}

TEST(ParseTools, NoneMeansThatTheModelDoesNotKnowThem) {
  for (const std::string& more :
       {"\"tools\":[" + kTool + R"(],"tool_choice":"none")", std::string(R"("tools":[])"),
        std::string(R"("tools":null,"tool_choice":"auto")")}) {
    GenerationRequest out;
    ASSERT_FALSE(parse(more, out)) << more;
    EXPECT_FALSE(out.calls_tools);
    EXPECT_TRUE(out.chat->tools.empty());
  }
}

TEST(ParseTools, RefusesByName) {
  struct Field {
    std::string json, param;
  };
  std::string many = kTool;
  for (int i = 0; i < 128; ++i) many += "," + kTool;
  const std::string function = R"("tools":[{"type":"function","function":)";
  const std::vector<Field> bad = {
      {R"("tools":{})", "tools"},
      {"\"tools\":[" + many + "]", "tools"},
      {R"("tools":[1])", "tools[0]"},
      {R"("tools":[{"function":{"name":"f"}}])", "tools[0].type"},
      {R"("tools":[{"type":"retrieval"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {"\"tools\":[" + kTool + R"(,{"type":"function","function":{}}])", "tools[1].function.name"},
      {function + R"({"name":""}}])", "tools[0].function.name"},
      {function + R"({"name":")" + std::string(200, 'f') + "\"}}]", "tools[0].function.name"},
      {function + R"({"name":"f","parameters":[]}}])", "tools[0].function.parameters"},
      {function + R"({"name":"f","description":1}}])", "tools[0].function.description"},
      {function + R"({"name":"f","strict":1}}])", "tools[0].function.strict"},
      {function + R"({"name":"f","other":1}}])", "tools[0].function.other"},
      {R"("tools":[{"type":"function","function":{"name":"f"},"x":1}])", "tools[0].x"},
      {R"("tool_choice":"maybe")", "tool_choice"},
      {R"("tool_choice":5)", "tool_choice"},
      {R"("parallel_tool_calls":"no")", "parallel_tool_calls"}};
  for (const Field& field : bad) {
    const auto error = parse(field.json);
    ASSERT_TRUE(error) << field.json;
    EXPECT_EQ(error->param, field.param) << error->message;
    EXPECT_EQ(error->status, 400);
  }
}

TEST(ParseTools, ACallMayBeForced) {
  GenerationRequest any;
  ASSERT_FALSE(parse("\"tools\":[" + kTool + R"(],"tool_choice":"required")", any));
  EXPECT_TRUE(any.forces_call && any.calls_tools);
  EXPECT_EQ(any.forced_tool, "");
  GenerationRequest named;
  ASSERT_FALSE(parse(
      "\"tools\":[" + kTool + R"(],"tool_choice":{"type":"function","function":{"name":"f"}})",
      named));
  EXPECT_TRUE(named.forces_call);
  EXPECT_EQ(named.forced_tool, "f");
}

TEST(ParseTools, StrictOnesFenceCallsThatAreNotForced) {
  const std::string strict =
      "\"tools\":[" + kTool + R"(,{"type":"function","function":{"name":"g","strict":true}}])";
  const auto asked = [](const std::string& more) {
    GenerationRequest out;
    const auto error = parse(more, out);
    EXPECT_FALSE(error) << more;
    return out;
  };
  for (const std::string choice : {"", R"(,"tool_choice":"auto")", R"(,"tool_choice":null)"}) {
    const GenerationRequest out = asked(strict + choice);
    EXPECT_TRUE(out.fences_calls());
    EXPECT_EQ(out.strict_tools, (std::vector<bool>{false, true}));
    EXPECT_EQ(out.constraint_field, "tools");
  }
  EXPECT_FALSE(asked(strict + R"(,"tool_choice":"required")").fences_calls());
  EXPECT_FALSE(asked(strict + R"(,"tool_choice":"none")").fences_calls());
  EXPECT_FALSE(asked("\"tools\":[" + kTool + "]").fences_calls());
  EXPECT_FALSE(asked(R"("tools":[{"type":"function","function":{"name":"g","strict":null}}])")
                   .fences_calls());
  EXPECT_TRUE(parse(R"("tools":[{"type":"function","function":{"name":"g","strict":1}}])"));
  EXPECT_TRUE(parse(strict + R"(,"response_format":{"type":"json_object"})"));
}

TEST(ParseTools, AForcedCallNeedsItsTool) {
  for (const std::string& more :
       {std::string(R"("tool_choice":"required")"),
        std::string(R"("tools":[],"tool_choice":"required")"),
        "\"tools\":[" + kTool + R"(],"tool_choice":{"type":"function","function":{"name":"g"}})",
        "\"tools\":[" + kTool + R"(],"tool_choice":{"type":"function"})",
        "\"tools\":[" + kTool + R"(],"tool_choice":{"type":"allowed_tools"})"}) {
    const auto error = parse(more);
    ASSERT_TRUE(error) << more;
    EXPECT_EQ(error->param.substr(0, 11), "tool_choice") << more;
  }
}

TEST(ParseTools, EarlierCallsAndTheirAnswers) {
  GenerationRequest out;
  ASSERT_FALSE(parse_messages(
      R"([{"role":"user","content":"x"},{"role":"assistant","content":null,"refusal":null,)"
      R"("tool_calls":[{"id":"c1","type":"function","index":0,"function":{"name":"f",)"
      R"("arguments":"{\"b\": 1e999, \"a\": [2]}"}},)"
      R"({"id":"c2","function":{"name":"g","arguments":""}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"sunny"},)"
      R"({"role":"assistant","content":"ok","tool_calls":[]}])",
      out));
  const auto& messages = out.chat->messages;
  EXPECT_EQ(messages[1]["content"], "");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"b":null,"a":[2]})");
  EXPECT_EQ(messages[1]["tool_calls"][0]["id"], "c1");
  EXPECT_EQ(messages[1]["tool_calls"][1]["type"], "function");
  EXPECT_EQ(messages[1]["tool_calls"][1]["function"]["arguments"].dump(), "{}");
  EXPECT_EQ(messages[2]["tool_call_id"], "c1");
  EXPECT_EQ(messages[2]["content"], "sunny");
  EXPECT_FALSE(messages[3].contains("tool_calls"));
}

TEST(ParseTools, RefusesBadCallsByName) {
  const std::string call = R"({"id":"a","function":{"name":"f","arguments":)";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"function":{"name":"f","arguments":"{}"}})", "id"},
      {R"({"id":"a","type":"other","function":{"name":"f","arguments":"{}"}})", "type"},
      {R"({"id":"a"})", "function"},
      {R"({"id":"a","function":{"arguments":"{}"}})", "function.name"},
      {call + R"("[1]"}})", "function.arguments"},
      {call + R"("{"}})", "function.arguments"},
      {call + R"(5}})", "function.arguments"},
      {call + "\"" + std::string(100, '[') + "\"}}", "function.arguments"},
      {call + R"("{}","x":1}})", "function.x"},
      {call + R"("{}"},"x":1})", "x"}};
  for (const auto& [json, param] : bad) {
    GenerationRequest out;
    const auto error =
        parse_messages(R"([{"role":"assistant","content":"","tool_calls":[)" + json + "]}]", out);
    ASSERT_TRUE(error) << json;
    EXPECT_EQ(error->param, "messages[0].tool_calls[0]." + param) << error->message;
  }
}

}  // namespace
}  // namespace causeway::server::parse_tools_test
