#include "model/random_model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"
#include "weights/safetensors_writer.h"

namespace causeway::model {
namespace {

using weights::SafetensorsWriter;
using weights::TensorSpec;

constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;
constexpr int kThreadsMax = 64;

// A tensor to make: value = (noise + centre) × scale, the noise being a whole number of standard
// deviation kNoiseDeviation, so that one multiplication is all that rounds.
struct RandomTensor {
  TensorSpec spec;
  std::int64_t elements = 0;
  std::uint64_t seed = 0;
  std::int32_t centre = 0;
  float scale = 1;
};

// The sum of four uniform 16-bit numbers less its mean: close to normal.
constexpr std::int32_t kNoiseMean = 2 * 65535;
constexpr double kNoiseDeviation = 37837.2;

std::int32_t noise(std::uint64_t bits) {
  return static_cast<std::int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) +
                                   (bits >> 48)) -
         kNoiseMean;
}

std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

// A half below 65504 in magnitude and above 2^-14 needs no special cases; smaller ones become 0.
std::uint16_t to_half(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude < 0x38800000u) return 0;
  const std::uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (rounded - 0x38000000u) >> 13);
}

template <typename Store>
void generate(const RandomTensor& tensor, std::int64_t first, std::int64_t count, Store store) {
  const std::uint64_t base = tensor.seed + static_cast<std::uint64_t>(first);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t whole = noise(mix64(base + static_cast<std::uint64_t>(i))) + tensor.centre;
    store(i, static_cast<float>(whole) * tensor.scale);
  }
}

void generate_chunk(const RandomTensor& tensor, std::int64_t first, std::int64_t count,
                    std::vector<std::byte>& out) {
  out.resize(static_cast<std::size_t>(count) * to_size(size_of(tensor.spec.dtype)));
  const auto put = [&](std::int64_t i, auto value) {
    std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof(value), &value, sizeof(value));
  };
  switch (tensor.spec.dtype) {
    case DType::kF32: return generate(tensor, first, count, put);
    case DType::kF16:
      return generate(tensor, first, count, [&](auto i, float v) { put(i, to_half(v)); });
    case DType::kBF16:
      return generate(tensor, first, count, [&](auto i, float v) { put(i, to_bfloat16(v).bits); });
  }
}

// How a tensor is drawn: what norms multiply by near 1; matrices so that each output has the
// variance of the inputs, those that add to the residual stream less; biases and embeddings small.
RandomTensor draw(const ModelConfig& config, const weights::PlannedTensor& planned,
                  const weights::SourceTensor& source, std::uint64_t seed) {
  const std::string& kind = planned.name;
  const bool norm = kind.ends_with("norm"), bias = kind.ends_with("_bias");
  const bool residual = kind == "o" || kind == "down" || kind == "experts_down";
  RandomTensor tensor;
  tensor.spec = {source.name, config.dtype, {source.rows_of_tensor(), source.cols}};
  tensor.elements = source.rows_of_tensor() * source.cols;
  if (norm || bias) tensor.spec.shape = {tensor.elements};
  double deviation = 1.0 / std::sqrt(static_cast<double>(source.cols));
  if (residual) deviation /= std::sqrt(2.0 * static_cast<double>(config.layers));
  if (bias) deviation = 0.02;
  if (norm) deviation = 0.1;
  tensor.scale = static_cast<float>(deviation / kNoiseDeviation);
  if (norm && !config.norm_offset)
    tensor.centre = static_cast<std::int32_t>(kNoiseDeviation / deviation);
  tensor.seed = mix64(seed ^ hash_name(source.name));
  return tensor;
}

std::vector<RandomTensor> list_tensors(const ModelConfig& config, std::uint64_t seed) {
  std::vector<RandomTensor> tensors;
  for (const auto& group : plan_weights(config, config.dtype).groups) {
    for (const auto& planned : group.tensors) {
      for (const auto& source : planned.sources) {
        if (source.first_row > 0) continue;  // another part of a tensor that is listed
        tensors.push_back(draw(config, planned, source, mix64(seed)));
      }
    }
  }
  return tensors;
}

// Tensors [begin, end) of the list in one file.
struct Shard {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string name;
  std::unique_ptr<SafetensorsWriter> writer;
};

