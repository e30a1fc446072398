#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "model/config_fields.h"
#include "model/read_layers.h"
#include "model/read_rope.h"
#include "weights/checked_json.h"

namespace causeway::model {
namespace {

using nlohmann::json;

// Far beyond any model in use; small enough that sizes in bytes stay within 64 bits and a load plan
// within memory, whatever the file says.
constexpr std::int64_t kWidthMax = std::int64_t{1} << 20;
constexpr std::int64_t kLayersMax = 4096;
constexpr std::int64_t kHeadsMax = 1 << 16;
constexpr std::int64_t kVocabMax = 1 << 24;
constexpr std::int64_t kExpertsMax = 1 << 14;
constexpr std::int64_t kExpertsInAllMax = 1 << 18;
constexpr std::int64_t kParametersMax = std::int64_t{1} << 46;
constexpr std::size_t kEosMax = 64;
constexpr Bytes kConfigBytesMax = mib(4);

Result<Family> parse_family(const json& root) {
  const auto found = root.find("architectures");
  if (found == root.end() || !found->is_array() || found->empty() || !(*found)[0].is_string()) {
    return corrupt("\"architectures\" must be a list with the name of the model's class");
  }
  const std::string name = (*found)[0].get<std::string>().substr(0, 100);
  if (const FamilyTraits* traits = find_architecture(name)) return traits->family;
  std::string served;
  for (const FamilyTraits& traits : families()) {
    served += (served.empty() ? "" : ", ") + std::string(traits.architecture);
  }
  return unsupported("architecture " + name + " is not served; served are: " + served);
}

// The width of gate or up alone.
std::int64_t read_intermediate(Fields& fields, const FamilyTraits& traits) {
  const char* const name = "intermediate_size";
  if (!traits.counts_gate_and_up) return fields.integer(name, kWidthMax);
  const std::int64_t both = fields.integer(name, 2 * kWidthMax, {}, 2);
  if (both % 2 != 0) fields.fail(name, "must be even: it counts gate and up together");
  return both / 2;
}

void read_shape(Fields& fields, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  config.hidden = fields.integer("hidden_size", kWidthMax);
  config.layers = fields.integer("num_hidden_layers", kLayersMax);
  const auto absent = [](std::int64_t value) {
    return value > 0 ? std::optional(value) : std::nullopt;
  };
  config.heads = fields.integer("num_attention_heads", kHeadsMax, absent(traits.heads));
  config.kv_heads = fields.integer("num_key_value_heads", kHeadsMax,
                                   traits.kv_heads > 0 ? traits.kv_heads : config.heads);
  config.vocab = fields.integer("vocab_size", kVocabMax, absent(traits.vocab));
  const bool dense_layers = !traits.experts_only;
  if (dense_layers && (!traits.experts || fields.find("intermediate_size") != nullptr)) {
    config.intermediate = read_intermediate(fields, traits);
  }
  // Published files leave it out where the family has one width of heads.
  std::optional<std::int64_t> head_dim_absent;
  if (traits.head_dim > 0) {
    head_dim_absent = traits.head_dim;
  } else if (config.hidden % config.heads == 0) {
    head_dim_absent = config.hidden / config.heads;
  } else if (fields.find("head_dim") == nullptr) {
    fields.fail("hidden_size", "is not a multiple of \"num_attention_heads\"");
  }
  config.head_dim = fields.integer("head_dim", kWidthMax, head_dim_absent);
  if (config.heads % config.kv_heads != 0) {
    fields.fail("num_attention_heads", "is not a multiple of \"num_key_value_heads\"");
  }
  if (config.head_dim % 2 != 0) fields.fail("head_dim", "must be even");
  config.max_position =
      Tokens(fields.integer("max_position_embeddings", kPositionsMax, traits.max_position));
}

void read_numerics(Fields& fields, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  config.norm_epsilon = fields.real("rms_norm_eps", traits.norm_epsilon, 0, 1);
  read_rope(fields, config);
  const std::string dtype = fields.string("torch_dtype", fields.string("dtype", traits.dtype));
  if (dtype == "bfloat16") {
    config.dtype = DType::kBF16;
  } else if (dtype == "float16") {
    config.dtype = DType::kF16;
  } else if (dtype == "float32") {
    config.dtype = DType::kF32;
  } else {
    fields.refuse("torch_dtype",
                  "is \"" + dtype.substr(0, 40) + "\"; bfloat16, float16 and float32 are served");
  }
}

void read_switches(Fields& fields, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  config.tied_embeddings = fields.boolean("tie_word_embeddings", traits.tied);
  config.qk_norm = traits.qk_norm;
  config.output_bias = traits.attention_biases == AttentionBiases::kConfigured &&
                       fields.boolean("attention_bias", false);
  config.attention_bias = config.output_bias || traits.attention_biases == AttentionBiases::kQkv;
  config.mlp_bias = traits.mlp_biases && fields.boolean("mlp_bias", false);
  if (traits.no_bias) config.output_bias = config.mlp_bias = !fields.boolean("no_bias", true);
  if (fields.find("quantization_config") != nullptr) {
    fields.refuse("quantization_config", "is set; quantised checkpoints are not served");
  }
}

void read_dense_layers(Fields& fields, std::int64_t layers, std::vector<std::int64_t>& out) {
  const json* list = fields.find("mlp_only_layers");
  if (list == nullptr) return;
  if (!list->is_array() || list->size() > static_cast<std::size_t>(layers)) {
    return fields.fail("mlp_only_layers", "must be a list of layers");
  }
  for (const json& layer : *list) {
    out.push_back(fields.integer_value(layer, "mlp_only_layers", 0, layers - 1));
  }
}

// transformers 5 saves it under the name that its families share; files published before have
// "num_experts" where the family does.
std::int64_t read_experts(Fields& fields, const char* name) {
  constexpr const char* kShared = "num_local_experts";
  if (fields.find(kShared) == nullptr) return fields.integer(name, kExpertsMax);
  const std::int64_t experts = fields.integer(kShared, kExpertsMax);
  if (fields.integer("num_experts", kExpertsMax, experts) != experts) {
    fields.fail("num_experts",
                "is another number than \"num_local_experts\"; one of them is wrong");
  }
  return experts;
}

void read_moe(Fields& fields, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  const ExpertNames& names = *traits.experts;
  MoeConfig moe;
  moe.experts = read_experts(fields, names.count);
  moe.experts_per_token = fields.integer("num_experts_per_tok", kExpertsMax);
  moe.intermediate = fields.integer(names.intermediate, kWidthMax);
  if (!traits.experts_only) {
    moe.normalise_top_k = fields.boolean("norm_topk_prob", false);
    moe.sparse_step = fields.integer("decoder_sparse_step", kLayersMax, 1);
    read_dense_layers(fields, config.layers, moe.dense_layers);
  }
  if (moe.experts_per_token > moe.experts) {
    fields.fail("num_experts_per_tok", "is larger than \"" + std::string(names.count) + "\"");
  }
  if (moe.experts * config.layers > kExpertsInAllMax) {
    fields.fail(names.count,
                "times \"num_hidden_layers\" is larger than " + std::to_string(kExpertsInAllMax));
  }
  config.moe = std::move(moe);
  for (std::int64_t layer = 0; layer < config.layers && config.intermediate == 0; ++layer) {
    if (!config.is_sparse(layer)) {
      fields.fail("intermediate_size",
                  "is missing, but layer " + std::to_string(layer) + " has a dense MLP");
      return;
    }
  }
}

// Appends the ids of a number or a list of numbers that are not in `out` yet.
void read_token_ids(Fields& fields, const char* name, std::int64_t vocab,
                    std::vector<TokenId>& out) {
  const json* value = fields.find(name);
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kEosMax) return fields.fail(name, "lists too many tokens");
  for (const json& id : list) {
    const auto token = static_cast<TokenId>(fields.integer_value(id, name, 0, vocab - 1));
    if (std::find(out.begin(), out.end(), token) == out.end()) out.push_back(token);
  }
}

void read_special_tokens(Fields& fields, ModelConfig& config) {
  std::vector<TokenId> bos;
  read_token_ids(fields, "bos_token_id", config.vocab, bos);
  if (!bos.empty()) config.bos = bos.front();
  read_token_ids(fields, "eos_token_id", config.vocab, config.eos);
}

// Generation ends at any token of this list too: chat models keep the fuller list here.
Status add_generation_eos(const std::filesystem::path& path, ModelConfig& config) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(path, kConfigBytesMax));
  auto root = weights::parse_json(text);
  if (!root.ok()) return root.error().with_context(path.string());
  if (!root->is_object()) return corrupt(path.string() + ": not a JSON object");
  Fields fields(*root, "");
  read_token_ids(fields, "eos_token_id", config.vocab, config.eos);
  return fields.status().with_context(path.string());
}

}  // namespace

