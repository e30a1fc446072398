// The two forms in which OpenAI's API gives log-probabilities.
#include <algorithm>
#include <utility>

#include "server/api/answer_parts.h"
#include "server/api/answer_writer.h"
#include "server/api/json_write.h"

namespace causeway::server {
namespace {

void append_token_as_id(std::string& out, TokenId id) {
  out += "\"token_id:";
  append_json_integer(out, id);
  out += '"';
}

// "token":…,"logprob":…,"bytes":[…]
void append_scored_token(std::string& out, const text::Tokenizer& tokenizer, bool as_ids,
                         const request::TokenLogprob& scored) {
  const auto [id, logprob] = scored;
  const std::string_view bytes = tokenizer.token_bytes(id);
  out += "{\"token\":";
  if (as_ids) {
    append_token_as_id(out, id);
  } else {
    append_json_string(out, bytes);
  }
  out += ",\"logprob\":";
  append_json_logprob(out, logprob);
  out += ",\"bytes\":[";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_json_integer(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

}  // namespace

void append_scored_tokens(std::string& out, const text::Tokenizer& tokenizer, bool as_ids,
                          std::span<const PlacedToken> tokens) {
  for (const PlacedToken& placed : tokens) {
    if (&placed != tokens.data()) out += ',';
    append_scored_token(out, tokenizer, as_ids, {placed.token.token, placed.token.logprob});
    out += ",\"top_logprobs\":[";
    for (const auto& best : placed.token.top) {
      if (&best != placed.token.top.data()) out += ',';
      append_scored_token(out, tokenizer, as_ids, best);
      out += '}';
    }
    out += "]}";
  }
}

void AnswerWriter::append_completion_token(std::string& out, TokenId id) const {
  if (tokens_as_ids_) return append_token_as_id(out, id);
  append_json_token(out, tokenizer_.token_bytes(id));
}

void AnswerWriter::append_completion_top(std::string& out, const PlacedToken& placed,
                                         std::size_t most) const {
  char before = '{';
  bool chosen_told = false;
  const auto append_one = [&](TokenId id, float logprob) {
    out += std::exchange(before, ',');
    append_completion_token(out, id);
    out += ':';
    append_json_logprob(out, logprob);
    chosen_told = chosen_told || id == placed.token.token;
  };
  const auto& top = placed.token.top;
  for (std::size_t i = 0; i < std::min(most, top.size()); ++i) {
    append_one(top[i].token, top[i].logprob);
  }
  // The API always tells the chosen token's, so that there may be one more than was asked for.
  if (!chosen_told) append_one(placed.token.token, placed.token.logprob);
  out += '}';
}

void AnswerWriter::append_completion_logprobs(std::string& out, const ChoiceText& choice) const {
  std::span<const PlacedToken> prompt;
  if (echoed_logprobs_) prompt = choice.prompt_scores;
  const auto list = [&](const char* name, auto&& append_one) {
    out += name;
    std::string_view comma;
    for (const auto tokens : {prompt, choice.tokens}) {
      for (const PlacedToken& placed : tokens) {
        out += std::exchange(comma, ",");
        append_one(placed);
      }
    }
    out += ']';
  };
  // The first token of a prompt has no log-probability: the model saw nothing before it.
  const auto unless_first = [&](const PlacedToken& placed, auto&& append) {
    if (&placed != prompt.data()) return append();
    out += "null";
  };
  list("{\"tokens\":[",
       [&](const auto& placed) { append_completion_token(out, placed.token.token); });
  list(",\"token_logprobs\":[", [&](const auto& placed) {
    unless_first(placed, [&] { append_json_logprob(out, placed.token.logprob); });
  });
  list(",\"top_logprobs\":[", [&](const auto& placed) {
    unless_first(placed, [&] {
      append_completion_top(out, placed, static_cast<std::size_t>(top_logprobs_));
    });
  });
  list(",\"text_offset\":[",
       [&](const auto& placed) { append_json_integer(out, placed.text_offset); });
  out += '}';
}

}  // namespace causeway::server
