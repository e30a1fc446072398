#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "base/testing/temporary_directory.h"
#include "base/testing/test_data.h"

namespace causeway::model::config_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json llama() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 172, "num_hidden_layers": 5, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 512, "torch_dtype": "float32"})");
}

json qwen3_moe() {
  json config = llama();
  config["architectures"] = {"Qwen3MoeForCausalLM"};
  config["num_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 24;
  return config;
}

json mixtral() {
  json config = llama();
  config["architectures"] = {"MixtralForCausalLM"};
  config["num_local_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  config["sliding_window"] = nullptr;
  return config;
}

json with(json config, const char* name, json value) {
  config[name] = std::move(value);
  return config;
}

json without(json config, const char* name) {
  config.erase(name);
  return config;
}

void expect_error(std::string_view text, ErrorCode code, const std::string& part) {
  const auto config = parse_config(text);
  ASSERT_FALSE(config.ok()) << text.substr(0, 300);
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_THAT(config.error().message, HasSubstr(part));
}

TEST(Config, DefaultsOfLlama) {
  const auto config = parse_config(llama().dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kLlama);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->max_position, Tokens(2048));
  EXPECT_EQ(config->norm_epsilon, 1e-6);
  EXPECT_EQ(config->dtype, DType::kF32);
  EXPECT_FALSE(config->tied_embeddings || config->qk_norm || config->attention_bias);
  EXPECT_FALSE(config->bos.has_value() || config->moe.has_value());
  EXPECT_EQ(parse_config(without(llama(), "num_key_value_heads").dump())->kv_heads, 8);
}

TEST(Config, SwitchesAreRead) {
  json text = llama();
  text["attention_bias"] = text["mlp_bias"] = text["tie_word_embeddings"] = true;
  text["bos_token_id"] = 1;
  text["eos_token_id"] = {2, 3, 2};
  text["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 77.0}};
  const auto config = parse_config(text.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->attention_bias && config->mlp_bias && config->tied_embeddings);
  EXPECT_EQ(config->bos, 1);
  EXPECT_THAT(config->eos, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(config->rope_theta, 77.0);
  EXPECT_FALSE(config->rope_scaling.has_value());
}

TEST(Config, SparseLayersFollowStepAndList) {
  json text = qwen3_moe();
  text["decoder_sparse_step"] = 2;
  text["mlp_only_layers"] = {3};
  const auto config = parse_config(text.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_FALSE(config->moe->normalise_top_k);
  for (int layer = 0; layer < 5; ++layer) EXPECT_EQ(config->is_sparse(layer), layer == 1) << layer;
  expect_error(without(text, "intermediate_size").dump(), ErrorCode::kCorrupt, "layer 0");
  EXPECT_TRUE(parse_config(without(qwen3_moe(), "intermediate_size").dump()).ok());
}

TEST(Config, ExpertsAreCountedUnderEitherName) {
  const json shared = without(with(qwen3_moe(), "num_local_experts", 6), "num_experts");
  const auto config = parse_config(shared.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->moe->experts, 6);
  EXPECT_EQ(parse_config(with(shared, "num_experts", 6).dump())->moe->experts, 6);
  expect_error(with(shared, "num_experts", 8).dump(), ErrorCode::kCorrupt, "num_local_experts");
  expect_error(with(shared, "num_local_experts", 0).dump(), ErrorCode::kCorrupt,
               "num_local_experts");
}

TEST(Config, MixtralHasExpertsOnly) {
  const auto config = parse_config(mixtral().dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kMixtral);
  EXPECT_EQ(config->moe->experts, 8);
  EXPECT_EQ(config->moe->intermediate, 172);
  EXPECT_EQ(config->intermediate, 0);
  EXPECT_TRUE(config->moe->normalise_top_k);
  EXPECT_FALSE(config->qk_norm || config->attention_bias);
  for (int layer = 0; layer < 5; ++layer) EXPECT_TRUE(config->is_sparse(layer));
  const auto same = parse_config(with(mixtral(), "norm_topk_prob", false).dump());
  EXPECT_TRUE(same->moe->normalise_top_k);  // the family has no such switch
  for (const char* name : {"num_local_experts", "num_experts_per_tok", "intermediate_size"}) {
    expect_error(without(mixtral(), name).dump(), ErrorCode::kCorrupt, name);
    expect_error(with(mixtral(), name, 0).dump(), ErrorCode::kCorrupt, name);
  }
  expect_error(with(mixtral(), "num_experts_per_tok", 9).dump(), ErrorCode::kCorrupt,
               "num_local_experts");
}

TEST(Config, Qwen2HasBiasesOfQueriesKeysAndValues) {
  const json qwen2 = with(llama(), "architectures", {"Qwen2ForCausalLM"});
  const auto config = parse_config(qwen2.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kQwen2);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_FALSE(config->output_bias || config->mlp_bias || config->qk_norm);
  EXPECT_EQ(config->max_position, Tokens(32768));
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config_json(*parse_config(config_json(*config))), config_json(*config));
  // A window that is not switched on, as published files have it, is none.
  json off = with(qwen2, "sliding_window", 16);
  off["use_sliding_window"] = false;
  EXPECT_EQ(parse_config(off.dump())->sliding_window, kNoWindow);
  expect_error(with(off, "use_sliding_window", true).dump(), ErrorCode::kUnsupported,
               "use_sliding_window");
}

TEST(Config, Phi3HasAWindow) {
  json phi3 = with(llama(), "architectures", {"Phi3ForCausalLM"});
  phi3["sliding_window"] = 2047;
  phi3["max_position_embeddings"] = 4096;
  const auto config = parse_config(phi3.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kPhi3);
  EXPECT_EQ(config->sliding_window, 2047);
  EXPECT_FALSE(config->attention_bias || config->output_bias || config->mlp_bias);
  EXPECT_EQ(parse_config(without(phi3, "sliding_window").dump())->sliding_window, kNoWindow);
}

TEST(Config, RopeMayRotateAPartOfAHead) {
  json phi3 = with(llama(), "architectures", {"Phi3ForCausalLM"});
  phi3["head_dim"] = 128;
  EXPECT_FALSE(parse_config(phi3.dump())->partly_rotated());
  EXPECT_FALSE(parse_config(with(phi3, "partial_rotary_factor", 1.0).dump())->partly_rotated());
  const auto config = parse_config(with(phi3, "partial_rotary_factor", 0.75).dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->rotary_dim, 96);
  EXPECT_TRUE(config->partly_rotated());
  // transformers 5 has it among the parameters of RoPE.
  const json inside =
      with(phi3, "rope_parameters",
           {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}});
  EXPECT_EQ(parse_config(inside.dump())->rotary_dim, 64);
  for (std::int64_t rotated = 2; rotated <= 128; rotated += 2) {
    ModelConfig written = *config;
    written.rotary_dim = rotated;
    EXPECT_EQ(parse_config(config_json(written))->rotated_dim(), rotated);
  }
  for (const json& bad : {json(0), json(0.001), json(0.03), json(1.5), json(-1), json("x")}) {
    expect_error(with(phi3, "partial_rotary_factor", bad).dump(), ErrorCode::kCorrupt,
                 "partial_rotary_factor");
  }
}

TEST(Config, MistralHasAWindow) {
  const json mistral = with(llama(), "architectures", {"MistralForCausalLM"});
  const auto window = [](const json& text) {
    const auto config = parse_config(text.dump());
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config.ok() ? config->sliding_window : -1;
  };
  EXPECT_EQ(parse_config(mistral.dump())->family, Family::kMistral);
  EXPECT_EQ(window(mistral), 4096);  // as its own code takes it
  EXPECT_EQ(window(with(mistral, "max_position_embeddings", 4096)), kNoWindow);
  EXPECT_EQ(window(with(mistral, "sliding_window", nullptr)), kNoWindow);
  EXPECT_EQ(window(with(mistral, "sliding_window", 512)), 512);
  EXPECT_EQ(window(with(mixtral(), "sliding_window", 512)), 512);
  EXPECT_EQ(window(without(mixtral(), "sliding_window")), kNoWindow);
  EXPECT_EQ(window(with(llama(), "sliding_window", 512)), kNoWindow);  // the family has none
  for (const json& bad : {json(0), json(-1), json("4096"), json(1.5)}) {
    expect_error(with(mistral, "sliding_window", bad).dump(), ErrorCode::kCorrupt,
                 "sliding_window");
  }
  const auto nemo = parse_config(with(mistral, "head_dim", 32).dump());
  EXPECT_EQ(nemo->head_dim, 32);  // of its own: 8 heads of a width of 64
  EXPECT_FALSE(parse_config(with(mistral, "attention_bias", true).dump())->attention_bias);
}

json qwen() {
  return json::parse(R"({"architectures": ["QWenLMHeadModel"], "bf16": false, "fp16": false,
    "hidden_size": 64, "intermediate_size": 344, "kv_channels": 8, "layer_norm_epsilon": 1e-06,
    "max_position_embeddings": 32768, "no_bias": true, "num_attention_heads": 8,
    "num_hidden_layers": 5, "rotary_emb_base": 20000, "rotary_pct": 1.0,
    "scale_attn_weights": true, "seq_length": 8192, "tokenizer_class": "QWenTokenizer",
    "use_cache": true, "use_dynamic_ntk": true, "use_flash_attn": "auto", "use_logn_attn": true,
    "vocab_size": 151936})");
}

TEST(Config, QwenHasNamesOfItsOwn) {
  const auto config = parse_config(qwen().dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kQwen);
  EXPECT_EQ(config->intermediate, 172);  // the file counts gate and up together
  EXPECT_EQ(config->kv_heads, 8);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->rope_theta, 20000);
  EXPECT_EQ(config->norm_epsilon, 1e-6);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_FALSE(config->output_bias || config->mlp_bias || config->tied_embeddings);
  const auto biases = parse_config(with(qwen(), "no_bias", false).dump());
  EXPECT_TRUE(biases->attention_bias && biases->output_bias && biases->mlp_bias);
  for (const auto& written : {*config, *biases}) {
    const json text = json::parse(config_json(written));
    EXPECT_EQ(text["intermediate_size"], 344);
    EXPECT_EQ(text["kv_channels"], 8);
    EXPECT_FALSE(text.contains("rope_theta") || text.contains("rms_norm_eps"));
    const auto again = parse_config(text.dump());
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(config_json(*again), config_json(written));
  }
  EXPECT_EQ(parse_config(with(qwen(), "rotary_pct", 0.5).dump())->rotated_dim(), 4);
  json sizes = qwen();  // of Qwen-7B
  sizes.update({{"hidden_size", 4096}, {"intermediate_size", 22016}, {"kv_channels", 128}});
  sizes.update({{"num_attention_heads", 32}, {"num_hidden_layers", 32}});
  EXPECT_EQ(parameter_count(*parse_config(sizes.dump())), 7'721'324'544);
  // Errors name the fields as the file does.
  expect_error(with(qwen(), "kv_channels", 7).dump(), ErrorCode::kCorrupt, "kv_channels");
  expect_error(with(qwen(), "rotary_emb_base", -1).dump(), ErrorCode::kCorrupt, "rotary_emb_base");
  expect_error(with(qwen(), "layer_norm_epsilon", 2).dump(), ErrorCode::kCorrupt,
               "layer_norm_epsilon");
  expect_error(with(qwen(), "intermediate_size", 345).dump(), ErrorCode::kCorrupt,
               "intermediate_size");
  expect_error(without(qwen(), "hidden_size").dump(), ErrorCode::kCorrupt, "hidden_size");
  expect_error(without(qwen(), "seq_length").dump(), ErrorCode::kCorrupt, "seq_length");
  expect_error(with(qwen(), "seq_length", 1).dump(), ErrorCode::kCorrupt, "seq_length");
}

TEST(Config, QwenBeyondTheContextOfItsTraining) {
  const auto config = parse_config(qwen().dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->max_position, Tokens(32768));
  EXPECT_EQ(config->logn_context, 8192);
  EXPECT_EQ(config->max_prompt, Tokens(8192));
  EXPECT_EQ(config->plain_context(), 8192);
  EXPECT_EQ(config->query_factor(0), 1);
  EXPECT_EQ(config->query_factor(8191), 1);
  EXPECT_GT(config->query_factor(8192), 1);
  EXPECT_FLOAT_EQ(config->query_factor(32767), 15.0f / 13);  // log 2^15 ÷ log 2^13
  const auto fixed = parse_config(with(qwen(), "use_dynamic_ntk", false).dump());
  EXPECT_EQ(fixed->max_prompt, Tokens(0));
  EXPECT_EQ(fixed->logn_context, 8192);
  const auto plain = parse_config(with(qwen(), "use_logn_attn", false).dump());
  EXPECT_EQ(plain->max_prompt, Tokens(8192));
  EXPECT_EQ(plain->plain_context(), kNoWindow);
  EXPECT_EQ(plain->query_factor(32767), 1);
  // Nothing is beyond where the context of training is the longest.
  const auto whole = parse_config(with(qwen(), "seq_length", 40000).dump());
  EXPECT_EQ(whole->max_position, Tokens(40000));
  EXPECT_EQ(whole->logn_context + whole->max_prompt.count, 0);
  for (const auto& written : {*config, *fixed, *plain, *whole}) {
    const auto again = parse_config(config_json(written));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->max_position, written.max_position);
    EXPECT_EQ(again->logn_context, written.logn_context);
    EXPECT_EQ(again->max_prompt, written.max_prompt);
  }
}