Bytes bytes_of(const RandomTensor& tensor) { return size_of(tensor.spec.dtype) * tensor.elements; }

std::vector<Shard> cut_shards(const std::vector<RandomTensor>& tensors, Bytes bytes_max) {
  std::vector<Shard> shards;
  Bytes bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Bytes next = bytes_of(tensors[i]);
    if (shards.empty() || (bytes_max > Bytes(0) && bytes + next > bytes_max)) {
      shards.push_back({i, i, {}, nullptr});
      bytes = Bytes(0);
    }
    bytes += next;
    shards.back().end = i + 1;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", i + 1,
                  shards.size());
    shards[i].name = shards.size() == 1 ? "model.safetensors" : name.data();
  }
  return shards;
}

// Makes the tensors of one shard by several threads.
class ShardJob {
 public:
  ShardJob(const std::vector<RandomTensor>& tensors, const Shard& shard,
           const std::function<void(Bytes)>& progress)
      : tensors_(tensors), shard_(shard), progress_(progress) {
    for (std::size_t t = shard.begin; t < shard.end; ++t) {
      for (std::int64_t first = 0; first < tensors[t].elements; first += kChunkElements) {
        chunks_.push_back({t, first});
      }
    }
  }

  Status run(int threads) {
    std::vector<std::thread> helpers;
    try {
      for (int i = 1; i < threads; ++i) helpers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // Fewer threads only take longer.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (error_) return *error_;
    return {};
  }

 private:
  struct Chunk {
    std::size_t tensor;
    std::int64_t first;
  };

  void work() {
    std::vector<std::byte> buffer;
    while (!failed_.load(std::memory_order_relaxed)) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= chunks_.size()) return;
      const auto [t, first] = chunks_[index];
      const RandomTensor& tensor = tensors_[t];
      generate_chunk(tensor, first, std::min(kChunkElements, tensor.elements - first), buffer);
      const Status status =
          shard_.writer->write(t - shard_.begin, size_of(tensor.spec.dtype) * first, buffer);
      const std::lock_guard lock(mutex_);
      if (!status.ok()) {
        if (!error_) error_ = status.error();
        failed_.store(true);
      } else if (progress_) {
        progress_(Bytes(static_cast<std::int64_t>(buffer.size())));
      }
    }
  }

  const std::vector<RandomTensor>& tensors_;
  const Shard& shard_;
  const std::function<void(Bytes)>& progress_;
  std::vector<Chunk> chunks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards what follows, and serialises the callback
  std::optional<Error> error_;
};

Status write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return io_error("cannot write " + path.string(), errno);
  return {};
}

Status write_index(const std::vector<RandomTensor>& tensors, const std::vector<Shard>& shards,
                   Bytes total, const std::filesystem::path& directory) {
  nlohmann::json index = {{"metadata", {{"total_size", total.count}}}};
  for (const Shard& shard : shards) {
    for (std::size_t t = shard.begin; t < shard.end; ++t) {
      index["weight_map"][tensors[t].spec.name] = shard.name;
    }
  }
  return write_text(directory / "model.safetensors.index.json", index.dump(2) + "\n");
}

Status write_weights(const RandomModelOptions& options, const ModelConfig& config,
                     const std::filesystem::path& directory) {
  const std::vector<RandomTensor> tensors = list_tensors(config, options.seed);
  std::vector<Shard> shards = cut_shards(tensors, options.shard_bytes_max);
  const int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = std::clamp(options.threads > 0 ? options.threads : cpus, 1, kThreadsMax);
  Bytes total, done;
  for (const RandomTensor& tensor : tensors) total += bytes_of(tensor);
  std::function<void(Bytes)> progress;
  if (options.progress) progress = [&](Bytes more) { options.progress(done += more, total); };
  for (Shard& shard : shards) {
    std::vector<TensorSpec> specs;
    for (std::size_t t = shard.begin; t < shard.end; ++t) specs.push_back(tensors[t].spec);
    CAUSEWAY_ASSIGN(shard.writer, SafetensorsWriter::create(directory / shard.name, specs));
    CAUSEWAY_TRY(ShardJob(tensors, shard, progress).run(threads));
    CAUSEWAY_TRY(shard.writer->finish());
  }
  if (shards.size() == 1) return {};
  return write_index(tensors, shards, total, directory);
}

