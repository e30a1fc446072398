// Numbers in JSON files, in every field of every file that the program reads: as Python would, or
// an error that names the file and the field. Each leaf of a valid document of each reader is
// replaced by each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"
#include "base/testing/temporary_directory.h"
#include "bench/commands/profile_of_hardware.h"
#include "bench/replay_beside.h"
#include "bench/tuner_curves.h"
#include "engine/chunk_profile.h"
#include "fleet/generation_config.h"
#include "kernels/home_gemm/profile.h"
#include "model/config.h"
#include "request/trace.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "topology/snapshot.h"
#include "transfer/link_map.h"
#include "weights/checkpoint.h"

namespace causeway::json_files_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::vector<std::string>& numbers() {
  static const std::vector<std::string> all = {"-0",
                                               "-1",
                                               "5.0",
                                               "0.5",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "1" + std::string(400, '0'),
                                               "-1" + std::string(400, '0'),
                                               "1e999",
                                               "-1e999",
                                               "NaN",
                                               "Infinity",
                                               "-Infinity"};
  return all;
}

// One kind of file: where it lies in a folder, what of it is valid, and who reads it.
struct Reader {
  std::string file;
  std::string document;
  std::function<Status(const fs::path& folder)> read;
  std::vector<std::pair<std::string, std::string>> beside = {};  // other files of the folder
  bool named = true;  // the errors name the file; false: the caller adds its name
};

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A safetensors file of one tensor of 6 floats.
std::string safetensors(const std::string& header) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file + header + std::string(24, '\0');
}

constexpr const char* kTokenizer = R"({
  "added_tokens": [{"id": 3, "content": "<s>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
    {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
     "strip_accents": null, "lowercase": true}]},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

constexpr const char* kUnigram = R"({
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                    "split": true},
  "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.5]]}})";

constexpr const char* kTokenizerConfig = R"({
  "bos_token": "<s>", "eos_token": {"content": "<s>", "lstrip": false, "rstrip": false},
  "add_bos_token": true, "add_eos_token": false, "legacy": false, "model_max_length": 4096,
  "added_tokens_decoder": {"3": {"content": "<s>", "lstrip": false, "normalized": false,
                                 "rstrip": false, "single_word": false, "special": true}},
  "additional_special_tokens": ["<s>"], "chat_template": "{{ messages }}"})";

constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5, "num_attention_heads": 8,
  "num_key_value_heads": 4, "head_dim": 8, "vocab_size": 512, "torch_dtype": "float32",
  "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 2048},
  "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "hidden_act": "silu",
  "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0, "initializer_range": 0.02})";

constexpr const char* kMoeConfig = R"({"architectures": ["Qwen3MoeForCausalLM"],
  "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 4, "num_attention_heads": 8,
  "num_key_value_heads": 4, "vocab_size": 512, "torch_dtype": "bfloat16", "num_experts": 8,
  "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": true,
  "decoder_sparse_step": 1, "mlp_only_layers": [], "sliding_window": null,
  "use_sliding_window": false, "max_window_layers": 4, "max_position_embeddings": 4096,
  "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1,
                   "original_max_position_embeddings": 1024, "attention_factor": 1.1}})";

constexpr const char* kGemmaConfig = R"({"architectures": ["Gemma3ForConditionalGeneration"],
  "model_type": "gemma3", "torch_dtype": "bfloat16", "eos_token_id": [1, 106],
  "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 172,
    "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8,
    "vocab_size": 512, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 512,
    "sliding_window_pattern": 6, "query_pre_attn_scalar": 8,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}}})";

constexpr const char* kGemma2Config = R"({"architectures": ["Gemma2ForCausalLM"],
  "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 4, "num_attention_heads": 8,
  "num_key_value_heads": 4, "head_dim": 8, "vocab_size": 512, "torch_dtype": "bfloat16",
  "max_position_embeddings": 4096, "sliding_window": 512, "query_pre_attn_scalar": 8,
  "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
  "hidden_activation": "gelu_pytorch_tanh"})";

constexpr const char* kPhiConfig = R"({"architectures": ["Phi3ForCausalLM"],
  "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 4, "num_attention_heads": 8,
  "num_key_value_heads": 4, "vocab_size": 512, "torch_dtype": "bfloat16",
  "max_position_embeddings": 4096, "original_max_position_embeddings": 1024,
  "partial_rotary_factor": 0.5, "sliding_window": 2047,
  "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1], "long_factor": [2.0, 2.5]}})";

