// Any bytes as the body of a request that generates, and bodies with all fields changed
// (edited_file.h), through parsing, validation, template, tokenizer and back to text. The first
// byte picks the endpoint.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/testing/edited_file.h"
#include "grammar/behind_thinking.h"
#include "grammar/calls_in_text.h"
#include "grammar/check_constraint.h"
#include "server/api/answer_writer.h"
#include "server/api/prepare.h"
#include "server/api/prompt_scores.h"
#include "server/api/response_writer.h"
#include "server/api/stored_response.h"
#include "server/byte_model.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

// Between them they have every field.
const std::vector<std::string> kChats = {
    R"({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content":
 [{"type": "text", "text": "a", "cache_control": {}}, {"type": "text", "text": "b"}], "name": "n"}],
 "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "presence_penalty": 1,
 "frequency_penalty": -1, "repetition_penalty": 1.1, "seed": 7, "n": 2, "max_tokens": 9,
 "stop": ["x", "y"], "stop_token_ids": [65], "logit_bias": {"65": -100, "66": 1.5},
 "logprobs": true, "top_logprobs": 3, "min_tokens": 1, "bad_words": ["q", "uv"],
 "return_token_ids": true, "skip_special_tokens": false, "priority": 3, "user": "u",
 "chat_template_kwargs": {"thinking": true}, "include_reasoning": false})",
    R"({"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "assistant",
 "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f",
 "arguments": "{\"x\": [1, null]}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "r"}],
 "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type":
 "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}, {"type": "function",
 "function": {"name": "g"}}], "tool_choice": {"type": "function", "function": {"name": "f"}},
 "parallel_tool_calls": false, "max_completion_tokens": 5, "stream": true,
 "stream_options": {"include_usage": true, "continuous_usage_stats": true}})",
    R"({"model": "m", "messages": [{"role": "assistant", "reasoning_content": "t", "content": "a"}],
 "continue_final_message": true, "add_generation_prompt": false, "response_format": {"type":
 "json_schema", "json_schema": {"name": "s", "strict": true, "schema": {"type": "object",
 "properties": {"a": {"enum": [1, "b"]}}, "required": ["a"], "additionalProperties": false}}},
 "store": false, "metadata": {"a": "b"}, "service_tier": "auto", "modalities": ["text"]})"};
const std::vector<std::string> kCompletions = {
    R"({"model": "m", "prompt": ["ab", "c"], "echo": true, "logprobs": 2, "max_tokens": 0})",
    R"({"model": "m", "prompt": [65, 66], "prompt_logprobs": 1, "allowed_token_ids": [65, 66],
 "ignore_eos": true, "include_stop_str_in_output": true, "return_tokens_as_token_ids": true,
 "add_special_tokens": false, "best_of": 1, "suffix": ""})",
    R"({"model": "m", "prompt": [[65], [66, 67]], "structured_outputs": {"choice": ["y", "n"]}})",
    R"({"model": "m", "prompt": "a", "guided_regex": "[a-c]{1,3}"})",
    R"({"model": "m", "prompt": "a", "structured_outputs":
 {"grammar": "root ::= \"a\" | \"b\""}})"};
const std::vector<std::string> kEmbeddings = {
    R"({"model": "m", "input": ["a", "b"], "dimensions": 2, "encoding_format": "base64",
 "pooling": "mean", "user": "u", "truncate_prompt_tokens": -1})"};
const std::vector<std::string> kResponses = {
    R"({"model": "m", "input": "a", "instructions": "i", "max_output_tokens": 8, "top_logprobs": 1,
 "include": ["message.output_text.logprobs"], "metadata": {"k": "v"}, "stream": true,
 "text": {"format": {"type": "text"}, "verbosity": "medium"}, "reasoning": {"effort": "medium"}})",
    R"({"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
 {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
 {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
 {"type": "function_call_output", "call_id": "c", "output": "r"}], "tools": [{"type": "function",
 "name": "f", "parameters": {}, "strict": null}], "tool_choice": "required"})",
    R"({"model": "m", "input": [{"type": "message", "role": "assistant", "id": "1", "status":
 "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
 {"role": "user", "content": "b"}], "store": true, "text": {"format": {"type": "json_schema",
 "name": "n", "schema": {"type": "object"}}}})"};
