#include "server/api/bad_words.h"

#include <algorithm>

#include "server/api/json_write.h"

namespace causeway::server {
namespace {

// Far below any logit, and a finite number after any penalty (at most a factor of 100).
constexpr float kForbidden = -1e30f;

ApiError wrong(std::string message, std::string code = {}) {
  return bad_request(std::move(message), "bad_words", std::move(code));
}

// A word's tokens within a text: vLLM takes its leading spaces off, and puts one there or none.
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

MaybeError exclude_word(const std::string& word, const fleet::CatalogueEntry& model,
                        std::vector<request::TokenBias>& biases) {
  std::vector<TokenId> bare, spaced;
  if (auto error = tokens_of(word, false, model, bare)) return error;
  if (auto error = tokens_of(word, true, model, spaced)) return error;
  if (bare.size() != 1 || bare[0] >= model.vocab) {
    return wrong("`bad_words` has `" + utf8_prefix(word, 64) + "`, which is " +
                     std::to_string(bare.size()) +
                     " tokens of the model; this server can exclude words of one token only",
                 "unsupported");
  }
  exclude(bare[0], biases);
  if (spaced.size() == 1 && spaced[0] < model.vocab) exclude(spaced[0], biases);
  return {};
}

}  // namespace

MaybeError set_bad_words(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                         request::Request& request) {
  for (const std::string& word : asked.bad_words) {
    if (auto error = exclude_word(word, model, request.logit_bias)) return error;
  }
  if (std::ssize(request.logit_bias) > request::kEditedTokensMax) {
    return wrong("`bad_words` and `logit_bias` name more than " +
                 std::to_string(request::kEditedTokensMax) + " tokens");
  }
  const auto excluded = [&](std::int64_t token) {
    return std::any_of(request.logit_bias.begin(), request.logit_bias.end(), [&](const auto& bias) {
      return bias.token == token && bias.bias == kForbidden;
    });
  };
  const auto ends = [&](std::int64_t token) {
    const auto& stops = request.stop_tokens;
    return asked.min_tokens > 0 && std::find(stops.begin(), stops.end(), token) != stops.end();
  };
  const auto& allowed = asked.allowed_token_ids;
  if (std::any_of(allowed.begin(), allowed.end(), excluded) &&
      std::all_of(allowed.begin(), allowed.end(),
                  [&](std::int64_t token) { return excluded(token) || ends(token); })) {
    return wrong("`bad_words` leaves none of the `allowed_token_ids` to begin with");
  }
  return {};
}

}  // namespace causeway::server
