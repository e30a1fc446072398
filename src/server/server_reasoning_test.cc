// What a thinking model thinks, over the wire: parted from its answer, whole and streamed.
#include "grammar/compile.h"
#include "server/byte_model.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_reasoning_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::says;
using testing::Script;
using testing::ServerTest;
using Format = text::ReasoningFormat;

const std::string kThought = "<think>\nLet me see.\n</think>\n\nIt is 4.";
const std::int64_t kThoughtTokens = 28;  // to the end of </think>, a token a byte

class Reasoning : public ServerTest {
 protected:
  // A model whose template opens the thinking where `thinking` is true.
  void start_with(Format format, text::ToolCallFormat tools = text::ToolCallFormat::kHermes) {
    server.emplace(options, clock);
    fleet.emplace(server->sink());
    auto& entry = fleet->add_model("tiny");
    auto chat = text::ChatTemplate::compile(
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}:"
        "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}\n"
        "{% endfor %}{% if add_generation_prompt %}assistant:"
        "{% if thinking is true %}<think>\n{% endif %}"
        "{% if thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}");
    ASSERT_TRUE(chat.ok());
    entry.chat_template.emplace(std::move(chat).value());
    entry.reasoning = format;
    entry.tool_calls = tools;
    ASSERT_TRUE(server->start(*fleet).ok());
  }
  void say(const std::string& text, std::size_t tokens_per_output = 1,
           request::FinishReason reason = request::FinishReason::kStop) {
    fleet->on_submit = [=](const request::Request&) -> Result<Script> {
      Script script = says(text);
      script.tokens_per_output = tokens_per_output;
      script.reason = reason;
      return script;
    };
  }
  json body_of(const std::string& more = "") {
    const Answer answer = chat(more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body);
  }
  json message_of(const std::string& more = "") { return body_of(more)["choices"][0]["message"]; }
  // A stream as {reasoning, content, calls: number, tokens: of log-probabilities, usage}. No piece
  // of content comes before the last of reasoning.
  json streamed(const std::string& more = "") {
    const std::string stream = R"("stream":true,"stream_options":{"include_usage":true})";
    const Answer answer = chat(stream + (more.empty() ? "" : "," + more));
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::string reasoning, content;
    json out = {{"calls", 0}, {"tokens", 0}};
    for (const std::string& event : answer.events()) {
      const json chunk = parsed(event);
      if (!chunk.is_object()) continue;
      if (chunk["choices"].empty()) {
        out["usage"] = chunk["usage"];
        continue;
      }
      const json& choice = chunk["choices"][0];
      const std::string piece = choice["delta"].value("reasoning_content", "");
      EXPECT_TRUE(piece.empty() || content.empty()) << event;
      reasoning += piece;
      content += choice["delta"].value("content", "");
      if (choice["delta"].contains("tool_calls")) out["calls"] = out["calls"].get<int>() + 1;
      const bool logprobs = choice["logprobs"].is_object();
      const auto tokens = logprobs ? choice["logprobs"]["content"].size() : 0;
      out["tokens"] = out["tokens"].get<std::size_t>() + tokens;
      if (!choice["finish_reason"].is_null()) out["finish_reason"] = choice["finish_reason"];
    }
    out["reasoning"] = reasoning;
    out["content"] = content;
    return out;
  }
  std::string prompt() const {
    std::string out;
    for (const TokenId id : fleet->last().prompt) out += id < 256 ? static_cast<char>(id) : '|';
    return out;
  }
};

TEST_F(Reasoning, IsPartedFromTheContent) {
  start_with(Format::kQwen3);
  for (std::size_t at_once = 1; at_once <= kThought.size(); ++at_once) {
    say(kThought, at_once);
    const json body = body_of();
    const json& message = body["choices"][0]["message"];
    EXPECT_EQ(message["reasoning_content"], "Let me see.");
    EXPECT_EQ(message["content"], "It is 4.");
    EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], kThoughtTokens);
    EXPECT_EQ(body["usage"]["completion_tokens"], kThought.size());
    const json stream = streamed();
    EXPECT_EQ(stream["reasoning"], "Let me see.");
    EXPECT_EQ(stream["content"], "It is 4.");
    EXPECT_EQ(stream["finish_reason"], "stop");
    EXPECT_EQ(stream["usage"], body["usage"]);
  }
}