constexpr const char* kQwenConfig = R"({"architectures": ["QWenLMHeadModel"],
  "model_type": "qwen", "hidden_size": 64, "intermediate_size": 344, "num_hidden_layers": 4,
  "num_attention_heads": 8, "kv_channels": 8, "vocab_size": 512, "bf16": true,
  "max_position_embeddings": 4096, "seq_length": 1024, "rotary_emb_base": 10000,
  "layer_norm_epsilon": 1e-6, "no_bias": true, "use_dynamic_ntk": true, "use_logn_attn": true,
  "rotary_pct": 1.0, "tie_word_embeddings": false})";

// All bytes, each a token; the first are those of "AA==", "AQ==", … in base64.
std::string tekken() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Json file = Json::parse(R"({"config": {"pattern": "[a-z]+", "default_vocab_size": 259,
      "default_num_special_tokens": 3, "version": "v3", "num_vocab_tokens": 256},
      "special_tokens": [{"rank": 0, "token_str": "<unk>", "is_control": true},
                         {"rank": 1, "token_str": "<s>", "is_control": true},
                         {"rank": 2, "token_str": "</s>", "is_control": true}]})");
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::string base64 = {kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '='};
    file["vocab"].push_back({{"rank", byte}, {"token_bytes", base64}});
  }
  return file.dump();
}

constexpr const char* kLinkMap = R"({"causeway_link_map": 1, "machine": "m", "links": 2,
  "in": {"own": [{"links": [0], "rate": 55e9}, {"links": [1], "rate": 55e9}],
         "relayed": [{"target": 0, "links": [0, 1], "rate": 90e9}]},
  "out": {"own": [{"links": [0], "rate": 55e9}, {"links": [1], "rate": 55e9}], "relayed": []},
  "duplex": [97e9, 97e9], "peers": [{"source": 0, "target": 1, "rate": 300e9},
                                    {"source": 1, "target": 0, "rate": 300e9}]})";

constexpr const char* kTopology = R"({"causeway_topology": 1, "cores": 32, "cpus": 32,
  "cpus_usable": 32, "cpu_quota": 1.5, "memory": 6001508352, "memory_available": 6001508352,
  "memory_limited_by": "memory", "driver": "580", "cuda": 13000,
  "nodes": [{"kind": "machine", "parent": -1}, {"kind": "numa", "parent": 0, "index": 0,
             "cpus": "0-31", "memory": 6001508352}, {"kind": "gpu", "parent": 1, "index": 0}],
  "gpus": [{"name": "H200", "pci_id": "0000:00:06.0", "memory": 150754820096, "sms": 132,
            "compute": 90, "numa": 0, "pcie_now": {"generation": 5, "lanes": 16},
            "pcie_max": {"generation": 5, "lanes": 16},
            "nvlinks": {"version": 4, "active": 18, "to_switch": 18}, "peers": [],
            "mig": "disabled", "mig_instances": [{"gpu_instance": 1, "compute_instance": 0,
            "sms": 16, "memory": 1000}]}], "notes": ["none"]})";

constexpr const char* kHome = R"({"format": "causeway-home-profile", "version": 1, "machines": [
  {"gpu": "H200", "home": "host", "precision": "bf16", "copy_gb_per_s": 55.0,
   "read_gb_per_s": 53.0, "beside": {"staged": [1.1, 1.07], "in_place": [1.2, 1.3]},
   "points": [{"way": "resident", "n": 4096, "k": 4096, "m": 16, "sms": 132, "ms": 0.1}]}]})";

constexpr const char* kChunks = R"({"format": "causeway-chunk-profile", "version": 1,
  "device": "cuda", "machine": "NVIDIA H200", "driver": "580", "commit": "3536", "tables": [
  {"model": "m", "shape": "s", "processors": 132, "decodes": 32, "context": 1024, "runs": 5,
   "steps": [{"tokens": 1, "ttft_ms": 5, "tpot_ms": 6.5, "gamma_x": 1, "gamma_o": 1.4}]}]})";

constexpr const char* kHardware = R"({"name": "x", "description": "y", "tflops": 700,
  "memory_gb_per_s": 4420, "attention_gb_per_s": 3600, "memory_gb": 141, "link_gb_per_s": 55,
  "kv_in_gb_per_s": 46, "kv_out_gb_per_s": 46, "step_overhead_us": 50, "layer_overhead_us": 6.3,
  "prompt_layer_overhead_us": 24, "prompt_attention_tflops": 400, "prompt_attention_token_ns": 30,
  "home_gb_per_s": 51, "plain_launch_us": 1000, "shape_choice_us": 400, "request_path_us": 490,
  "copy_slowdown": 0.07, "part_layer_overhead_us": 7, "part_attention": 1.15,
  "coarse_part_layer_overhead_us": 11, "coarse_part_attention": 0.8, "part_link_gb_per_s": 51,
  "part_neighbour_slowdown": 0.2})";

