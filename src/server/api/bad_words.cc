#include "server/api/bad_words.h"

#include <algorithm>

#include "request/banned_words.h"
#include "server/api/json_write.h"

namespace causeway::server {
namespace {

// Far below any logit, and a finite number after any penalty (at most a factor of 100).
constexpr float kForbidden = -1e30f;

ApiError wrong(std::string message, std::string code = {}) {
  return bad_request(std::move(message), "bad_words", std::move(code));
}

// The tokens of a word without its leading spaces, or (`space`) behind one space, as vLLM has them.
MaybeError tokens_of(const std::string& word, bool space, const fleet::CatalogueEntry& model,
                     std::vector<TokenId>& out) {
  const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
  text::EncodeOptions options;
  options.add_special_tokens = false;
  auto tokens = model.tokenizer->encode((space ? " " : "") + bare, options);
  if (!tokens.ok()) return wrong("`bad_words`: " + tokens.error().message);
  out = std::move(tokens).value();
  return {};
}

void exclude(TokenId token, std::vector<request::TokenBias>& biases) {
  const auto known = std::find_if(biases.begin(), biases.end(),
                                  [&](const auto& bias) { return bias.token == token; });
  if (known != biases.end()) {
    known->bias = kForbidden;
  } else {
    biases.push_back({token, kForbidden});
  }
}

// A word of one token is excluded by a bias, which costs nothing; a longer one by `banned`.
MaybeError exclude_tokens(std::vector<TokenId> tokens, const std::string& word,
                          std::vector<request::TokenBias>& biases, request::BannedWords& banned) {
  const bool known = std::all_of(tokens.begin(), tokens.end(),
                                 [&](TokenId token) { return token < banned.vocab; });
  if (tokens.empty() || !known) {
    return wrong("`bad_words` has `" + utf8_prefix(word, 64) +
                     "`, which the model has no tokens to write with",
                 "unsupported");
  }
  if (tokens.size() == 1) {
    exclude(tokens[0], biases);
  } else {
    banned.words.push_back(std::move(tokens));
  }
  return {};
}

MaybeError exclude_word(const std::string& word, const fleet::CatalogueEntry& model,
                        std::vector<request::TokenBias>& biases, request::BannedWords& banned) {
  std::vector<TokenId> bare, spaced;
  if (auto error = tokens_of(word, false, model, bare)) return error;
  if (auto error = tokens_of(word, true, model, spaced)) return error;
  // As in vLLM: where the space only puts a token in front, the word behind it is excluded already.
  const bool two_spellings = !bare.empty() && spaced.size() == bare.size() && spaced[0] != bare[0];
  if (auto error = exclude_tokens(std::move(bare), word, biases, banned)) return error;
  return two_spellings ? exclude_tokens(std::move(spaced), word, biases, banned) : MaybeError();
}

}  // namespace

MaybeError set_bad_words(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                         request::Request& request) {
  request::BannedWords banned;
  banned.vocab = model.vocab;
  for (const std::string& word : asked.bad_words) {
    if (auto error = exclude_word(word, model, request.logit_bias, banned)) return error;
  }
  if (std::ssize(request.logit_bias) > request::kEditedTokensMax) {
    return wrong("`bad_words` and `logit_bias` name more than " +
                 std::to_string(request::kEditedTokensMax) + " tokens");
  }
  const auto excluded = [&](std::int64_t token) {
    const auto& words = banned.words;
    return std::any_of(
               request.logit_bias.begin(), request.logit_bias.end(),
               [&](const auto& bias) { return bias.token == token && bias.bias == kForbidden; }) ||
           std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return word.back() == token; });
  };
  const auto ends = [&](std::int64_t token) {
    const auto& stops = request.stop_tokens;
    return asked.min_tokens > 0 && std::find(stops.begin(), stops.end(), token) != stops.end();
  };
  const auto& allowed = asked.allowed_token_ids;
  if (std::any_of(allowed.begin(), allowed.end(), excluded) &&
      std::all_of(allowed.begin(), allowed.end(),
                  [&](std::int64_t token) { return excluded(token) || ends(token); })) {
    return wrong("`bad_words` may leave none of the `allowed_token_ids`");
  }
  if (banned.words.empty()) return {};
  auto constraint = request::ban_words(std::move(banned));
  if (!constraint.ok()) return wrong("`bad_words`: " + constraint.error().message);
  request.constraint = *std::move(constraint);
  return {};
}

}  // namespace causeway::server
