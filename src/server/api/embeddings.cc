#include "server/api/embeddings.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "server/api/json_write.h"

namespace causeway::server {
namespace {

static_assert(std::endian::native == std::endian::little);

void append_base64(std::string& out, std::span<const float> values) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bytes = std::as_bytes(values);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t at = i + k;
      bits = bits << 8 | (at < bytes.size() ? static_cast<std::uint32_t>(bytes[at]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const bool filled = i + k <= bytes.size();
      out += filled ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
}

// Writes the shortest digits that read back as the same values.
void append_numbers(std::string& out, std::span<const float> values) {
  out += '[';
  char digits[32];
  for (const float& value : values) {
    if (&value != values.data()) out += ',';
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  out += ']';
}

}  // namespace

bool normalise(std::span<float> embedding) {
  double square = 0;
  for (const float value : embedding) square += static_cast<double>(value) * value;
  if (!std::isfinite(square)) return false;
  if (square == 0) return true;
  const double scale = 1 / std::sqrt(square);
  for (float& value : embedding) value = static_cast<float>(value * scale);
  return true;
}

void append_embeddings(std::string& out, const EmbeddingsAnswer& answer) {
  out += "{\"object\":\"list\",\"data\":[";
  for (std::size_t i = 0; i < answer.embeddings.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"object\":\"embedding\",\"index\":";
    append_json_integer(out, static_cast<std::int64_t>(i));
    out += ",\"embedding\":";
    if (answer.base64) {
      out += '"';
      append_base64(out, answer.embeddings[i]);
      out += '"';
    } else {
      append_numbers(out, answer.embeddings[i]);
    }
    out += '}';
  }
  out += "],\"model\":";
  append_json_string(out, answer.model);
  out += ",\"usage\":{\"prompt_tokens\":";
  append_json_integer(out, answer.prompt_tokens);
  out += ",\"total_tokens\":";
  append_json_integer(out, answer.prompt_tokens);
  out += "}}";
}

}  // namespace causeway::server
