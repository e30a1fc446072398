#include "text/tokenizer_added.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/characters.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

bool is_word_character(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return code == 0x200C || code == 0x200D;  // joiners
  }
}

// Neither neighbour of [begin, end) continues a word.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_character(last_unit(text, begin).code)) return false;
  return end == text.size() || !is_word_character(first_unit(text.substr(end, 4)).code);
}

}  // namespace

PrefixSet::PrefixSet(const std::vector<std::string>& strings) {
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty()) continue;
    entries_.push_back({strings[i], static_cast<int>(i)});
    starts_[static_cast<unsigned char>(strings[i][0])] = true;
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
}

PrefixSet::Found PrefixSet::longest(std::string_view text) const {
  Found found;
  auto low = entries_.begin();
  auto high = entries_.end();
  // Entries in [low, high) agree with the first `depth` bytes of the text; the shortest is first.
  for (std::size_t depth = 0; low != high; ++depth) {
    while (low != high && low->text.size() == depth) {
      found = {low->index, depth};
      ++low;
    }
    if (depth == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto byte_of = [depth](const Entry& entry) {
      return static_cast<unsigned char>(entry.text[depth]);
    };
    low = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) < byte; });
    high = std::partition_point(low, high, [&](const Entry& e) { return byte_of(e) == byte; });
  }
  return found;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::vector<std::string> contents;
  for (const AddedToken& token : tokens_) contents.push_back(token.content);
  contents_ = PrefixSet(contents);
}

void AddedTokenMatcher::split(std::string_view text, bool special,
                              std::vector<Segment>& parts) const {
  std::size_t done = 0;  // text before it is in a part already
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    const int index = contents_.may_start(text[at]) ? contents_.longest(text.substr(at)).index : -1;
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[index];
    std::size_t begin = at;
    std::size_t end = at + token.content.size();
    at = end;
    if (token.special && !special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = white_space_begin(text, begin, done);
    if (token.rstrip) end = white_space_end(text, end);
    if (done < begin) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({text.substr(begin, end - begin), token.id});
    done = at = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
}

}  // namespace causeway::text