TEST(Config, QwenComputesNothingThatIsNotServed) {
  for (const char* name : {"apply_residual_connection_post_layernorm", "use_cache_quantization"}) {
    EXPECT_TRUE(parse_config(with(qwen(), name, false).dump()).ok());
    expect_error(with(qwen(), name, true).dump(), ErrorCode::kUnsupported, name);
  }
  expect_error(with(qwen(), "scale_attn_weights", false).dump(), ErrorCode::kUnsupported,
               "scale_attn_weights");
  expect_error(with(qwen(), "pos_emb", "learned").dump(), ErrorCode::kUnsupported, "pos_emb");
  expect_error(with(qwen(), "visual", json::object()).dump(), ErrorCode::kUnsupported, "visual");
}

json gemma(const char* architecture) {
  json config = with(llama(), "architectures", {architecture});
  config["sliding_window"] = 512;
  return config;
}

TEST(Config, Gemma2) {
  const json gemma2 = gemma("Gemma2ForCausalLM");
  const auto config = parse_config(gemma2.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kGemma2);
  EXPECT_EQ(config->head_dim, 256);
  EXPECT_TRUE(config->norm_offset && config->output_norms && config->scaled_embedding);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->qk_norm || config->local_rope_theta);
  EXPECT_EQ(config->activation, kernels::activation::Gate::kGeluTanh);
  EXPECT_EQ(config->attention_cap, 50);
  EXPECT_EQ(config->logit_cap, 30);
  EXPECT_EQ(config->query_scalar, 256);
  EXPECT_EQ(config->embedding_scale(), 8);
  for (int layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(config->window_of(layer), layer % 2 == 0 ? 512 : kNoWindow) << layer;
  }
  EXPECT_EQ(config_json(*parse_config(config_json(*config))), config_json(*config));
  EXPECT_TRUE(json::parse(config_json(*config))["query_pre_attn_scalar"].is_number_integer());
  const auto odd = parse_config(with(gemma2, "query_pre_attn_scalar", 24.5).dump());
  EXPECT_EQ(json::parse(config_json(*odd))["query_pre_attn_scalar"], 24.5);
  EXPECT_EQ(parse_config(with(gemma2, "attn_logit_softcapping", nullptr).dump())->attention_cap, 0);
  EXPECT_EQ(parse_config(with(gemma2, "final_logit_softcapping", 20).dump())->logit_cap, 20);
  EXPECT_FALSE(parse_config(with(gemma2, "tie_word_embeddings", false).dump())->tied_embeddings);
  expect_error(with(gemma2, "attn_logit_softcapping", -1).dump(), ErrorCode::kCorrupt,
               "attn_logit_softcapping");
  expect_error(with(gemma2, "query_pre_attn_scalar", 0).dump(), ErrorCode::kCorrupt,
               "query_pre_attn_scalar");
  expect_error(with(gemma2, "hidden_activation", "gelu").dump(), ErrorCode::kUnsupported, "gelu");
}