bool ModelConfig::is_sparse(std::int64_t layer) const {
  if (!moe || (layer + 1) % moe->sparse_step != 0) return false;
  return std::find(moe->dense_layers.begin(), moe->dense_layers.end(), layer) ==
         moe->dense_layers.end();
}

namespace {

// The members of `nested` instead of those beside it that have the same names.
Status unfold(const char* nested, json& root) {
  const auto found = root.find(nested);
  if (found == root.end() || !found->is_object()) {
    return corrupt("\"" + std::string(nested) + "\" must be an object");
  }
  const json text = std::move(*found);
  root.erase(nested);
  root.update(text);
  return {};
}

}  // namespace

float ModelConfig::query_factor(std::int64_t position) const {
  if (logn_context == 0 || position < logn_context) return 1;
  return static_cast<float>(std::log(static_cast<double>(position + 1)) /
                            std::log(static_cast<double>(logn_context)));
}

float ModelConfig::embedding_scale() const {
  if (!scaled_embedding) return 1;
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(hidden)));
  // Significant bits, to nearest even.
  const int bits = dtype == DType::kF32 ? 24 : dtype == DType::kF16 ? 11 : 8;
  int exponent = 0;
  const float mantissa = std::frexp(root, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

Result<ModelConfig> parse_config(std::string_view text) {
  CAUSEWAY_ASSIGN(json root, weights::parse_json(text));
  if (!root.is_object()) return corrupt("not a JSON object");
  ModelConfig config;
  CAUSEWAY_ASSIGN(config.family, parse_family(root));
  if (const char* nested = traits_of(config.family).nested) CAUSEWAY_TRY(unfold(nested, root));
  Fields fields(root, "", traits_of(config.family).field_names);
  read_shape(fields, config);
  read_numerics(fields, config);
  read_switches(fields, config);
  read_layers(fields, root, config);
  CAUSEWAY_TRY(fields.status());
  if (traits_of(config.family).experts) read_moe(fields, config);
  read_special_tokens(fields, config);
  CAUSEWAY_TRY(fields.status());
  if (parameter_count(config) > kParametersMax) {
    return corrupt("describes a model of more than 2^46 parameters");
  }
  return config;
}

Result<ModelConfig> load_config(const std::filesystem::path& directory) {
  const auto path = directory / "config.json";
  CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(path, kConfigBytesMax));
  CAUSEWAY_ASSIGN(ModelConfig config, parse_config(text).with_context(path.string()));
  CAUSEWAY_TRY(add_generation_eos(directory / "generation_config.json", config));
  return config;
}

DType host_dtype(DType checkpoint) { return checkpoint == DType::kF16 ? DType::kF32 : checkpoint; }

}  // namespace causeway::model
