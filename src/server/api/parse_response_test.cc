// Bodies of /v1/responses: items become messages, and what would be lost is refused by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "server/api/chat_body.h"
#include "server/api/generation_request.h"

namespace causeway::server::parse_response_test {
namespace {

using Json = nlohmann::ordered_json;

MaybeError parse(const std::string& more, GenerationRequest& out) {
  return parse_generation(Endpoint::kResponses, R"({"model":"m",)" + more + "}", {}, out);
}

// The messages that the items become.
Json messages_of(const std::string& input, const std::string& more = "") {
  GenerationRequest out;
  const auto error = parse("\"input\":" + input + more, out);
  EXPECT_FALSE(error) << input << error->message;
  return error ? Json() : out.chat->messages;
}

TEST(ParseResponse, ATextIsTheUsersMessage) {
  EXPECT_EQ(messages_of(R"("hi")").dump(), R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(messages_of(R"("hi")", R"(,"instructions":"Be brief.")").dump(),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}])");
}

TEST(ParseResponse, MessagesAndTheirParts) {
  EXPECT_EQ(
      messages_of(
          R"([{"role":"developer","content":"d"},)"
          R"({"type":"message","role":"user","content":[{"type":"input_text","text":"a"},)"
          R"({"type":"input_text","text":"b","prompt_cache_breakpoint":{"mode":"explicit"}}]},)"
          R"({"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":null,)"
          R"("content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]}]}])")
          .dump(),
      R"([{"role":"developer","content":"d"},{"role":"user","content":"a\nb"},)"
      R"({"role":"assistant","content":"c"}])");
}

const std::string kCall = R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"f",)"
                          R"("arguments":"{\"a\": 1}","status":"completed"})";
const std::string kOther = R"({"type":"function_call","call_id":"c2","name":"g","arguments":""})";
const std::string kOutput = R"({"type":"function_call_output","call_id":"c1","output":"sunny"})";

TEST(ParseResponse, CallsJoinTheMessageBeforeThem) {
  const std::string first =
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1}}})";
  const std::string second =
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}})";
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"x"},)" + kCall + "," + kOther + "]").dump(),
            R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[)" +
                first + "," + second + "]}]");
  EXPECT_EQ(messages_of(R"([{"role":"assistant","content":"Let me see."},)" + kCall + "," +
                        kOutput + "," + kOther + "]")
                .dump(),
            R"([{"role":"assistant","content":"Let me see.","tool_calls":[)" + first +
                R"(]},{"role":"tool","content":"sunny","tool_call_id":"c1"},)" +
                R"({"role":"assistant","content":"","tool_calls":[)" + second + "]}]");
  EXPECT_EQ(messages_of(R"([{"type":"function_call_output","call_id":"c1","name":"f",)"
                        R"("output":[{"type":"input_text","text":"rain"}]}])")
                .dump(),
            R"([{"role":"tool","content":"rain","tool_call_id":"c1","name":"f"}])");
}

TEST(ParseResponse, ReasoningIsOfTheMessageBehindIt) {
  const std::string reasoning = R"({"type":"reasoning","id":"r","summary":[],)"
                                R"("content":[{"type":"reasoning_text","text":"Hm."}]})";
  EXPECT_EQ(messages_of("[" + reasoning + R"(,{"role":"assistant","content":"c"}])").dump(),
            R"([{"role":"assistant","content":"c","reasoning_content":"Hm."}])");
  const Json call =
      messages_of(R"([{"role":"assistant","content":"c"},)" + reasoning + "," + kCall + "]");
  ASSERT_EQ(call.size(), 2u) << call;
  EXPECT_EQ(call[1]["reasoning_content"], "Hm.");
  EXPECT_EQ(call[1]["tool_calls"].size(), 1u);
  EXPECT_EQ(messages_of("[" + reasoning + R"(,{"role":"user","content":"x"}])").dump(),
            R"([{"role":"assistant","content":"","reasoning_content":"Hm."},)"
            R"({"role":"user","content":"x"}])")
      << "it was cut before it said anything";
  GenerationRequest out;
  const auto error = parse("\"input\":[" + reasoning + "]", out);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "input") << "nothing is asked";
}

