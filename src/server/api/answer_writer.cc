#include "server/api/answer_writer.h"

#include "server/api/answer_parts.h"
#include "server/api/json_write.h"
#include "server/api/prompt_scores.h"

namespace causeway::server {
namespace {

void append_usage(std::string& out, const Usage& usage) {
  out += "{\"prompt_tokens\":";
  append_json_integer(out, usage.prompt_tokens);
  out += ",\"completion_tokens\":";
  append_json_integer(out, usage.completion_tokens);
  out += ",\"total_tokens\":";
  append_json_integer(out, usage.prompt_tokens + usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_json_integer(out, usage.cached_tokens);
  out += '}';
  if (usage.reasoning_tokens >= 0) {
    out += ",\"completion_tokens_details\":{\"reasoning_tokens\":";
    append_json_integer(out, usage.reasoning_tokens);
    out += '}';
  }
  out += '}';
}

template <typename Item, typename IdOf>
void append_ids(std::string& out, std::span<const Item> items, IdOf id_of) {
  out += '[';
  for (const Item& item : items) {
    if (&item != items.data()) out += ',';
    append_json_integer(out, id_of(item));
  }
  out += ']';
}

std::string head_of(const AnswerWriter::Head& head, std::string_view object) {
  const bool chat = head.endpoint == Endpoint::kChat;
  std::string out = "{\"id\":";
  append_json_string(out, (chat ? "chatcmpl-" : "cmpl-") + head.id);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":";
  append_json_integer(out, head.created_unix_seconds);
  out += ",\"model\":";
  append_json_string(out, head.model);
  out += ",\"choices\":[";
  return out;
}

}  // namespace

AnswerWriter::Head::Head(const GenerationRequest& asked)
    : endpoint(asked.endpoint),
      logprobs(asked.top_logprobs >= 0),
      echoed_logprobs(asked.echoes_logprobs()),
      top_logprobs(asked.top_logprobs),
      prompt_logprobs(asked.prompt_logprobs),
      token_ids(asked.return_token_ids),
      tokens_as_ids(asked.tokens_as_ids),
      reasoning(asked.include_reasoning),
      include_usage(asked.include_usage) {}

AnswerWriter::AnswerWriter(const Head& head, const text::Tokenizer& tokenizer)
    : chat_(head.endpoint == Endpoint::kChat),
      logprobs_(head.logprobs),
      echoed_logprobs_(head.echoed_logprobs),
      top_logprobs_(head.top_logprobs),
      prompt_logprobs_(head.prompt_logprobs),
      token_ids_(head.token_ids),
      tokens_as_ids_(head.tokens_as_ids),
      reasoning_(head.reasoning),
      include_usage_(head.include_usage),
      call_ids_(head.call_ids),
      tool_calls_(head.tool_calls),
      whole_head_(head_of(head, chat_ ? "chat.completion" : "text_completion")),
      event_head_("data: " + head_of(head, chat_ ? "chat.completion.chunk" : "text_completion")),
      tokenizer_(tokenizer) {}

void AnswerWriter::append_role_event(std::string& out, std::size_t index,
                                     std::span<const TokenId> prompt_tokens,
                                     const Usage* so_far) const {
  out += event_head_;
  out += "{\"index\":";
  append_json_integer(out, static_cast<std::int64_t>(index));
  out += R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])";
  append_prompt_ids(out, prompt_tokens);
  append_event_end(out, so_far);
}

void AnswerWriter::append_event_end(std::string& out, const Usage* so_far) const {
  if (so_far != nullptr) {
    out += ",\"usage\":";
    append_usage(out, *so_far);
  } else if (include_usage_) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void AnswerWriter::append_event(std::string& out, const ChoiceText& choice,
                                const Usage* so_far) const {
  out += event_head_;
  out += "{\"index\":";
  append_json_integer(out, static_cast<std::int64_t>(choice.index));
  if (chat_) {
    append_delta(out, choice);
  } else {
    out += ",\"text\":";
    append_json_string(out, choice.text);
  }
  append_tail(out, choice);
  out += ']';
  append_event_end(out, so_far);
}

void AnswerWriter::append_usage_event(std::string& out, const Usage& usage) const {
  out += event_head_;
  out += "],\"usage\":";
  append_usage(out, usage);
  out += "}\n\n";
}

void AnswerWriter::append_answer(std::string& out, std::span<const ChoiceText> choices,
                                 const Usage& usage) const {
  out += whole_head_;
  for (const ChoiceText& choice : choices) {
    if (&choice != choices.data()) out += ',';
    out += "{\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(choice.index));
    if (chat_) {
      append_message(out, choice);
    } else {
      out += ",\"text\":";
      append_json_string(out, choice.text);
    }
    append_tail(out, choice);
  }
  out += ']';
  if (chat_ && !choices.empty()) {
    append_prompt_ids(out, choices[0].prompt_tokens);
    append_prompt_scores(out, choices[0].prompt_scores);
  }
  out += ",\"usage\":";
  append_usage(out, usage);
  out += '}';
}

void AnswerWriter::append_tail(std::string& out, const ChoiceText& choice) const {
  out += ",\"logprobs\":";
  append_logprobs(out, choice);
  if (token_ids_) {
    out += ",\"token_ids\":";
    append_ids(out, choice.tokens, [](const PlacedToken& placed) { return placed.token.token; });
    if (!chat_) append_prompt_ids(out, choice.prompt_tokens);
  }
  if (!chat_) append_prompt_scores(out, choice.prompt_scores);
  out += ",\"finish_reason\":";
  if (choice.finish_reason.empty()) {
    out += "null}";
    return;
  }
  append_json_string(out, choice.finish_reason);
  out += '}';
}

void AnswerWriter::append_prompt_ids(std::string& out, std::span<const TokenId> tokens) const {
  if (!token_ids_ || tokens.empty()) return;
  out += ",\"prompt_token_ids\":";
  append_ids(out, tokens, [](TokenId id) { return id; });
}

void AnswerWriter::append_prompt_scores(std::string& out,
                                        std::span<const PlacedToken> prompt) const {
  if (prompt_logprobs_ < 0) return;
  out += ",\"prompt_logprobs\":";
  append_prompt_logprobs(out, tokenizer_, prompt, prompt_logprobs_);
}

void AnswerWriter::append_logprobs(std::string& out, const ChoiceText& choice) const {
  if (!logprobs_) {
    out += "null";
  } else if (chat_) {
    out += "{\"content\":[";
    append_scored_tokens(out, tokenizer_, tokens_as_ids_, choice.tokens);
    out += "],\"refusal\":null}";
  } else {
    append_completion_logprobs(out, choice);
  }
}

void append_error_event(std::string& out, const ApiError& error) {
  out += "data: ";
  append_error(out, error);
  out += "\n\n";
}

}  // namespace causeway::server
