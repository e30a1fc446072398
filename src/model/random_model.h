// Models of random weights in the Hugging Face layout, for the demo, for tests and for measuring:
// every family, any size, with a tokenizer and a chat template that work.
//
//   directory │ config.json  generation_config.json  tokenizer.json  tokenizer_config.json
//             │ model.safetensors, or model-0000i-of-0000n.safetensors +
//             model.safetensors.index.json
//
// The same options give the same bytes on every machine: each weight is a function of the seed, the
// tensor's name and its position, in integer and exactly rounded arithmetic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "model/config.h"

namespace causeway::model {

// The ids that every tokenizer made here ends with, from vocab - kSpecialTokens on.
inline constexpr std::int64_t kSpecialTokens = 8;
// 256 bytes, the special tokens, and room for a few merges.
inline constexpr std::int64_t kRandomVocabMin = 320;

struct RandomModelOptions {
  // Family, sizes, element type and so on; see random_model_config(), or read one by load_config()
  // or parse_config(). bos and eos are replaced by those of the tokenizer.
  ModelConfig config;
  std::uint64_t seed = 1;
  Bytes shard_bytes_max;  // 0: one file
  int threads = 0;        // 0: one a CPU
  // Bytes of weights written so far, and in all. From a writer thread, at most once per 4 MiB.
  std::function<void(Bytes done, Bytes total)> progress;
};

// A small model of `family`: 4 layers of width 256, about 5 million parameters, bf16, 4096 tokens.
ModelConfig random_model_config(Family family);

// Writes the model into `directory`, which is created; it must be empty or not exist. config.json
// comes last, so that what is incomplete is not taken for a model. kInvalidArgument: a config that
// parse_config() refuses, or a vocabulary below kRandomVocabMin; kIo.
Status make_random_model(const RandomModelOptions& options, const std::filesystem::path& directory);

// The parts of it that are text, for tests. `vocab` entries in all, special tokens last; with
// `adds_bos` the tokenizer puts <|begin_of_text|> before a text (Llama), and the template does.
std::string random_tokenizer_json(std::int64_t vocab, bool adds_bos);
std::string random_tokenizer_config_json(const ModelConfig& config, bool adds_bos);

}  // namespace causeway::model
