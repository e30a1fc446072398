#include "server/api/prompt_scores.h"

#include <algorithm>
#include <utility>

#include "server/api/json_write.h"
#include "text/detokenizer.h"

namespace causeway::server {
namespace {

// "5":{"logprob":…,"rank":…,"decoded_token":…}. A rank below 1 is not known.
void append_ranked(std::string& out, const text::Tokenizer& tokenizer,
                   const request::TokenLogprob& one, std::int64_t rank) {
  out += '"';
  append_json_integer(out, one.token);
  out += "\":{\"logprob\":";
  append_json_logprob(out, one.logprob);
  out += ",\"rank\":";
  if (rank > 0) {
    append_json_integer(out, rank);
  } else {
    out += "null";
  }
  out += ",\"decoded_token\":";
  append_json_string(out, tokenizer.token_bytes(one.token));
  out += '}';
}

void append_of_token(std::string& out, const text::Tokenizer& tokenizer,
                     const request::OutputToken& token, std::int32_t top) {
  const auto& best = token.top;
  const auto own = std::find_if(best.begin(), best.end(), [&](const request::TokenLogprob& one) {
    return one.token == token.token;
  });
  out += '{';
  append_ranked(out, tokenizer, {token.token, token.logprob},
                own == best.end() ? 0 : own - best.begin() + 1);
  const auto told = std::min<std::ptrdiff_t>(std::ssize(best), std::max(top, 0));
  for (auto one = best.begin(); one != best.begin() + told; ++one) {
    if (one == own) continue;
    out += ',';
    append_ranked(out, tokenizer, *one, one - best.begin() + 1);
  }
  out += '}';
}

}  // namespace

std::vector<PlacedToken> place_prompt(const text::Tokenizer& tokenizer,
                                      std::vector<request::OutputToken> tokens,
                                      std::string_view text) {
  std::vector<PlacedToken> placed;
  placed.reserve(tokens.size());
  text::Detokenizer detokenizer(tokenizer);
  std::size_t bytes = 0;
  std::int64_t characters = 0;
  for (request::OutputToken& token : tokens) {
    const TokenId id = token.token;
    placed.push_back({std::move(token), characters});
    const std::string_view rest = text.substr(std::min(bytes, text.size()));
    if (tokenizer.is_special(id) && !rest.starts_with(tokenizer.token_bytes(id))) continue;
    const std::string piece = detokenizer.push(id, /*skip_special=*/false);
    bytes += piece.size();
    characters += utf8_characters(piece);
  }
  return placed;
}

void append_prompt_logprobs(std::string& out, const text::Tokenizer& tokenizer,
                            std::span<const PlacedToken> prompt, std::int32_t top) {
  if (prompt.empty()) {
    out += "null";
    return;
  }
  out += "[null";
  for (const PlacedToken& placed : prompt.subspan(1)) {
    out += ',';
    append_of_token(out, tokenizer, placed.token, top);
  }
  out += ']';
}

}  // namespace causeway::server