TEST_F(Reasoning, IsToldWhileItGoesOn) {
  start_with(Format::kQwen3);
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says(kThought);
    script.held = true;
    script.hold_at = script.tokens_per_output = kThought.find("see");
    return script;
  };
  testing::Client client(server->port());
  client.send(testing::post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
  const std::string wanted = R"("reasoning_content":"Let me")";
  const std::string begun = client.read_until(wanted);
  EXPECT_NE(begun.find(wanted), std::string::npos) << begun;
  fleet->release();
}

TEST_F(Reasoning, AnswersWithoutItAreContent) {
  start_with(Format::kQwen3);
  for (const char* text : {"It is 4.", "4 <think>no</think>", "<thin", " <b>"}) {
    say(text);
    const json body = body_of();
    EXPECT_TRUE(body["choices"][0]["message"]["reasoning_content"].is_null());
    EXPECT_EQ(body["choices"][0]["message"]["content"], text);
    EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
    EXPECT_EQ(streamed()["content"], text);
  }
}

TEST_F(Reasoning, OtherModelsAndCompletionsHaveNone) {
  start_with(Format::kNone);
  say(kThought);
  const json body = body_of();
  EXPECT_EQ(body["choices"][0]["message"]["content"], kThought);
  EXPECT_FALSE(body["choices"][0]["message"].contains("reasoning_content"));
  EXPECT_FALSE(body["usage"].contains("completion_tokens_details"));
  server->stop();
  fleet.reset();
  start_with(Format::kQwen3);
  say(kThought);
  const json completed = parsed(completion(R"("prompt":"a")").body);
  EXPECT_EQ(completed["choices"][0]["text"], kThought);
  EXPECT_FALSE(completed["usage"].contains("completion_tokens_details"));
}

TEST_F(Reasoning, ThePromptMayHaveOpenedIt) {
  start_with(Format::kQwen3);
  say("Let me see.\n</think>\n\nIt is 4.");
  const std::string on = R"("chat_template_kwargs":{"thinking":true})";
  const json body = body_of(on);
  EXPECT_EQ(body["choices"][0]["message"]["reasoning_content"], "Let me see.");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "It is 4.");
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 20);
  const std::string off = R"("chat_template_kwargs":{"thinking":false})";
  EXPECT_EQ(message_of(off)["content"], "Let me see.\n</think>\n\nIt is 4.");
  // What a message says opens nothing.
  testing::Client client(server->port());
  const Answer asked =
      client.post("/v1/chat/completions",
                  R"({"model":"tiny","messages":[{"role":"user","content":"what is <think>"}]})");
  EXPECT_TRUE(parsed(asked.body)["choices"][0]["message"]["reasoning_content"].is_null());
}

TEST_F(Reasoning, ItsEndMayBeMissing) {
  start_with(Format::kDeepSeekR1);
  say("Let me", 1, request::FinishReason::kLength);
  const json body = body_of();
  EXPECT_EQ(body["choices"][0]["message"]["reasoning_content"], "Let me");
  EXPECT_TRUE(body["choices"][0]["message"]["content"].is_null());
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 6);
  const json stream = streamed();
  EXPECT_EQ(stream["reasoning"], "Let me");
  EXPECT_EQ(stream["content"], "");
}

