// Random valid UTF-8 that is hard on tokenizers: words, numbers, runs of white space, contractions,
// scripts, combining marks, emoji, the marks of SentencePiece, pieces of special tokens.
#pragma once

#include <string>

#include "base/random.h"
#include "text/bpe_model.h"
#include "text/tokenizer_normalize.h"
#include "text/utf8.h"

namespace causeway::text::testing {

// A scalar value; mostly from blocks where something differs, sometimes from anywhere.
inline char32_t random_character(Random& random) {
  struct Block {
    char32_t first, last;
  };
  static constexpr Block kBlocks[] = {
      {'a', 'z'},       {'a', 'z'},       {'a', 'z'},         {'A', 'Z'},        {'0', '9'},
      {' ', ' '},       {' ', ' '},       {'\t', '\r'},       {'!', '/'},        {0x80, 0x17F},
      {0x300, 0x36F},   {0x370, 0x4FF},   {0x5D0, 0x6FF},     {0x900, 0x97F},    {0x1100, 0x11FF},
      {0x1E00, 0x1FFF}, {0x2000, 0x206F}, {0x2580, 0x2583},   {0x3000, 0x30FF},  {0x4E00, 0x4EFF},
      {0xAC00, 0xACFF}, {0xFB00, 0xFBFF}, {0x1F300, 0x1F6FF}, {0x1D15E, 0x1D1FF}};
  if (random.chance(0.02)) {
    const auto code = static_cast<char32_t>(random.below(0x110000 - 0x800));
    return code < 0xD800 ? code : code + 0x800;
  }
  const Block block = kBlocks[random.below(std::size(kBlocks))];
  return static_cast<char32_t>(random.between(block.first, block.last));
}

inline std::string random_text(Random& random, std::int64_t characters_max) {
  static constexpr const char* kPieces[] = {"'s",    "'LL",     " the", "\n\n",  "    ",
                                            "\r\n",  "1234567", "<s>",  "<|",    "▁▁",
                                            "don't", "...",     " \n ", "<0x41>"};
  std::string text;
  for (std::int64_t n = random.below(characters_max + 1); n > 0; --n) {
    if (random.chance(0.1)) {
      text += kPieces[random.below(std::size(kPieces))];
    } else {
      append_utf8(random_character(random), text);
    }
  }
  return text;
}

inline std::string composed(const std::string& text) {
  std::string out;
  return compose_nfc(text, out) ? out : text;
}

inline std::string marks_as_spaces(std::string text) {
  for (std::size_t at = text.find(kWordMark); at != std::string::npos; at = text.find(kWordMark)) {
    text.replace(at, kWordMark.size(), " ");
  }
  return text;
}

}  // namespace causeway::text::testing