TEST(Config, EmbeddingsAreScaledAsTheTypeOfTheWeightsRounds) {
  json text = gemma("Gemma2ForCausalLM");
  text["hidden_size"] = 3072;
  EXPECT_FLOAT_EQ(parse_config(text.dump())->embedding_scale(), std::sqrt(3072.0f));
  EXPECT_EQ(parse_config(with(text, "torch_dtype", "bfloat16").dump())->embedding_scale(), 55.5f);
  EXPECT_EQ(parse_config(with(text, "torch_dtype", "float16").dump())->embedding_scale(), 55.4375f);
}

TEST(Config, Gemma3) {
  json gemma3 = gemma("Gemma3ForCausalLM");
  gemma3["num_hidden_layers"] = 14;
  const auto config = parse_config(gemma3.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kGemma3Text);
  EXPECT_TRUE(config->qk_norm && config->output_norms);
  EXPECT_EQ(config->rope_theta, 1e6);
  EXPECT_EQ(config->local_rope_theta, 10000);
  EXPECT_EQ(config->attention_cap + config->logit_cap, 0);
  for (int layer = 0; layer < 14; ++layer) {
    EXPECT_EQ(config->is_local(layer), layer != 5 && layer != 11) << layer;
  }
  EXPECT_EQ(config_json(*parse_config(config_json(*config))), config_json(*config));
  const auto third = parse_config(with(gemma3, "sliding_window_pattern", 3).dump());
  EXPECT_TRUE(!third->is_local(2) && third->is_local(3) && !third->is_local(5));
  // A window that no sequence reaches is none, but the layers keep their RoPE.
  const auto wide = parse_config(with(gemma3, "max_position_embeddings", 512).dump());
  EXPECT_EQ(wide->window_of(0), kNoWindow);
  EXPECT_TRUE(wide->is_local(0));
  json types = json::array();
  for (int layer = 0; layer < 14; ++layer) {
    types.push_back(layer == 1 ? "full_attention" : "sliding_attention");
  }
  const auto listed = parse_config(with(gemma3, "layer_types", types).dump());
  ASSERT_TRUE(listed.ok()) << listed.error().message;
  for (int layer = 0; layer < 14; ++layer) EXPECT_EQ(listed->is_local(layer), layer != 1) << layer;
  types.erase(0);
  expect_error(with(gemma3, "layer_types", types).dump(), ErrorCode::kCorrupt, "layer_types");
  types.push_back("chunked_attention");
  expect_error(with(gemma3, "layer_types", types).dump(), ErrorCode::kUnsupported, "layer_types");
  for (const json& bad : {json(0), json(-1), json("6"), json(1 << 20)}) {
    expect_error(with(gemma3, "sliding_window_pattern", bad).dump(), ErrorCode::kCorrupt,
                 "sliding_window_pattern");
  }
  expect_error(with(gemma3, "use_bidirectional_attention", true).dump(), ErrorCode::kUnsupported,
               "use_bidirectional_attention");
}

