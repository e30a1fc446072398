#include "fleet/testing/snapshot.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace causeway::fleet::testing {
namespace {

namespace fs = std::filesystem;

// GPT-2's printable stand-in for a byte, as UTF-8.
std::string stand_in(int byte, int& next_extra) {
  const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                         (byte >= 0xAE && byte <= 0xFF);
  const int code = printable ? byte : 256 + next_extra++;
  std::string text;
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else {
    text += static_cast<char>(0xC0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
  return text;
}

}  // namespace

std::string byte_tokenizer_json() {
  nlohmann::json vocab = nlohmann::json::object();
  int next_extra = 0;
  for (int byte = 0; byte < 256; ++byte) vocab[stand_in(byte, next_extra)] = byte;
  const auto special = [](int id, const char* content) {
    return nlohmann::json{
        {"id", id},        {"content", content}, {"special", true},    {"single_word", false},
        {"lstrip", false}, {"rstrip", false},    {"normalized", false}};
  };
  return nlohmann::json{
      {"version", "1.0"},
      {"added_tokens", {special(256, "<s>"), special(257, "</s>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}}
      .dump();
}

void write_file(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << content;
}

void write_snapshot(const fs::path& directory) {
  const nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
                              {"model_type", "llama"},
                              {"hidden_size", 32},
                              {"intermediate_size", 64},
                              {"num_hidden_layers", 2},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"vocab_size", 258},
                              {"max_position_embeddings", 128},
                              {"rms_norm_eps", 1e-5},
                              {"rope_theta", 10000.0},
                              {"hidden_act", "silu"},
                              {"tie_word_embeddings", true},
                              {"bos_token_id", 256},
                              {"eos_token_id", 257},
                              {"torch_dtype", "float32"}};
  write_file(directory / "config.json", config.dump());
  write_file(directory / "tokenizer.json", byte_tokenizer_json());
  write_file(directory / "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
}

}  // namespace causeway::fleet::testing