constexpr const char* kRow = R"([{"home": "host", "sms": 132, "m": 0, "n": 16384, "k": 4096,
  "way": "floor", "alpha": 0, "ms": 2.6, "link_gb": 0.13},
  {"home": "host", "sms": 132, "m": 4096, "n": 16384, "k": 4096, "way": "ring", "alpha": 0,
   "ms": 2.7, "link_gb": 0.13},
  {"home": "host", "sms": 132, "m": 4096, "n": 16384, "k": 4096, "way": "ring", "alpha": 0.5,
   "ms": 4.0, "link_gb": 0.2},
  {"home": "host", "sms": 132, "m": 4096, "n": 16384, "k": 4096, "way": "symmetric", "alpha": 1,
   "ms": 5.3, "link_gb": 0.27}])";

Status read_replay(const fs::path& folder) {
  const std::string text = text_of(folder / "replay.json");
  std::string buffer;
  const auto report = Json::parse(plain_json_numbers(text, buffer), nullptr, false);
  return status_of(bench::beside_text(report, report));
}

Reader config_reader(const char* document) {
  return {"config.json", document,
          [](const fs::path& folder) { return status_of(model::load_config(folder)); }};
}

Reader tokenizer_reader(std::string file, const char* document, const char* tokenizer) {
  Reader reader{std::move(file), document,
                [](const fs::path& folder) { return status_of(text::load_tokenizer(folder)); }};
  if (reader.file != "tokenizer.json") reader.beside = {{"tokenizer.json", tokenizer}};
  return reader;
}

Reader trace_reader(const char* document) {
  return {"trace.jsonl", document, [](const fs::path& folder) {
            return status_of(request::load_trace(folder / "trace.jsonl", 0));
          }};
}

std::vector<Reader> model_readers() {
  const std::string header = R"({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}})";
  return {
      config_reader(kConfig),
      config_reader(kMoeConfig),
      config_reader(kGemmaConfig),
      config_reader(kGemma2Config),
      config_reader(kPhiConfig),
      config_reader(kQwenConfig),
      {"generation_config.json",
       R"({"temperature": 0.6, "top_p": 0.9, "top_k": 50, "min_p": 0.1, "repetition_penalty": 1.1,
           "eos_token_id": [2, 3], "pad_token_id": 0, "transformers_version": "4.40.0"})",
       [](const fs::path& folder) { return status_of(fleet::load_generation_config(folder)); }},
      tokenizer_reader("tokenizer.json", kTokenizer, ""),
      tokenizer_reader("tokenizer.json", kUnigram, ""),
      tokenizer_reader("tokenizer_config.json", kTokenizerConfig, kTokenizer),
      {"tokenizer_config.json", kTokenizerConfig,
       [](const fs::path& folder) { return status_of(text::load_chat_template(folder)); }},
      {"special_tokens_map.json",
       R"({"bos_token": "<s>", "eos_token": {"content": "<s>", "lstrip": false, "rstrip": false,
           "normalized": false, "single_word": false}, "additional_special_tokens": ["<s>"]})",
       [](const fs::path& folder) { return status_of(text::load_tokenizer(folder)); },
       {{"tokenizer.json", kTokenizer}, {"tokenizer_config.json", "{}"}}},
      {"tekken.json", tekken(),
       [](const fs::path& folder) { return status_of(text::load_tokenizer(folder)); }},
      {"model.safetensors.index.json",
       R"({"metadata": {"total_size": 24}, "weight_map": {"w": "a.safetensors"}})",
       [](const fs::path& folder) { return status_of(weights::Checkpoint::open(folder)); },
       {{"a.safetensors", safetensors(header)}}},
      {"model.safetensors", header,
       [](const fs::path& folder) {
         const fs::path path = folder / "model.safetensors";
         write(path, safetensors(text_of(path)));
         return status_of(weights::Checkpoint::open(folder));
       }},
  };
}

std::vector<Reader> machine_readers() {
  return {
      {"links-m.json", kLinkMap,
       [](const fs::path& folder) {
         return status_of(transfer::load_link_map(folder.string(), "m"));
       }},
      {"topology.json", kTopology,
       [](const fs::path& folder) {
         return status_of(topology::load_snapshot((folder / "topology.json").string()));
       }},
      {"home.json",
       kHome,
       [](const fs::path& folder) {
         return status_of(kernels::home_gemm::parse_profiles(text_of(folder / "home.json")));
       },
       {},
       false},
      {"chunks.json",
       kChunks,
       [](const fs::path& folder) {
         return status_of(engine::parse_chunk_profile(text_of(folder / "chunks.json")));
       },
       {},
       false},
      {"hardware.json", kHardware,
       [](const fs::path& folder) {
         return status_of(app::profile_of_hardware((folder / "hardware.json").string()));
       }},
      {"rows.json",
       kRow,
       [](const fs::path& folder) {
         return status_of(bench::curves_of(text_of(folder / "rows.json"), 4e12));
       },
       {},
       false},
  };
}