TEST(Config, Gemma3IsReadAmongItsOtherModels) {
  json text = gemma("Gemma3ForConditionalGeneration");
  const json outside = {{"architectures", text["architectures"]},
                        {"torch_dtype", "bfloat16"},
                        {"hidden_size", 1},
                        {"eos_token_id", {1, 106}},
                        {"vision_config", {{"hidden_size", 1152}}}};
  for (const char* name : {"architectures", "torch_dtype", "num_attention_heads",
                           "num_key_value_heads", "vocab_size"}) {
    text.erase(name);
  }
  const json whole = with(outside, "text_config", text);
  const auto config = parse_config(whole.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->family, Family::kGemma3);
  EXPECT_EQ(config->hidden, 64);
  EXPECT_EQ(config->heads, 8);
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->vocab, 262208);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_THAT(config->eos, ::testing::ElementsAre(1, 106));
  const auto again = parse_config(config_json(*config));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(config_json(*again), config_json(*config));
  const auto plan = plan_weights(*config, DType::kBF16);
  EXPECT_EQ(plan.groups[0].tensors[0].sources[0].name, "language_model.model.embed_tokens.weight");
  EXPECT_EQ(plan.groups[1].tensors[0].sources[0].name,
            "language_model.model.layers.0.input_layernorm.weight");
  expect_error(outside.dump(), ErrorCode::kCorrupt, "text_config");
  expect_error(with(outside, "text_config", 1).dump(), ErrorCode::kCorrupt, "text_config");
}

