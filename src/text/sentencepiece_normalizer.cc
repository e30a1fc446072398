#include "text/sentencepiece_normalizer.h"

#include "text/bpe_model.h"
#include "text/tokenizer_table.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

void append_marked(std::string_view text, std::string& out) {
  for (const char c : text) c == ' ' ? out.append(kWordMark) : out.append(1, c);
}

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(Options options)
    : charsmap_(std::move(options.charsmap)),
      remove_extra_whitespaces_(options.remove_extra_whitespaces),
      user_defined_(options.user_defined) {}

SentencePieceNormalizer::Unit SentencePieceNormalizer::next(std::string_view rest) const {
  if (user_defined_.may_start(rest[0])) {
    const std::size_t size = user_defined_.longest(rest).size;
    if (size > 0) return {rest.substr(0, size), size};
  }
  if (charsmap_) {
    if (const auto found = charsmap_->longest(rest)) return {found->text, found->size};
  }
  const std::size_t size = utf8_length(static_cast<unsigned char>(rest[0]));
  return {rest.substr(0, size), size};
}

Status SentencePieceNormalizer::apply(std::string_view text, bool prefix, std::string& out) const {
  out.reserve(text.size() + text.size() / 2 + kWordMark.size());
  if (!charsmap_ && !remove_extra_whitespaces_) {
    if (prefix) out.append(kWordMark);
    append_marked(text, out);
    return {};
  }
  while (remove_extra_whitespaces_ && !text.empty()) {
    const Unit unit = next(text);
    if (unit.text != " ") break;
    text.remove_prefix(unit.size);
  }
  if (text.empty()) return {};
  if (prefix) out.append(kWordMark);
  bool after_space = remove_extra_whitespaces_;
  while (!text.empty()) {
    Unit unit = next(text);
    text.remove_prefix(unit.size);
    while (after_space && unit.text.starts_with(' ')) unit.text.remove_prefix(1);
    append_marked(unit.text, out);
    if (!unit.text.empty()) after_space = remove_extra_whitespaces_ && unit.text.ends_with(' ');
    if (out.size() > kTextBytesMax) {
      return exhausted("the text becomes longer than 256 MiB by normalisation");
    }
  }
  while (remove_extra_whitespaces_ && out.ends_with(kWordMark)) {
    out.resize(out.size() - kWordMark.size());
  }
  return {};
}

}  // namespace causeway::text