constexpr std::string_view kWords[] = {"assistant",
                                       "chat_template",
                                       "cache_salt",
                                       "developer",
                                       "documents",
                                       "guided_json",
                                       "guided_choice",
                                       "guided_grammar",
                                       "image_url",
                                       "json_object",
                                       "keep_alive",
                                       "name",
                                       "parameters",
                                       "previous_response_id",
                                       "reasoning",
                                       "reasoning_effort",
                                       "required",
                                       "structured_outputs",
                                       "text",
                                       "tool",
                                       "tool_calls",
                                       "truncation",
                                       "type",
                                       "use_beam_search",
                                       "<tool_call>{\\\"name\\\": ",
                                       "</think>",
                                       "<|end|>"};

causeway::testing::FileFormat format_of(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat: return {kChats, kWords};
    case Endpoint::kCompletions: return {kCompletions, kWords};
    case Endpoint::kEmbeddings: return {kEmbeddings, kWords};
    case Endpoint::kResponses: return {kResponses, kWords};
  }
  return {kChats, kWords};
}

const fleet::CatalogueEntry& model() {
  static const std::unique_ptr<fleet::CatalogueEntry> entry = [] {
    auto made = byte_model_entry(ModelId(0), "m", Tokens(4096));
    auto chat = text::ChatTemplate::compile(std::string("{{ tools | tojson }}{{ messages }}") +
                                            kByteModelTemplate);
    CAUSEWAY_CHECK(chat.ok(), chat.error().message);
    made->chat_template.emplace(std::move(chat).value());
    made->tool_calls = text::ToolCallFormat::kHermes;
    made->reasoning = text::ReasoningFormat::kQwen3;
    return made;
  }();
  return *entry;
}

// What prepare() promises of its requests.
void check(const Prepared& prepared) {
  CAUSEWAY_CHECK(!prepared.requests.empty());
  if (prepared.constraint) {
    const Status form = grammar::check_constraint(*prepared.constraint);
    CAUSEWAY_CHECK(form.ok() || !form.error().message.empty());
    if (prepared.constraint->kind == request::ConstraintKind::kCallsInText) {
      const auto behind = grammar::parse_behind_thinking(prepared.constraint->text);
      const auto calls = grammar::parse_calls_in_text(prepared.constraint->text);
      CAUSEWAY_CHECK(behind ? grammar::to_constraint(*behind) == *prepared.constraint
                            : calls.ok() && grammar::to_constraint(*calls) == *prepared.constraint);
    }
  }
  for (const std::string& echo : prepared.echoes) CAUSEWAY_CHECK(!text::first_invalid_utf8(echo));
  for (const request::Request& request : prepared.requests) {
    CAUSEWAY_CHECK(!request.prompt.empty() && request.max_tokens.count >= 1);
    CAUSEWAY_CHECK(static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens.count <=
                   model().max_model_len.count);
    for (const TokenId id : request.prompt) CAUSEWAY_CHECK(id >= 0 && id < model().vocab);
    const request::SamplingParams& sampling = request.sampling;
    CAUSEWAY_CHECK(sampling.temperature >= 0 && sampling.temperature <= 2);
    CAUSEWAY_CHECK(sampling.top_p > 0 && sampling.top_p <= 1);
    CAUSEWAY_CHECK(sampling.min_p >= 0 && sampling.min_p <= 1 && sampling.top_k >= 0);
    CAUSEWAY_CHECK(sampling.repetition_penalty > 0);
    CAUSEWAY_CHECK(request.min_tokens >= Tokens(0) && request.min_tokens <= request.max_tokens);
    CAUSEWAY_CHECK(std::ssize(request.logit_bias) <= request::kEditedTokensMax);
    CAUSEWAY_CHECK(std::ssize(request.allowed_tokens) <= request::kEditedTokensMax);
    std::set<TokenId> biased;
    for (const auto& [token, bias] : request.logit_bias) {
      CAUSEWAY_CHECK(token >= 0 && token < model().vocab && biased.insert(token).second);
      // A bad word's is far below what a request may name.
      CAUSEWAY_CHECK((bias >= -100 && bias <= 100) || bias == -1e30f);
    }
    for (const TokenId id : request.allowed_tokens) CAUSEWAY_CHECK(id >= 0 && id < model().vocab);
  }
}

// A later request goes on from this answer, or is told why not.
void go_on(const std::string& response) {
  ChatBody chat;
  chat.messages.push_back(nlohmann::ordered_json{{"role", "user"}, {"content", "more"}});
  const auto error = go_on_from({"[]", response}, {}, chat);
  CAUSEWAY_CHECK(error ? error->status == 400 && !error->message.empty()
                       : chat.messages.size() > 1 && chat.messages.back()["content"] == "more");
}