std::vector<Reader> workload_readers() {
  return {
      trace_reader(R"({"timestamp": 7, "input_length": 20, "output_length": 3,
                       "hash_ids": [1, 2], "session": 5})"),
      trace_reader(R"({"arrival_time_ns": 7, "input_toks": 2, "output_toks": 3,
                       "input_tok_ids": [1, 2], "user": "u"})"),
      {"replay.json",
       R"({"bench": "replay", "mode": "server", "all": {"requests": 30, "failed": 0,
           "slo_attained": 0.96, "ttft_ms": {"p50": 55.0, "p95": 60}}, "counters":
           {"switches": 0, "link_bytes": {"weights in": 5000000000}}})",
       read_replay,
       {},
       false},
  };
}

std::vector<std::string> leaves_of(const Json& document) {
  std::vector<std::string> leaves;
  const Json flat = document.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    const Json::json_pointer place(pointer);
    const bool in_vocabulary = document.contains("vocab") && place.parent_pointer().back() != "0";
    // Of a vocabulary's entries, which are alike, the first.
    if (!in_vocabulary || !pointer.starts_with("/vocab/")) leaves.push_back(pointer);
  }
  return leaves;
}

std::string replaced(Json document, const std::string& leaf, const std::string& number) {
  constexpr const char* kMark = "@replace@";
  document[Json::json_pointer(leaf)] = kMark;
  std::string text = document.dump();
  const std::string quoted = std::string("\"") + kMark + "\"";
  text.replace(text.find(quoted), quoted.size(), number);
  return text;
}

// Whether the message names what leads to the leaf: its key, or that of what holds it.
bool names_field(const std::string& message, const std::string& leaf) {
  Json::json_pointer place(leaf);
  for (int level = 0; level < 4 && !place.empty(); ++level) {
    const std::string key = place.back();
    const bool index = key.find_first_not_of("0123456789") == std::string::npos;
    if (!index && message.find(key) != std::string::npos) return true;
    place.pop_back();
  }
  return false;
}

void expect_named(const Reader& reader, const Status& status, const std::string& leaf,
                  const std::string& number) {
  if (status.ok()) return;
  const std::string& message = status.error().message;
  const std::string what = reader.file + leaf + " = " + number.substr(0, 24) + ": " + message;
  EXPECT_TRUE(names_field(message, leaf)) << what;
  const bool named = message.find(reader.file) != std::string::npos;
  EXPECT_TRUE(named || !reader.named) << what;
}

void try_all(const std::vector<Reader>& readers) {
  for (const Reader& reader : readers) {
    SCOPED_TRACE(reader.file);
    const Json document = Json::parse(reader.document, nullptr, false);
    ASSERT_FALSE(document.is_discarded());
    TemporaryDirectory folder;
    for (const auto& [name, content] : reader.beside) write(folder.path() / name, content);
    write(folder.path() / reader.file, document.dump());
    const Status plain = reader.read(folder.path());
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    const std::vector<std::string> leaves = leaves_of(document);
    ASSERT_FALSE(leaves.empty());
    for (const std::string& leaf : leaves) {
      for (const std::string& number : numbers()) {
        write(folder.path() / reader.file, replaced(document, leaf, number));
        expect_named(reader, reader.read(folder.path()), leaf, number);
      }
    }
  }
}

TEST(JsonFiles, OfModelsTakeAnyNumberInAnyField) { try_all(model_readers()); }
TEST(JsonFiles, OfMachinesTakeAnyNumberInAnyField) { try_all(machine_readers()); }
TEST(JsonFiles, OfWorkloadsTakeAnyNumberInAnyField) { try_all(workload_readers()); }

TEST(JsonFiles, FieldsThatAreNotReadMayHoldAnything) {
  for (std::vector<Reader> readers : {model_readers(), machine_readers(), workload_readers()}) {
    for (const Reader& reader : readers) {
      if (reader.file == "model.safetensors") continue;  // the format has no other fields
      TemporaryDirectory folder;
      for (const auto& [name, content] : reader.beside) write(folder.path() / name, content);
      for (const std::string& number : numbers()) {
        Json document = Json::parse(reader.document, nullptr, false);
        Json& object = document.is_array() ? document[0] : document;
        object["x_unknown"] = 0;
        write(folder.path() / reader.file,
              replaced(document, document.is_array() ? "/0/x_unknown" : "/x_unknown", number));
        const Status status = reader.read(folder.path());
        EXPECT_TRUE(status.ok()) << reader.file << ", " << number.substr(0, 24) << ": "
                                 << status.error().message;
      }
    }
  }
}

}  // namespace
}  // namespace causeway::json_files_test