Status prepare_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return io_error("cannot create " + directory.string(), error.value());
  const bool empty = std::filesystem::is_empty(directory, error);
  if (error) return io_error(directory.string(), error.value());
  if (!empty) {
    return invalid_argument(directory.string() +
                            ": is not empty; name a folder that is empty, or is not there yet");
  }
  return {};
}

std::string generation_config(const ModelConfig& config) {
  nlohmann::ordered_json root = {{"bos_token_id", nullptr},
                                 {"eos_token_id", config.eos},
                                 {"pad_token_id", config.vocab - 1},
                                 {"do_sample", true}};
  if (config.bos) root["bos_token_id"] = *config.bos;
  return root.dump(2) + "\n";
}

// The config with the tokenizer's special tokens: begin_of_text; end_of_text, im_end, eot_id.
ModelConfig with_special_tokens(ModelConfig config, bool adds_bos) {
  const auto first = static_cast<TokenId>(config.vocab - kSpecialTokens);
  config.bos = adds_bos ? std::optional<TokenId>(first) : std::nullopt;
  config.eos = {first + 3, first + 1, first + 4};
  return config;
}

void add_gemma(const FamilyTraits& traits, ModelConfig& config) {
  config.norm_offset = config.output_norms = config.scaled_embedding = true;
  config.attention_cap = traits.attention_cap;
  config.logit_cap = traits.logit_cap;
  if (traits.local_rope_theta > 0) config.local_rope_theta = traits.local_rope_theta;
  config.sliding_window = 1024;
  config.global_layers.assign(static_cast<std::size_t>(traits.window_pattern), false);
  config.global_layers.back() = true;
}

void add_training_context(ModelConfig& config) {
  config.kv_heads = config.heads;
  config.logn_context = 2048;
  config.max_prompt = Tokens(2048);
}

}  // namespace

ModelConfig random_model_config(Family family) {
  const FamilyTraits& traits = traits_of(family);
  ModelConfig config;
  config.family = family;
  config.hidden = 256;
  config.intermediate = 704;
  config.layers = 4;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = 32;
  config.vocab = 4096;
  config.max_position = Tokens(4096);
  config.rope_theta = family == Family::kLlama ? 500'000 : 1'000'000;
  config.norm_epsilon = traits.adds_bos ? 1e-5 : 1e-6;
  config.qk_norm = traits.qk_norm;
  config.attention_bias = traits.attention_biases == AttentionBiases::kQkv;
  config.activation = traits.activation;
  config.tied_embeddings = traits.tied;
  if (traits.gemma_norms) add_gemma(traits, config);
  if (traits.logn) add_training_context(config);
  if (traits.experts_only) config.intermediate = 0;
  if (traits.experts) {
    MoeConfig moe;
    moe.experts = 8;
    moe.experts_per_token = 2;
    moe.intermediate = 192;
    config.moe = moe;
  }
  return config;
}

Status make_random_model(const RandomModelOptions& options,
                         const std::filesystem::path& directory) {
  if (options.config.vocab < kRandomVocabMin) {
    return invalid_argument("a random model needs a vocabulary of at least " +
                            std::to_string(kRandomVocabMin) + " tokens, not " +
                            std::to_string(options.config.vocab));
  }
  const bool adds_bos = traits_of(options.config.family).adds_bos;
  const std::string text = config_json(with_special_tokens(options.config, adds_bos));
  const auto config = parse_config(text);
  if (!config.ok()) return invalid_argument("no such model is possible: " + config.error().message);
  CAUSEWAY_TRY(prepare_directory(directory));
  CAUSEWAY_TRY(write_weights(options, *config, directory));
  CAUSEWAY_TRY(
      write_text(directory / "tokenizer.json", random_tokenizer_json(config->vocab, adds_bos)));
  CAUSEWAY_TRY(write_text(directory / "tokenizer_config.json",
                          random_tokenizer_config_json(*config, adds_bos)));
  CAUSEWAY_TRY(write_text(directory / "generation_config.json", generation_config(*config)));
  return write_text(directory / "config.json", text);
}

}  // namespace causeway::model