TEST(Config, BadFieldsAreNamed) {
  for (const char* name :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "vocab_size", "head_dim", "max_position_embeddings", "num_experts",
        "num_experts_per_tok", "moe_intermediate_size", "decoder_sparse_step"}) {
    for (const json& bad :
         {json(0), json(-1), json(1.5), json(1e300), json(1ull << 63), json(std::int64_t{1} << 62),
          json("64"), json(true), json(json::array()), json(json::object())}) {
      expect_error(with(qwen3_moe(), name, bad).dump(), ErrorCode::kCorrupt, name);
    }
  }
  for (const char* name : {"rope_theta", "rms_norm_eps"}) {
    for (const json& bad : {json(-1), json("x"), json(1e300), json(json::array())}) {
      expect_error(with(llama(), name, bad).dump(), ErrorCode::kCorrupt, name);
    }
  }
  expect_error(with(llama(), "tie_word_embeddings", 1).dump(), ErrorCode::kCorrupt, "tie_word");
  expect_error(with(llama(), "eos_token_id", 512).dump(), ErrorCode::kCorrupt, "eos_token_id");
  expect_error(with(llama(), "eos_token_id", {1, "a"}).dump(), ErrorCode::kCorrupt, "eos_token");
  expect_error(with(llama(), "bos_token_id", -1).dump(), ErrorCode::kCorrupt, "bos_token_id");
  expect_error(with(qwen3_moe(), "mlp_only_layers", {9}).dump(), ErrorCode::kCorrupt, "mlp_only");
}