TEST_F(Reasoning, AMessageThatGoesOnDecidesByItsMarks) {
  start_with(Format::kQwen3);
  say("see.</think>4");
  const auto continued = [&](const std::string& content) {
    const Answer answer =
        testing::Client(server->port())
            .post("/v1/chat/completions",
                  R"({"model":"tiny","messages":[{"role":"user","content":"hi"},)"
                  R"({"role":"assistant","content":")" +
                      content +
                      R"("}],"add_generation_prompt":false,"continue_final_message":true})");
    return parsed(answer.body)["choices"][0]["message"];
  };
  EXPECT_EQ(continued("<think>Let me")["reasoning_content"], "see.");
  EXPECT_EQ(continued("<think>Let me")["content"], "4");
  EXPECT_EQ(continued("<think>a</think>b")["content"], "see.</think>4");
}

TEST_F(Reasoning, MayBeLeftOut) {
  start_with(Format::kQwen3);
  say(kThought);
  const std::string more = R"("include_reasoning":false,"logprobs":true,"return_token_ids":true)";
  const json body = body_of(more);
  const json& choice = body["choices"][0];
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
  EXPECT_EQ(choice["message"]["content"], "It is 4.");
  const std::size_t rest = kThought.size() - static_cast<std::size_t>(kThoughtTokens);
  EXPECT_EQ(choice["logprobs"]["content"].size(), rest);
  EXPECT_EQ(choice["token_ids"].size(), rest);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], kThoughtTokens);
  EXPECT_EQ(body["usage"]["completion_tokens"], kThought.size());
  const json stream = streamed(more);
  EXPECT_EQ(stream["reasoning"], "");
  EXPECT_EQ(stream["content"], "It is 4.");
  EXPECT_EQ(stream["tokens"], rest);
  EXPECT_EQ(streamed(R"("logprobs":true)")["tokens"], kThought.size());
  // Alone there is nothing left.
  say("<think>Let me");
  EXPECT_EQ(message_of(more)["content"], "");
}

TEST_F(Reasoning, CallsComeBehindIt) {
  start_with(Format::kQwen3);
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  say("<think>I could call\n" + call + "</think>\n\n" + call);
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const json whole = message_of(tools);
  EXPECT_EQ(whole["reasoning_content"], "I could call\n" + call);
  EXPECT_EQ(whole["tool_calls"].size(), 1u);
  EXPECT_TRUE(whole["content"].is_null());
  const json stream = streamed(tools);
  EXPECT_EQ(stream["reasoning"], "I could call\n" + call);
  EXPECT_EQ(stream["content"], "");
  EXPECT_GE(stream["calls"], 1);
  EXPECT_EQ(stream["finish_reason"], "tool_calls");
}

// What a stop string could begin in is held back; tokens are counted where they belong.
TEST_F(Reasoning, StopStringsHoldTokensBack) {
  start_with(Format::kQwen3);
  say("<think>a</think>b END c");
  const json body = body_of(R"("stop":["k>b EN!","END"],"logprobs":true)");
  EXPECT_EQ(body["choices"][0]["message"]["reasoning_content"], "a");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "b ");
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 16);
  EXPECT_EQ(body["usage"]["completion_tokens"], 21);
  const json within = body_of(R"("stop":["a<"])");
  EXPECT_TRUE(within["choices"][0]["message"]["reasoning_content"].is_null());
  EXPECT_EQ(within["usage"]["completion_tokens_details"]["reasoning_tokens"], 9);
}

TEST_F(Reasoning, EarlierReasoningReachesTheTemplate) {
  start_with(Format::kQwen3);
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const Answer answer =
        testing::Client(server->port())
            .post(
                "/v1/chat/completions",
                std::string(R"({"model":"tiny","messages":[{"role":"assistant","content":"4",")") +
                    name + R"(":"so"},{"role":"user","content":"hi"}]})");
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(prompt(), "assistant:(so)4\nuser:hi\nassistant:") << name;
  }
}

