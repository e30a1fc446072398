// Vocabularies of ranks, as their files spell them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::text::testing {

// With `=` at the end.
inline std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out.push_back(at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63]);
    }
  }
  return out;
}

// All bytes from rank 0, and the words behind them.
inline std::vector<std::string> byte_tokens(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

// A line a token, as in qwen.tiktoken.
inline std::string rank_lines(const std::vector<std::string>& tokens) {
  std::string out;
  std::size_t rank = 0;
  for (const std::string& token : tokens) {
    out += base64(token) + " " + std::to_string(rank++) + "\n";
  }
  return out;
}

}  // namespace causeway::text::testing