// The text of a configuration with one more member, which may be no JSON to a strict parser.
std::string with_text(const json& config, const std::string& name, const std::string& value) {
  json without = config;
  without.erase(name);
  std::string text = without.dump();
  text.insert(1, "\"" + name + "\": " + value + ", ");
  return text;
}

std::string zeros(std::size_t count) { return "1" + std::string(count, '0'); }

TEST(Config, NumbersOfPythonAreReadWhereTheyAreNotUsed) {
  for (const std::string& value :
       {zeros(30), "-" + zeros(30), zeros(400), std::string("1e999"), std::string("-1e999"),
        std::string("NaN"), std::string("Infinity"), std::string("[-Infinity, {\"a\": NaN}]"),
        std::string("18446744073709551616"), std::string("-0")}) {
    EXPECT_TRUE(parse_config(with_text(llama(), "unused", value)).ok()) << value;
  }
}

TEST(Config, NumbersOfPythonAreNamedWhereTheyCannotBeUsed) {
  for (const char* name : {"hidden_size", "vocab_size", "max_position_embeddings", "head_dim"}) {
    for (const std::string& value :
         {zeros(30), "-" + zeros(30), zeros(400), std::string("1e999"), std::string("NaN"),
          std::string("-Infinity"), std::string("-0"), std::string("64.0"),
          std::string("9223372036854775808"), std::string("18446744073709551616")}) {
      expect_error(with_text(llama(), name, value), ErrorCode::kCorrupt, name);
    }
  }
  for (const char* name : {"rope_theta", "rms_norm_eps"}) {
    for (const char* value : {"1e999", "NaN", "-Infinity", "18446744073709551616"}) {
      expect_error(with_text(llama(), name, value), ErrorCode::kCorrupt, name);
    }
  }
  expect_error(with_text(llama(), "eos_token_id", "2.0"), ErrorCode::kCorrupt, "eos_token_id");
  expect_error(with_text(llama(), "eos_token_id", "NaN"), ErrorCode::kCorrupt, "not NaN");
  expect_error(with_text(llama(), "hidden_size", zeros(400)), ErrorCode::kCorrupt, "not Infinity");
  const auto zero = parse_config(with_text(llama(), "eos_token_id", "-0"));
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ(zero->eos, std::vector<TokenId>{0});
  EXPECT_EQ(parse_config(with_text(llama(), "rope_theta", "5e5"))->rope_theta, 500000);
}