// The form of what was last submitted, followed behind `said`: the tokens that may come next.
class ReasoningAndForms : public Reasoning {
 protected:
  void SetUp() override {
    if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
    options.limits.compile_time_max = seconds(60);  // sanitizers make compiling slow
  }
  std::string next(const std::string& said = "") {
    const auto& constraint = fleet->last().constraint;
    if (constraint == nullptr) return "anything";
    const auto matcher = constraint->begin({said.begin(), said.end()});
    if (matcher->wait(seconds(20)) != request::MaskState::kReady) return "impossible";
    if (matcher->mask().empty()) return "anything";
    std::string out;
    for (int byte = 0; byte < 128; ++byte) {
      const auto word = matcher->mask()[static_cast<std::size_t>(byte / 32)];
      if ((word >> (byte % 32) & 1) != 0) out += static_cast<char>(byte);
    }
    return out.size() > 100 ? "anything" : out;
  }
};

TEST_F(ReasoningAndForms, AFormHoldsBehindTheThinking) {
  start_with(Format::kQwen3);
  const std::string form = R"("guided_regex":"4a?","chat_template_kwargs":{"thinking":)";
  say("so</think>\n\n4");
  const json message = message_of(form + "true}");
  EXPECT_EQ(message["reasoning_content"], "so");
  EXPECT_EQ(message["content"], "4");
  EXPECT_EQ(next(), "anything");
  EXPECT_EQ(next("4 {</think"), "anything");
  EXPECT_EQ(next("so</think>"), "4");
  EXPECT_EQ(next("so</think>4"), "a");
  // This model has no token that opens it, and its template may say that there is none.
  for (const char* thinking : {"null}", "false}"}) {
    say("4");
    EXPECT_EQ(message_of(form + thinking)["content"], "4");
    EXPECT_EQ(next(), "4") << thinking;
  }
}

TEST_F(ReasoningAndForms, CallsThatAreForcedComeBehindIt) {
  start_with(Format::kQwen3);
  say("so</think><tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>");
  const json message =
      message_of(R"("tools":[{"type":"function","function":{"name":"f"}}],)"
                 R"("tool_choice":"required","chat_template_kwargs":{"thinking":true})");
  EXPECT_EQ(message["reasoning_content"], "so");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(next("so"), "anything");
  EXPECT_EQ(next("so</think>"), "<");
}

