#include "text/bpe_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/random.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

// GPT-2's table: printable Latin-1 spells itself, the other 68 bytes are U+0100 and up, in order.
struct Spelling {
  std::array<char32_t, 256> of_byte{};
  std::array<int, 256 + 68> to_byte{};
  constexpr Spelling() {
    to_byte.fill(-1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool same =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      of_byte[byte] = static_cast<char32_t>(same ? byte : next++);
      to_byte[of_byte[byte]] = byte;
    }
  }
};
constexpr Spelling kSpelling;

// Symbols count their own sizes: characters may be missing between them.
void push_symbol(std::vector<Symbol>& symbols, TokenId id, std::size_t size) {
  const std::uint32_t offset = symbols.empty() ? 0 : symbols.back().offset + symbols.back().size;
  symbols.push_back({id, offset, static_cast<std::uint32_t>(size)});
}

}  // namespace

bool has_inner_mark(std::string_view content) {
  return !content.empty() && end_of_marked_word(content) != content.size();
}

std::size_t end_of_marked_word(std::string_view text) {
  std::size_t at = 0;
  while (text.substr(at, kWordMark.size()) == kWordMark) at += kWordMark.size();
  return std::min(text.find(kWordMark, at), text.size());
}

std::optional<unsigned char> byte_of_spelling(char32_t code) {
  if (code >= kSpelling.to_byte.size() || kSpelling.to_byte[code] < 0) return std::nullopt;
  return static_cast<unsigned char>(kSpelling.to_byte[code]);
}

char32_t spelling_of_byte(unsigned char byte) { return kSpelling.of_byte[byte]; }

std::optional<std::string> bytes_of_spelling(std::string_view content) {
  std::string bytes;
  while (!content.empty()) {
    const Utf8Unit unit = first_unit(content);
    if (unit.kind != Utf8Unit::Kind::kCharacter) return std::nullopt;
    const auto byte = byte_of_spelling(unit.code);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    content.remove_prefix(unit.size);
  }
  return bytes;
}

std::optional<unsigned char> byte_of_fallback(std::string_view content, bool small_letters) {
  if (content.size() != 6 || !content.starts_with("<0x") || content[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : content.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (small_letters && c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<unsigned char>(value);
}

Result<BpeModel> BpeModel::build(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges,
                                 const BpeOptions& options) {
  BpeModel model(options, static_cast<std::size_t>(vocabulary.ids_end()));
  model.index_words(vocabulary);
  CAUSEWAY_TRY(model.add_merges(vocabulary, merges));
  return model;
}

void BpeModel::index_words(const Vocabulary& vocabulary) {
  std::fill(std::begin(byte_ids_), std::end(byte_ids_), -1);
  std::fill(std::begin(fallback_ids_), std::end(fallback_ids_), -1);
  words_.reserve(vocabulary.entries(), vocabulary.entries() * 8);
  for (std::int64_t i = 0; i < vocabulary.ids_end(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary.contains(id)) continue;
    const std::string_view content = vocabulary.content(id);
    if (const auto byte = byte_of_fallback(content)) fallback_ids_[*byte] = id;
    if (!options_.byte_level) {
      words_.add(id, content);
      if (content.size() == 1) byte_ids_[static_cast<unsigned char>(content[0])] = id;
    } else if (const auto bytes = bytes_of_spelling(content)) {
      // Contents with other characters cannot come out of merges of bytes.
      words_.add(id, *bytes);
      if (bytes->size() == 1) byte_ids_[static_cast<unsigned char>((*bytes)[0])] = id;
    }
  }
  // A character without a token becomes its bytes' tokens, which merges may join: each of those
  // stands for one byte, and its content is longer.
  const auto& bytes = options_.byte_level ? byte_ids_ : fallback_ids_;
  const bool covers =
      (options_.byte_level || options_.byte_fallback) && !options_.affixes() &&
      std::all_of(std::begin(bytes), std::end(bytes), [](TokenId id) { return id >= 0; });
  if (covers) token_bytes_max_ = words_.longest();
}

Status BpeModel::add_merges(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges) {
  slots_.assign(std::bit_ceil(merges.size() * 2 + 16), Slot{});
  separable_at_marks_ = !options_.byte_level && !options_.ignore_merges && !options_.affixes() &&
                        words_.find(kWordMark).has_value();
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const MergeRule& rule = merges[rank];
    const std::size_t prefix = options_.prefix.size();
    if (rule.right.size() < prefix) {
      return corrupt("model.merges[" + std::to_string(rank) +
                     "]: the second token is shorter than model.continuing_subword_prefix");
    }
    joined.assign(rule.left).append(rule.right.substr(prefix));
    const auto left = vocabulary.find(rule.left);
    const auto right = vocabulary.find(rule.right);
    const auto result = vocabulary.find(joined);
    if (!left || !right || !result) {
      const std::string_view missing = !left ? rule.left : !right ? rule.right : joined;
      return corrupt("model.merges[" + std::to_string(rank) + "]: '" + std::string(missing) +
                     "' is not in model.vocab");
    }
    if (has_inner_mark(joined)) separable_at_marks_ = false;
    // A pair listed twice keeps the later rank.
    Slot& slot = slot_for(pair_of(*left, *right));
    slot.pair = pair_of(*left, *right);
    slot.merge = {static_cast<std::uint32_t>(rank), *result};
  }
  return {};
}

BpeModel::Slot& BpeModel::slot_for(std::uint64_t pair) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mix64(pair) & mask;
  while (slots_[at].pair != kEmptyPair && slots_[at].pair != pair) at = (at + 1) & mask;
  return slots_[at];
}

Merge BpeModel::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mix64(pair) & mask;
  while (slots_[at].pair != kEmptyPair) {
    if (slots_[at].pair == pair) return slots_[at].merge;
    at = (at + 1) & mask;
  }
  return {};
}

