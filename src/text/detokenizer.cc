#include "text/detokenizer.h"

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
    : tokenizer_(&tokenizer),
      begin_(begin),
      strip_space_(begin == Begin::kStart && tokenizer.strips_leading_space()) {}

std::string Detokenizer::push(TokenId id, bool skip_special) {
  std::string out;
  if (skip_special && tokenizer_->is_special(id)) return out;
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return out;
  if (strip_space_ && bytes.front() == ' ') bytes.remove_prefix(1);
  strip_space_ = false;
  waiting_.append(bytes);
  take_complete(waiting_, out);
  return out;
}

std::string Detokenizer::finish() {
  // One incomplete character at most is waiting: push left nothing else.
  std::string out(waiting_.empty() ? std::string_view() : kReplacement);
  waiting_.clear();
  strip_space_ = begin_ == Begin::kStart && tokenizer_->strips_leading_space();
  return out;
}

}  // namespace causeway::text
