// What encode_up_to() must hold to, whatever the tokenizer and the text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace causeway::text::testing {

// What is wrong with it; "" for nothing.
inline std::string up_to_problem(const Tokenizer& tokenizer, std::string_view text,
                                 const EncodeOptions& options, std::int64_t most) {
  const auto all = tokenizer.encode(text, options);
  const auto some = tokenizer.encode_up_to(text, options, most);
  if (!all.ok()) return {};  // how far it comes may show that there are too many
  if (!some.ok()) return "an error where encode() has none: " + some.error().message;
  const std::int64_t count = std::ssize(*all);
  const std::string numbers = std::to_string(count) + " tokens, of which " + std::to_string(most) +
                              " are wanted, and told are " + std::to_string(some->count);
  if (count <= most) return some->ids == *all && some->count == count ? "" : "not all: " + numbers;
  if (some->count <= most || some->count > count) return "a wrong number: " + numbers;
  // What is put behind the text follows what there is of it.
  const auto parted = std::mismatch(some->ids.begin(), some->ids.end(), all->begin(), all->end());
  const auto behind = some->ids.end() - parted.first;
  return behind <= (options.add_special_tokens ? 2 : 0) ? "" : "other tokens: " + numbers;
}

}  // namespace causeway::text::testing