TEST_F(ReasoningAndForms, OfResponsesToo) {
  start_with(Format::kDeepSeekR1);
  say("so</think>4");
  const Answer answer =
      testing::Client(server->port())
          .post("/v1/responses", R"({"model":"tiny","input":"hi","guided_regex":"4a?"})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(parsed(answer.body)["output"][0]["content"][0]["text"], "so");
  EXPECT_EQ(parsed(answer.body)["output"][1]["content"][0]["text"], "4");
  EXPECT_EQ(next(), "anything");
  EXPECT_EQ(next("so</think>"), "4");
}

// A call within the thinking is none, and the fence of strict tools passes over it, too.
TEST_F(ReasoningAndForms, StrictToolsOfResponsesLeaveTheThinkingFree) {
  start_with(Format::kDeepSeekR1);
  say("so</think>4");
  const Answer answer =
      testing::Client(server->port())
          .post("/v1/responses",
                R"({"model":"tiny","input":"hi","tools":[{"type":"function","name":"f",)"
                R"("strict":true}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(next("<tool_call>"), "anything");
  EXPECT_NE(next("</think><tool_call>"), "anything");
}

TEST_F(ReasoningAndForms, AFormMayTellTheThinkingItself) {
  start_with(Format::kQwen3);
  say("<think>a</think>{}");
  const json message = message_of(R"("guided_regex":".*")");
  EXPECT_EQ(message["reasoning_content"], "a");
  EXPECT_EQ(message["content"], "{}");
  EXPECT_EQ(fleet->last().constraint->text().kind, request::ConstraintKind::kRegex);
}

// An answer that was cut while the model thought says nothing, and comes back so.
TEST_F(Reasoning, WhatWasCutGoesBackIn) {
  start_with(Format::kQwen3);
  for (const char* content : {R"(,"content":null)", "", R"(,"content":"")"}) {
    const Answer answer =
        testing::Client(server->port())
            .post("/v1/chat/completions",
                  std::string(R"({"model":"tiny","messages":[{"role":"assistant",)"
                              R"("reasoning_content":"so")") +
                      content + R"(},{"role":"user","content":"hi"}]})");
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(prompt(), "assistant:(so)\nuser:hi\nassistant:");
  }
}

TEST_F(Reasoning, DevelopersAreSystem) {
  start_with(Format::kNone);
  const std::string chats =
      R"({"model":"tiny","messages":[{"role":"developer","content":"be brief"},)"
      R"({"role":"user","content":"developer"}]})";
  const std::string responses =
      R"({"model":"tiny","input":[{"role":"developer","content":"be brief"},)"
      R"({"role":"user","content":"developer"}]})";
  for (const auto& [path, body] :
       {std::pair{"/v1/chat/completions", chats}, std::pair{"/v1/responses", responses}}) {
    ASSERT_EQ(testing::Client(server->port()).post(path, body).status, 200);
    EXPECT_EQ(prompt(), "system:be brief\nuser:developer\nassistant:");
  }
}

class ReasoningOfResponses : public Reasoning {
 protected:
  json respond(const std::string& more = "", const std::string& input = "\"hi\"") {
    const Answer answer = post(input, more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body);
  }
  // The events of a stream.
  std::vector<json> events(const std::string& more = "") {
    const Answer answer = post("\"hi\"", R"(,"stream":true)" + more);
    std::vector<json> all;
    constexpr std::string_view kData = "\ndata: ";
    for (std::size_t at = 0; (at = answer.body.find(kData, at)) != std::string::npos;) {
      at += kData.size();
      all.push_back(parsed(answer.body.substr(at, answer.body.find('\n', at) - at)));
    }
    return all;
  }
  static json part(const char* type, const std::string& text) {
    json all = {{"type", type}, {"text", text}};
    if (all["type"] == "output_text") all["annotations"] = all["logprobs"] = json::array();
    return json::array({all});
  }

 private:
  Answer post(const std::string& input, const std::string& more) {
    return testing::Client(server->port())
        .post("/v1/responses", R"({"model":"tiny","input":)" + input + more + "}");
  }
};

TEST_F(ReasoningOfResponses, IsAnItemBeforeTheMessage) {
  start_with(Format::kQwen3);
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{7}, kThought.size()}) {
    say(kThought, at_once);
    const json body = respond();
    ASSERT_EQ(body["output"].size(), 2u) << body;
    EXPECT_EQ(body["output"][0]["type"], "reasoning");
    EXPECT_EQ(body["output"][0]["summary"], json::array());
    EXPECT_EQ(body["output"][0]["content"], part("reasoning_text", "Let me see."));
    EXPECT_EQ(body["output"][0]["status"], "completed");
    EXPECT_EQ(body["output"][1]["content"], part("output_text", "It is 4."));
    EXPECT_EQ(body["usage"]["output_tokens_details"]["reasoning_tokens"], kThoughtTokens);

    std::string reasoning, text;
    std::vector<std::string> types;
    for (const json& event : events()) {
      const auto type = event["type"].get<std::string>();
      if (type == "response.reasoning_text.delta") reasoning += event["delta"];
      if (type == "response.output_text.delta") text += event["delta"];
      if (types.empty() || types.back() != type) types.push_back(type);
      if (type != "response.completed") continue;
      EXPECT_EQ(event["response"]["output"][0]["content"], body["output"][0]["content"]);
      EXPECT_EQ(event["response"]["output"][1]["content"], body["output"][1]["content"]);
      EXPECT_EQ(event["response"]["usage"], body["usage"]);
    }
    EXPECT_EQ(reasoning, "Let me see.");
    EXPECT_EQ(text, "It is 4.");
    EXPECT_EQ(types, (std::vector<std::string>{
                         "response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added", "response.reasoning_text.delta",
                         "response.reasoning_text.done", "response.content_part.done",
                         "response.output_item.done", "response.output_item.added",
                         "response.content_part.added", "response.output_text.delta",
                         "response.output_text.done", "response.content_part.done",
                         "response.output_item.done", "response.completed"}));
  }
}

