#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace causeway::text {
namespace {

// Moves what is decided from `bytes` to `out`; an incomplete character stays.
void take_complete(std::string& bytes, std::string& out) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Unit unit = first_unit(rest);
    if (unit.kind == Utf8Unit::Kind::kIncomplete) break;
    out.append(unit.kind == Utf8Unit::Kind::kCharacter ? rest.substr(0, unit.size) : kReplacement);
    rest.remove_prefix(unit.size);
  }
  bytes.erase(0, bytes.size() - rest.size());
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Begin begin)
    : tokenizer_(&tokenizer), begin_(begin) {
  const std::size_t replacements = tokenizer.text_replacements().size();
  if (replacements > 0) {
    later_ = std::make_unique<Later>();
    later_->parts.resize(replacements);
  }
  finish();
}

std::string Detokenizer::push(TokenId id, bool skip_special) {
  if (skip_special && tokenizer_->is_special(id)) return {};
  if (tokenizer_->token_bytes(id).empty()) return {};
  const bool may_end = tokenizer_->token_bytes_at_end(id).has_value();
  if (!may_end && later_ == nullptr) return push_token(id);
  if (later_ == nullptr) later_ = std::make_unique<Later>();
  const auto now = may_end ? std::exchange(later_->last, id) : std::optional(id);
  return now ? replaced(push_token(*now), /*last=*/false) : std::string();
}

std::string Detokenizer::replaced(std::string text, bool last) {
  const auto replacements = tokenizer_->text_replacements();
  for (std::size_t step = 0; step < later_->parts.size(); ++step) {
    const auto& [from, to] = replacements[step];
    const std::string all = std::exchange(later_->parts[step], {}) + text;
    std::string_view rest = all;
    text.clear();
    for (std::size_t at = rest.find(from); at != std::string_view::npos; at = rest.find(from)) {
      text.append(rest.substr(0, at)).append(to);
      rest.remove_prefix(at + from.size());
    }
    std::size_t keep = last ? 0 : std::min(rest.size(), from.size() - 1);
    while (!from.starts_with(rest.substr(rest.size() - keep))) --keep;
    text.append(rest.substr(0, rest.size() - keep));
    later_->parts[step] = rest.substr(rest.size() - keep);
  }
  return text;
}

std::string Detokenizer::push_token(TokenId id) {
  std::string out;
  std::string_view bytes = tokenizer_->token_bytes(id);
  std::string first;
  if (at_start_) bytes = first = take_start(id);
  if (tokenizer_->invalid_bytes() == InvalidBytes::kMaximalParts) {
    waiting_.append(bytes);
    take_complete(waiting_, out);
  } else if (tokenizer_->is_byte(id)) {
    push_byte(bytes, out);
  } else {
    replace_waiting(out);
    run_is_broken_ = false;
    out.append(bytes);
  }
  return out;
}

// The bytes of a token at the start of the text, which it may end.
std::string Detokenizer::take_start(TokenId id) {
  const LeadingSpace leading = tokenizer_->leading_space();
  std::string bytes = tokenizer_->token_bytes_at_start(id);
  if (leading == LeadingSpace::kOne && bytes.starts_with(' ')) bytes.erase(0, 1);
  at_start_ = leading == LeadingSpace::kMarks && bytes.empty();
  return bytes;
}

// Bytes wait for the others of their character as long as there can be one.
void Detokenizer::push_byte(std::string_view byte, std::string& out) {
  waiting_.append(byte);
  if (run_is_broken_) return replace_waiting(out);
  while (!waiting_.empty()) {
    const Utf8Unit unit = first_unit(waiting_);
    if (unit.kind == Utf8Unit::Kind::kIncomplete) return;
    if (unit.kind == Utf8Unit::Kind::kCharacter) {
      out.append(waiting_, 0, unit.size);
    } else if (tokenizer_->invalid_bytes() == InvalidBytes::kRestOfRun) {
      run_is_broken_ = true;
      return replace_waiting(out);
    } else {
      for (std::size_t i = 0; i < unit.size; ++i) out.append(kReplacement);
    }
    waiting_.erase(0, unit.size);
  }
}

void Detokenizer::replace_waiting(std::string& out) {
  for (std::size_t i = 0; i < waiting_.size(); ++i) out.append(kReplacement);
  waiting_.clear();
}

std::string Detokenizer::finish() {
  std::string out = finish_tokens();
  return later_ ? replaced(std::move(out), /*last=*/true) : out;
}

std::string Detokenizer::finish_tokens() {
  std::string out;
  if (const auto last = later_ ? std::exchange(later_->last, std::nullopt) : std::nullopt) {
    out = tokenizer_->token_bytes_at_end(*last).value_or("");
  }
  if (tokenizer_->invalid_bytes() != InvalidBytes::kMaximalParts) {
    replace_waiting(out);
  } else if (!waiting_.empty()) {
    out += kReplacement;  // one incomplete character at most is waiting: push left nothing else
  }
  waiting_.clear();
  run_is_broken_ = false;
  at_start_ = begin_ == Begin::kStart && tokenizer_->leading_space() != LeadingSpace::kKept;
  return out;
}

}  // namespace causeway::text
