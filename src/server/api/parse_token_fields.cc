// Fields that name tokens, or say how many there must be.
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

void parse_ids(Fields& fields, std::string_view name, std::size_t most,
               std::vector<std::int64_t>& out) {
  const Json* ids = fields.value(name);
  if (ids == nullptr) return;
  if (!ids->is_array() || ids->size() > most) {
    return fields.fail(name, "must be a list of at most " + std::to_string(most) + " token ids");
  }
  for (const Json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kInt32Max) {
      return fields.fail(name, "must hold token ids only");
    }
    out.push_back(id.get<std::int64_t>());
  }
}

// Digits as a number is usually written: what "05" or "+5" mean is not guessed.
std::optional<std::int64_t> token_named(std::string_view text) {
  std::int64_t id = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failure != std::errc() || end != text.data() + text.size()) return {};
  if (id < 0 || id > kInt32Max || std::to_string(id) != text) return {};
  return id;
}

void parse_bias(Fields& fields, std::size_t most, GenerationRequest& out) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > most) {
    return fields.fail("logit_bias", "has more than " + std::to_string(most) + " tokens");
  }
  for (const auto& [key, value] : bias->items()) {
    const auto id = token_named(key);
    if (!id) return fields.fail("logit_bias", "must have token ids as its keys");
    const double number = value.is_number() ? value.get<double>() : NAN;
    // Written so that NaN fails.
    if (!(number >= -100 && number <= 100)) {
      return fields.fail("logit_bias", "must hold numbers from -100 to 100");
    }
    out.logit_bias.emplace_back(*id, static_cast<float>(number));
  }
}

void parse_bad_words(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  const Json* words = fields.value("bad_words");
  if (words == nullptr) return;
  if (!words->is_array() || words->size() > limits.bad_words_max) {
    return fields.fail("bad_words", "must be a list of at most " +
                                        std::to_string(limits.bad_words_max) + " strings");
  }
  for (const Json& word : *words) {
    const auto* text = word.get_ptr<const std::string*>();
    if (text == nullptr || text->find_first_not_of(' ') == std::string::npos ||
        text->size() > limits.stop_string_bytes_max) {
      return fields.fail("bad_words", "must hold strings of 1 to " +
                                          std::to_string(limits.stop_string_bytes_max) +
                                          " bytes that are more than spaces");
    }
    out.bad_words.push_back(*text);
  }
}

}  // namespace

void parse_token_fields(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  parse_ids(fields, "stop_token_ids", limits.stop_tokens_max, out.stop_token_ids);
  parse_ids(fields, "allowed_token_ids", limits.edited_tokens_max, out.allowed_token_ids);
  if (const Json* none = fields.value("allowed_token_ids"); none != nullptr && none->empty()) {
    fields.fail("allowed_token_ids", "must allow a token; leave it out to allow all");
  }
  parse_bias(fields, limits.edited_tokens_max, out);
  parse_bad_words(fields, limits, out);
  out.min_tokens = fields.integer("min_tokens", 0, kInt32Max).value_or(0);
  if (const auto top = fields.integer("prompt_logprobs", 0, request::kTopLogprobsMax)) {
    out.prompt_logprobs = static_cast<std::int32_t>(*top);
    if (out.stream) {
      fields.fail("prompt_logprobs",
                  "is of whole answers; it needs `stream`: false (/v1/completions streams those of "
                  "a prompt with `echo`: true and `logprobs`)");
    }
  }
  out.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  out.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
}

}  // namespace causeway::server