TEST_F(ReasoningOfResponses, CallsAreNotWhatIsThoughtOfThem) {
  start_with(Format::kQwen3);
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  say("<think>I could call\n" + call + "</think>\n\n" + call);
  const json output = respond(R"(,"tools":[{"type":"function","name":"f"}])")["output"];
  ASSERT_EQ(output.size(), 2u) << output;
  EXPECT_EQ(output[0]["content"], part("reasoning_text", "I could call\n" + call));
  EXPECT_EQ(output[1]["type"], "function_call");
}

TEST_F(ReasoningOfResponses, LogprobsAreOfTheTextAlone) {
  start_with(Format::kQwen3);
  say(kThought);
  const json output = respond(R"(,"include":["message.output_text.logprobs"])")["output"];
  ASSERT_EQ(output.size(), 2u);
  std::string text;
  for (const json& token : output[1]["content"][0]["logprobs"]) text += token["token"];
  EXPECT_EQ(text, "\n\nIt is 4.") << "white space behind the mark is of neither";
}

TEST_F(ReasoningOfResponses, MayBeCutOrAllThereIs) {
  start_with(Format::kQwen3);
  say("<think>\nHm", 1, request::FinishReason::kLength);
  const json cut = respond();
  EXPECT_EQ(cut["status"], "incomplete");
  ASSERT_EQ(cut["output"].size(), 1u) << cut;
  EXPECT_EQ(cut["output"][0]["type"], "reasoning");
  EXPECT_EQ(cut["output"][0]["status"], "incomplete");
  // It may be sent back, and is then of a message that says nothing.
  respond("", "[" + cut["output"][0].dump() + R"(,{"role":"user","content":"and?"}])");
  EXPECT_EQ(prompt(), "assistant:(Hm)\nuser:and?\nassistant:");
  say("<think>\nHm\n</think>");
  const json silent = respond();
  EXPECT_EQ(silent["status"], "completed");
  ASSERT_EQ(silent["output"].size(), 2u) << silent;
  EXPECT_EQ(silent["output"][1]["content"], part("output_text", ""));
}

TEST_F(ServerTest, RequestsBringNoTemplateUnlessTheyMay) {
  const std::string own = R"("chat_template":"{{ messages[0].content }}!")";
  start();
  EXPECT_EQ(chat(own).status, 400);
  EXPECT_EQ(error(chat(own))["param"], "chat_template");
  server->stop();
  fleet.reset();
  options.limits.api.chat_template = true;
  start();
  ASSERT_EQ(chat(own).status, 200);
  EXPECT_EQ(fleet->last().prompt, (std::vector<TokenId>{'h', 'i', '!'}));
  for (const char* bad : {R"("chat_template":"{% for %}")", R"("chat_template":5)",
                          R"("chat_template":"{{ raise_exception('no') }}")",
                          R"("chat_template":"{% for i in range(10**9) %}{% endfor %}")"}) {
    const Answer answer = chat(bad);
    EXPECT_EQ(answer.status, 400) << bad;
    EXPECT_EQ(error(answer)["param"], "chat_template") << answer.body;
  }
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(error(chat(own + tools))["param"], "tools");
  const Answer tokens =
      testing::Client(server->port())
          .post("/tokenize", R"({"messages":[{"role":"user","content":"a"}],"chat_template":"b"})");
  EXPECT_EQ(parsed(tokens.body)["tokens"], json({'b'})) << tokens.body;
}

}  // namespace
}  // namespace causeway::server::server_reasoning_test