TEST(Config, MissingFieldsAreNamed) {
  for (const char* name : {"hidden_size", "intermediate_size", "num_hidden_layers",
                           "num_attention_heads", "vocab_size", "architectures"}) {
    expect_error(without(llama(), name).dump(), ErrorCode::kCorrupt, name);
  }
  for (const char* name : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    expect_error(without(qwen3_moe(), name).dump(), ErrorCode::kCorrupt, name);
  }
}

TEST(Config, RelationsAreChecked) {
  const auto bad = ErrorCode::kCorrupt;
  expect_error(with(llama(), "num_key_value_heads", 3).dump(), bad, "num_attention_heads");
  expect_error(with(llama(), "num_key_value_heads", 16).dump(), bad, "num_attention_heads");
  expect_error(with(llama(), "hidden_size", 65).dump(), bad, "hidden_size");
  expect_error(with(llama(), "head_dim", 7).dump(), bad, "head_dim");
  expect_error(with(qwen3_moe(), "num_experts_per_tok", 9).dump(), bad, "num_experts_per_tok");
  json huge = llama();
  huge["num_hidden_layers"] = 4096;
  huge["hidden_size"] = huge["intermediate_size"] = 1 << 20;
  expect_error(huge.dump(), bad, "2^46");
  json many = qwen3_moe();
  many["num_hidden_layers"] = 4096;
  many["num_experts"] = 16384;
  expect_error(many.dump(), bad, "num_experts");
}

TEST(Config, WhatIsNotServedIsNamed) {
  const auto code = ErrorCode::kUnsupported;
  expect_error(with(llama(), "architectures", {"GPT2LMHeadModel"}).dump(), code, "GPT2LMHeadModel");
  expect_error(with(llama(), "hidden_act", "gelu").dump(), code, "gelu");
  expect_error(with(llama(), "torch_dtype", "float8_e4m3fn").dump(), code, "float8_e4m3fn");
  expect_error(with(llama(), "rope_scaling", {{"rope_type", "dynamic"}}).dump(), code, "dynamic");
  expect_error(with(llama(), "quantization_config", {{"bits", 4}}).dump(), code, "quantization");
  expect_error(with(qwen3_moe(), "use_sliding_window", true).dump(), code, "sliding");
  expect_error(with(llama(), "layer_types", {"sliding_attention"}).dump(), code, "layer_types");
}

