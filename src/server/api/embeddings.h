// Answers of /v1/embeddings.
//
//   {"object":"list","data":[{"object":"embedding","index":0,"embedding":[…]}, …],"model":…,
//    "usage":{"prompt_tokens":…,"total_tokens":…}}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::server {

// To a length of 1; what has none stays. False: it holds something that is no number.
[[nodiscard]] bool normalise(std::span<float> embedding);

struct EmbeddingsAnswer {
  std::string_view model;
  std::span<const std::vector<float>> embeddings;  // by index
  bool base64 = false;                             // f32, little-endian; else lists of numbers
  std::int64_t prompt_tokens = 0;
};
void append_embeddings(std::string& out, const EmbeddingsAnswer& answer);

}  // namespace causeway::server