void BpeModel::encode_word(std::string_view word, MergeScratch& scratch,
                           std::vector<TokenId>& ids) const {
  const auto whole = words_.find(word);
  if (whole && (options_.ignore_merges || memo_.get(*whole) == WholeWordMemo::State::kWhole)) {
    ids.push_back(*whole);
    return;
  }
  split_to_symbols(word, scratch.symbols);
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
    return merge_of(left.id, right.id);
  });
  for (const Symbol& symbol : scratch.symbols) ids.push_back(symbol.id);
  if (whole && !options_.affixes()) {
    const bool same = scratch.symbols.size() == 1 && scratch.symbols[0].id == *whole;
    memo_.set(*whole, same ? WholeWordMemo::State::kWhole : WholeWordMemo::State::kSplit);
  }
}

// An unknown character waits, to be fused with one behind it, until a known one comes. Characters
// that fall back to bytes do not end its waiting: so it is in the library.
void BpeModel::split_to_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  std::size_t unknown_size = 0;
  std::string buffer;
  const auto end_unknown = [&] {
    if (unknown_size > 0) push_symbol(symbols, *options_.unknown, std::exchange(unknown_size, 0));
  };
  for (std::size_t at = 0; at < word.size();) {
    const auto first = static_cast<unsigned char>(word[at]);
    const std::size_t size = options_.byte_level ? 1 : utf8_length(first);
    std::string_view character = word.substr(at, size);
    at += size;
    TokenId id = -1;
    if (options_.affixes()) {
      character = with_affixes(character, at == size, at == word.size(), buffer);
      id = words_.find(character).value_or(-1);
    } else {
      id = size == 1 ? byte_ids_[first] : words_.find(character).value_or(-1);
    }
    if (id >= 0) {
      end_unknown();
      push_symbol(symbols, id, size);
    } else if (!add_fallback(character, symbols) && options_.unknown) {
      if (!options_.fuse_unknown) end_unknown();
      unknown_size += size;
    }
  }
  end_unknown();
}

std::string_view BpeModel::with_affixes(std::string_view character, bool first, bool last,
                                        std::string& buffer) const {
  buffer.assign(first ? "" : options_.prefix).append(character);
  if (last) buffer.append(options_.suffix);
  return buffer;
}

bool BpeModel::add_fallback(std::string_view character, std::vector<Symbol>& symbols) const {
  const auto id_of = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (!options_.byte_fallback || !std::all_of(character.begin(), character.end(),
                                              [&](char byte) { return id_of(byte) >= 0; })) {
    return false;
  }
  for (const char byte : character) push_symbol(symbols, id_of(byte), 1);
  return true;
}

}  // namespace causeway::text