TEST(ParseResponse, RefusesItemsByName) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"5", "input"},
      {"[]", "input"},
      {"{}", "input"},
      {"[1]", "input[0]"},
      {"[{}]", "input[0].type"},
      {R"([{"type":5}])", "input[0].type"},
      {R"([{"role":"user","content":"x"},{"role":"tool","content":"x"}])", "input[1].role"},
      {R"([{"role":"user"}])", "input[0].content"},
      {R"([{"role":"user","content":[]}])", "input[0].content"},
      {R"([{"role":"user","content":[5]}])", "input[0].content"},
      {R"([{"role":"user","content":[{"type":"input_text"}]}])", "input[0].content"},
      {R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
       "input[0].content"},
      {R"([{"role":"user","content":[{"type":"input_text","text":"x","y":1}]}])",
       "input[0].content"},
      {R"([{"role":"user","content":"x","name":"Ann"}])", "input[0].name"},
      {R"([{"type":"item_reference","id":"msg_1"}])", "input[0].type"},
      {R"([{"type":"web_search_call","id":"ws_1"}])", "input[0].type"},
      {R"([{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id"},
      {R"([{"type":"function_call","call_id":"a","arguments":"{}"}])", "input[0].name"},
      {R"([{"type":"function_call","call_id":"a","name":"f","arguments":"[1]"}])",
       "input[0].arguments"},
      {R"([{"type":"function_call","call_id":"a","name":"f","arguments":"{}","namespace":"n"}])",
       "input[0].namespace"},
      {R"([{"type":"function_call_output","output":"x"}])", "input[0].call_id"},
      {R"([{"type":"function_call_output","call_id":"a"}])", "input[0].output"},
      {R"([{"type":"function_call_output","call_id":"a","output":[{"type":"input_file"}]}])",
       "input[0].output"},
      {R"([{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}]}])",
       "input[0].summary"},
      {R"([{"type":"reasoning","summary":[],"encrypted_content":"x"}])",
       "input[0].encrypted_content"}};
  for (const auto& [input, param] : bad) {
    GenerationRequest out;
    const auto error = parse("\"input\":" + input, out);
    ASSERT_TRUE(error) << input;
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->param, param) << input << error->message;
  }
  std::string many = kCall;
  for (int i = 0; i < 128; ++i) many += "," + kCall;
  GenerationRequest out;
  EXPECT_EQ(parse("\"input\":[" + many + "]", out)->param, "input[128].type");
}

const std::string kTool = R"({"type":"function","name":"f","description":"d",)"
                          R"("parameters":{"type":"object"},"strict":false})";

TEST(ParseResponse, RefusesFieldsByName) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("previous_response_id":"resp_1")", "previous_response_id"},
      {R"("conversation":"conv_1")", "conversation"},
      {R"("prompt":{"id":"pmpt_1"})", "prompt"},
      {R"("messages":[])", "messages"},
      {R"("max_tokens":5)", "max_tokens"},
      {R"("response_format":{"type":"text"})", "response_format"},
      {R"("return_token_ids":true)", "return_token_ids"},
      {R"("prompt_logprobs":1)", "prompt_logprobs"},
      {R"("n":2)", "n"},
      {R"("max_output_tokens":0)", "max_output_tokens"},
      {R"("temperature":3)", "temperature"},
      {R"("instructions":[])", "instructions"},
      {R"("background":true)", "background"},
      {R"("truncation":"auto")", "truncation"},
      {R"("context_management":[{"type":"compaction"}])", "context_management"},
      {R"("moderation":{"model":"x"})", "moderation"},
      {R"("stream_options":{"include_usage":true})", "stream_options.include_usage"},
      {R"("include":"x")", "include"},
      {R"("include":["everything"])", "include"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("top_logprobs":21,"include":["message.output_text.logprobs"])", "top_logprobs"},
      {R"("reasoning":{"effort":"high"})", "reasoning.effort"},
      {R"("reasoning":{"summary":"detailed"})", "reasoning.summary"},
      {R"("reasoning":{"other":1})", "reasoning.other"},
      {R"("prompt_cache_options":{"prewarm":true})", "prompt_cache_options.prewarm"},
      {R"("metadata":5)", "metadata"},
      {R"("metadata":{"a":5})", "metadata"},
      {R"("metadata":{"a":")" + std::string(513, 'x') + "\"}", "metadata"},
      {R"("metadata":{")" + std::string(65, 'x') + "\":\"a\"}", "metadata"},
      {R"("text":5)", "text"},
      {R"("text":{"verbosity":"low"})", "text.verbosity"},
      {R"("text":{"other":1})", "text.other"},
      {R"("text":{"format":{"type":"yaml"}})", "text.format.type"},
      {R"("text":{"format":{"type":"json_schema","name":"s"}})", "text.format.schema"},
      {R"("text":{"format":{"type":"json_schema","schema":[]}})", "text.format.schema"},
      {R"("text":{"format":{"type":"json_object"}},"guided_regex":"a")", "guided_regex"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].name"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tools[0].name"},
      {R"("tools":[{"type":"function","name":"f","parameters":[]}])", "tools[0].parameters"},
      {R"("tools":[{"type":"function","name":"f","strict":1}])", "tools[0].strict"},
      {R"("tools":[{"type":"function","name":"f","defer_loading":true}])",
       "tools[0].defer_loading"},
      {R"("tool_choice":"required")", "tool_choice"},
      {"\"tools\":[" + kTool + R"(],"tool_choice":{"type":"function","name":"g"})", "tool_choice"},
      {"\"tools\":[" + kTool + R"(],"tool_choice":{"type":"function"})", "tool_choice"},
      {"\"tools\":[" + kTool + R"(],"tool_choice":{"type":"function","function":{"name":"f"}})",
       "tool_choice"},
      {"\"tools\":[" + kTool + R"(],"include":["message.output_text.logprobs"])", "include"},
      {"\"tools\":[" + kTool + R"(],"text":{"format":{"type":"json_object"}})", "tools"}};
  for (const auto& [more, param] : bad) {
    GenerationRequest out;
    const auto error = parse(R"("input":"x",)" + more, out);
    ASSERT_TRUE(error) << more;
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->param, param) << more << error->message;
  }
}