TEST(Config, HostileTextIsRefused) {
  const auto bad = ErrorCode::kCorrupt;
  expect_error("", bad, "not valid JSON");
  expect_error("[]", bad, "not a JSON object");
  expect_error(llama().dump() + std::string("\0{", 2), bad, "not valid JSON at byte");
  expect_error("{\"architectures\": [\"LlamaForCausalLM\"]", bad, "not valid JSON");
  expect_error("{\"hidden_size\": 1e999e}", bad, "not valid JSON");
  expect_error("{\"a\": \"\xff\xfe\"}", bad, "not valid JSON");
  expect_error(std::string(100'000, '['), bad, "nested deeper");
  std::string deep = llama().dump();
  deep.pop_back();
  std::string nest;
  for (int i = 0; i < 100'000; ++i) nest += "{\"a\":";
  expect_error(deep + ",\"rope_scaling\":" + nest, bad, "nested deeper");
  expect_error(with(llama(), "architectures", {1}).dump(), bad, "architectures");
  expect_error(with(llama(), "rope_scaling", "x").dump(), bad, "rope_scaling");
  expect_error(with(llama(), "rope_scaling", {{"rope_type", "llama3"}, {"factor", -8}}).dump(), bad,
               "rope_scaling.factor");
}

TEST(Config, LoadsAndAddsTheEosOfGeneration) {
  const TemporaryDirectory temporary;
  const std::filesystem::path& directory = temporary.path();
  EXPECT_EQ(load_config(directory).error().code, ErrorCode::kNotFound);
  std::ofstream(directory / "config.json") << with(llama(), "eos_token_id", 7).dump();
  EXPECT_THAT(load_config(directory)->eos, ::testing::ElementsAre(7));
  std::ofstream(directory / "generation_config.json") << R"({"eos_token_id": [7, 9]})";
  EXPECT_THAT(load_config(directory)->eos, ::testing::ElementsAre(7, 9));
  std::ofstream(directory / "generation_config.json") << "[";
  const auto broken = load_config(directory);
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().message, HasSubstr("generation_config.json"));
  std::ofstream(directory / "config.json") << "{";
  EXPECT_THAT(load_config(directory).error().message, HasSubstr("config.json"));
}

TEST(Config, HostTypeIsExact) {
  EXPECT_EQ(host_dtype(DType::kF16), DType::kF32);
  EXPECT_EQ(host_dtype(DType::kF32), DType::kF32);
  EXPECT_EQ(host_dtype(DType::kBF16), DType::kBF16);
}

TEST(Config, RealConfigs) {
  CAUSEWAY_TEST_DATA_OR_SKIP(folder, "configs");
  const std::map<std::string, std::int64_t> parameters = {{"Llama-3.1-8B", 8'030'261'248},
                                                          {"Llama-3.1-70B", 70'553'706'496},
                                                          {"Llama-3.2-1B-Instruct", 1'235'814'400},
                                                          {"Llama-3.2-3B-Instruct", 3'212'749'824},
                                                          {"Mixtral-8x7B-v0.1", 46'702'792'704},
                                                          {"Qwen-7B-v1.two-layer", 79'104'768},
                                                          {"Qwen2.5-7B-Instruct", 7'615'616'512},
                                                          {"Qwen2.5-32B-Instruct", 32'763'876'352},
                                                          {"Qwen3-0.6B", 596'049'920},
                                                          {"Qwen3-4B", 4'022'468'096},
                                                          {"Qwen3-8B", 8'190'735'360},
                                                          {"Qwen3-32B", 32'762'123'264},
                                                          {"Qwen3-30B-A3B", 30'532'122'624}};
  int served = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const std::string text = read_bytes(entry.path());
    const auto config = parse_config(text);
    const auto known = parameters.find(entry.path().stem().string());
    if (known == parameters.end()) {
      ASSERT_FALSE(config.ok()) << entry.path();
      EXPECT_EQ(config.error().code, ErrorCode::kUnsupported);
      EXPECT_THAT(config.error().message,
                  HasSubstr(json::parse(text)["architectures"][0].get<std::string>()));
      continue;
    }
    ASSERT_TRUE(config.ok()) << entry.path() << ": " << config.error().message;
    EXPECT_EQ(parameter_count(*config), known->second) << entry.path();
    EXPECT_EQ(config->dtype, DType::kBF16);
    ++served;
  }
  EXPECT_EQ(served, static_cast<int>(parameters.size()));
}

TEST(Config, RealConfigsInDetail) {
  CAUSEWAY_TEST_DATA_OR_SKIP(folder, "configs");
  const auto llama3 = *parse_config(read_bytes(*folder / "Llama-3.2-3B-Instruct.json"));
  EXPECT_EQ(llama3.rope_scaling->factor, 32);
  EXPECT_EQ(llama3.rope_scaling->original_max_position, 8192);
  EXPECT_THAT(llama3.eos, ::testing::ElementsAre(128001, 128008, 128009));
  const auto qwen = *parse_config(read_bytes(*folder / "Qwen3-8B.json"));
  EXPECT_EQ(qwen.head_dim, 128);
  EXPECT_TRUE(qwen.qk_norm);
  EXPECT_EQ(qwen.rope_theta, 1e6);
  // With the names of the first files.
  const auto qwen1 = *parse_config(read_bytes(*folder / "Qwen-7B-v1.two-layer.json"));
  EXPECT_EQ(qwen1.family, Family::kQwen);
  EXPECT_EQ(qwen1.intermediate, 512);
  EXPECT_EQ(qwen1.max_position, Tokens(6144));
  EXPECT_EQ(qwen1.max_prompt, Tokens(2048));
  EXPECT_THAT(qwen1.eos, ::testing::ElementsAre(151643));
  const auto moe = *parse_config(read_bytes(*folder / "Qwen3-30B-A3B.json"));
  EXPECT_EQ(moe.moe->experts, 128);
  EXPECT_TRUE(moe.moe->normalise_top_k);
  EXPECT_TRUE(moe.is_sparse(0) && moe.is_sparse(47));
}

}  // namespace
}  // namespace causeway::model::config_test