// The choice as a response: events, of which each is JSON, and whole.
void respond(const GenerationRequest& asked, const Prepared& prepared, Choice& choice) {
  ResponseWriter::Head head(asked, prepared.requests[0].sampling);
  head.id = "1";
  head.model = asked.model;
  head.kept = true;
  head.tool_calls = text::ToolCallFormat::kHermes;
  const std::string text = choice.take_text();
  const auto tokens = choice.take_tokens();
  const auto calls = choice.take_calls();
  const std::string reasoning = choice.take_reasoning();
  const ChoiceText all{0, text, tokens, choice.finish_reason(), calls, {}, {}, reasoning};
  std::string whole;
  ResponseWriter(head, *model().tokenizer).append_answer(whole, all, {}, 1);
  CAUSEWAY_CHECK(nlohmann::json::accept(whole));
  ResponseWriter writer(head, *model().tokenizer);
  std::string events;
  writer.append_news(events, all);
  writer.append_end(events, {}, 1);
  CAUSEWAY_CHECK(writer.take_whole() == whole);
  go_on(whole);
  constexpr std::string_view kData = "\ndata: ";
  while (!events.empty()) {
    const std::size_t end = events.find("\n\n");
    const std::size_t data = events.find(kData);
    CAUSEWAY_CHECK(end != std::string::npos && data < end);
    const std::size_t begin = data + kData.size();
    CAUSEWAY_CHECK(nlohmann::json::accept(events.substr(begin, end - begin)));
    events.erase(0, end + 2);
  }
}

// The prompt as if it were the answer: a choice with the request's stops, written out.
void answer(const GenerationRequest& asked, const Prepared& prepared) {
  Choice choice(*model().tokenizer, asked,
                {text::ToolCallFormat::kHermes, {text::ReasoningFormat::kQwen3}});
  for (const TokenId id : prepared.requests[0].prompt) {
    request::OutputToken token;
    token.token = id;
    choice.push({token});
  }
  choice.finish(request::FinishReason::kLength);
  if (asked.endpoint == Endpoint::kResponses) return respond(asked, prepared, choice);
  AnswerWriter::Head head(asked);
  head.model = asked.model;
  const AnswerWriter writer(head, *model().tokenizer);
  const std::string text = choice.take_text();
  const auto tokens = choice.take_tokens();
  const auto calls = choice.take_calls();
  std::vector<request::OutputToken> prompt;
  for (const TokenId id : prepared.requests[0].prompt) prompt.push_back({id, -1.0f, {{id, -1.0f}}});
  const std::string reasoning = choice.take_reasoning();
  CAUSEWAY_CHECK(asked.include_reasoning || reasoning.empty());
  CAUSEWAY_CHECK(choice.reasoning_tokens() <= choice.generated());
  const auto scores = place_prompt(*model().tokenizer, prompt, text);
  const ChoiceText whole{
      0,      text,     tokens, choice.finish_reason(), calls, prepared.requests[0].prompt,
      scores, reasoning};
  std::string out;
  writer.append_role_event(out, 0, whole.prompt_tokens);
  writer.append_event(out, whole);
  writer.append_answer(out, {&whole, 1}, {});
}

void fuzz(Endpoint endpoint, std::string_view input, bool keeps) {
  const auto body = causeway::testing::edited_file(format_of(endpoint), input);
  GenerationRequest asked;
  MaybeError error = parse_generation(endpoint, body.text, {.keeps_responses = keeps}, asked);
  Prepared prepared;
  if (!error) error = prepare(asked, model(), {}, prepared);
  if (error) {
    CAUSEWAY_CHECK(!body.whole, error->message);
    CAUSEWAY_CHECK(error->status == 400 && !error->message.empty());
    std::string out;
    append_error(out, *error);
    return;
  }
  check(prepared);
  answer(asked, prepared);
}

}  // namespace
}  // namespace causeway::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::server;  // NOLINT: the fuzzer's entry must be global
  if (size == 0) return 0;
  auto endpoint = data[0] % 2 == 0 ? Endpoint::kChat : Endpoint::kCompletions;
  if (data[0] == 'e') endpoint = Endpoint::kEmbeddings;
  if (data[0] == 'r' || data[0] == 'R') endpoint = Endpoint::kResponses;
  fuzz(endpoint, {reinterpret_cast<const char*>(data) + 1, size - 1}, data[0] == 'R');
  return 0;
}