TEST(ParseResponse, WhatIsKeptIsSaid) {
  const auto ask = [](const std::string& more, GenerationRequest& out) {
    return parse_generation(Endpoint::kResponses, R"({"model":"m","input":"x")" + more + "}",
                            {.keeps_responses = true}, out);
  };
  const auto echo = [](const GenerationRequest& out) {
    return Json::parse("{" + out.response_echo + "}");
  };
  GenerationRequest plain;
  ASSERT_FALSE(ask("", plain));
  EXPECT_TRUE(plain.store);
  EXPECT_EQ(plain.previous_response, "");
  EXPECT_EQ(echo(plain)["store"], true);
  EXPECT_TRUE(echo(plain)["previous_response_id"].is_null());
  GenerationRequest later;
  ASSERT_FALSE(ask(R"(,"store":false,"previous_response_id":"resp_\"1")", later));
  EXPECT_FALSE(later.store);
  EXPECT_EQ(later.previous_response, "resp_\"1");
  EXPECT_EQ(echo(later)["store"], false);
  EXPECT_EQ(echo(later)["previous_response_id"], "resp_\"1");
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"(,"store":1)", "store"},
      {R"(,"previous_response_id":"")", "previous_response_id"},
      {R"(,"previous_response_id":5)", "previous_response_id"},
      {R"(,"conversation":"conv_1")", "conversation"}};
  for (const auto& [more, param] : bad) {
    GenerationRequest out;
    EXPECT_EQ(ask(more, out)->param, param) << more;
  }
  GenerationRequest elsewhere;
  ASSERT_FALSE(parse(R"("input":"x","store":true)", elsewhere));
  EXPECT_FALSE(elsewhere.store) << "nothing is kept there";
}

TEST(ParseResponse, AcceptsWhatChangesNothing) {
  for (const std::string more :
       {R"("store":true)", R"("store":false)", R"("user":"u","safety_identifier":"s")",
        R"("previous_response_id":null,"conversation":null)", R"("background":false)",
        R"("service_tier":"auto","truncation":"disabled","max_tool_calls":3)",
        R"("prompt_cache_key":"k","prompt_cache_options":{"mode":"implicit","ttl":"30m"})",
        R"("reasoning":{"effort":"medium","summary":"auto"})", R"("reasoning":{})",
        R"("include":["reasoning.encrypted_content"],"context_management":[])",
        R"("stream_options":{"include_obfuscation":false},"stream":true)",
        R"("return_token_ids":false,"text":{"format":{"type":"text"},"verbosity":"medium"})"}) {
    GenerationRequest out;
    const auto error = parse(R"("input":"x",)" + more, out);
    EXPECT_FALSE(error) << more << error->message;
  }
}

TEST(ParseResponse, FieldsReachWhatAChatHas) {
  GenerationRequest out;
  ASSERT_FALSE(parse(R"("input":"x","max_output_tokens":7,"temperature":0.5,"stream":true,)"
                     R"("top_logprobs":2,"include":["message.output_text.logprobs"],"stop":"END",)"
                     R"("chat_template_kwargs":{"enable_thinking":false})",
                     out));
  EXPECT_EQ(out.max_tokens, 7);
  EXPECT_EQ(out.temperature, 0.5f);
  EXPECT_TRUE(out.stream);
  EXPECT_EQ(out.top_logprobs, 2);
  EXPECT_EQ(out.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(out.chat->template_kwargs["enable_thinking"], false);
  EXPECT_EQ(out.n, 1);
  GenerationRequest form;
  ASSERT_FALSE(parse(R"("input":"x","text":{"format":{"type":"json_schema","name":"s",)"
                     R"("strict":true,"schema":{"type":"object"}}})",
                     form));
  ASSERT_TRUE(form.constraint);
  EXPECT_EQ(form.constraint->kind, request::ConstraintKind::kJsonSchema);
  EXPECT_EQ(form.constraint->text, R"({"type":"object"})");
  EXPECT_EQ(form.constraint_field, "text.format.schema");
  GenerationRequest any;
  ASSERT_FALSE(parse(R"("input":"x","text":{"format":{"type":"json_object"}})", any));
  EXPECT_EQ(any.constraint->kind, request::ConstraintKind::kJson);
  EXPECT_EQ(any.constraint_field, "text.format");
}

TEST(ParseResponse, ToolsReachTheTemplateAsThoseOfAChat) {
  GenerationRequest out;
  ASSERT_FALSE(parse(R"("input":"x","parallel_tool_calls":false,"tools":[)" + kTool + "]", out));
  EXPECT_TRUE(out.calls_tools);
  EXPECT_FALSE(out.parallel_tool_calls || out.forces_call);
  EXPECT_EQ(out.chat->tools.dump(),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}}])");
  GenerationRequest named;
  ASSERT_FALSE(parse(
      R"("input":"x","tools":[)" + kTool + R"(],"tool_choice":{"type":"function","name":"f"})",
      named));
  EXPECT_TRUE(named.forces_call);
  EXPECT_EQ(named.forced_tool, "f");
  GenerationRequest none;
  ASSERT_FALSE(parse(R"("input":"x","tools":[)" + kTool + R"(],"tool_choice":"none")", none));
  EXPECT_FALSE(none.calls_tools);
}

TEST(ParseResponse, SaysAgainWhatWasAsked) {
  GenerationRequest out;
  ASSERT_FALSE(parse(R"("input":"x","instructions":"Be brief.","metadata":{"k":"v"},"store":true,)"
                     R"("tools":[)" +
                         kTool + R"(],"tool_choice":"auto","max_output_tokens":9)",
                     out));
  const Json echo = Json::parse("{" + out.response_echo + "}");
  EXPECT_EQ(echo["instructions"], "Be brief.");
  EXPECT_EQ(echo["metadata"].dump(), R"({"k":"v"})");
  EXPECT_EQ(echo["max_output_tokens"], 9);
  EXPECT_EQ(echo["tools"].dump(), "[" + kTool + "]");
  EXPECT_EQ(echo["store"], false);
  EXPECT_EQ(echo["text"].dump(), R"({"format":{"type":"text"}})");
  GenerationRequest plain;
  ASSERT_FALSE(parse(R"("input":"x")", plain));
  const Json standard = Json::parse("{" + plain.response_echo + "}");
  EXPECT_EQ(standard["metadata"].dump(), "{}");
  EXPECT_EQ(standard["tools"].dump(), "[]");
  EXPECT_EQ(standard["tool_choice"], "auto");
  EXPECT_EQ(standard["parallel_tool_calls"], true);
  EXPECT_TRUE(standard["max_output_tokens"].is_null());
  EXPECT_TRUE(standard["previous_response_id"].is_null());
}

}  // namespace
}  // namespace causeway::server::parse_response_test
