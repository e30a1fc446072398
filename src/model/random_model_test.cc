#include "model/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>

#include "base/testing/rounds.h"
#include "base/testing/temporary_directory.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/model_pool.h"
#include "weights/testing/checkpoints.h"

namespace causeway::model::random_model_test {
namespace {

using ::testing::HasSubstr;
using weights::testing::read_file;

std::vector<std::pair<Family, bool>> all_families() {
  std::vector<std::pair<Family, bool>> all;
  for (const FamilyTraits& traits : families()) all.emplace_back(traits.family, traits.adds_bos);
  return all;
}

// Small enough to make hundreds of.
RandomModelOptions tiny(Family family) {
  RandomModelOptions options;
  options.config = random_model_config(family);
  options.config.hidden = 48;
  options.config.intermediate = 80;
  options.config.layers = 3;
  options.config.heads = 6;
  options.config.kv_heads = 2;
  options.config.head_dim = 8;
  options.config.vocab = 640;
  if (options.config.moe) options.config.moe->intermediate = 24;
  return options;
}

void expect_made(const RandomModelOptions& options, const std::filesystem::path& directory) {
  const Status status = make_random_model(options, directory);
  ASSERT_TRUE(status.ok()) << status.error().message;
}

TEST(RandomModel, EveryFamilyTypeAndTyingLoads) {
  device::HostMemory memory;
  const RealClock clock;
  for (const auto& [family, adds_bos] : all_families()) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const bool tied : {false, true}) {
        if (kSanitized && tied != (dtype == DType::kBF16)) continue;
        const TemporaryDirectory directory;
        RandomModelOptions options = tiny(family);
        options.config.dtype = dtype;
        options.config.tied_embeddings = tied;
        options.config.attention_bias = tied;
        options.config.rotary_dim = tied ? 4 : 0;
        expect_made(options, directory.path());
        const auto config = load_config(directory.path());
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_EQ(config->dtype, dtype);
        EXPECT_EQ(config->tied_embeddings, tied);
        EXPECT_EQ(config->family, family);
        EXPECT_EQ(config->bos.has_value(), adds_bos);
        EXPECT_EQ(config->eos.size(), 3u);
        weights::ModelPool pool(memory, clock, mib(64));
        const auto plan = plan_weights(*config, host_dtype(dtype));
        const auto layout = weights::lay_out(plan);
        ASSERT_TRUE(layout.ok()) << layout.error().message;
        const Status loaded = pool.load(ModelId(0), {directory.path(), plan, *layout}, {});
        ASSERT_TRUE(loaded.ok()) << loaded.error().message;
      }
    }
  }
}

TEST(RandomModel, ConfigJsonIsReadBack) {
  ModelConfig config = random_model_config(Family::kLlama);
  config.rope_scaling = RopeScaling{
      .type = RopeType::kLlama3, .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4};
  config.mlp_bias = true;
  config.norm_epsilon = 1e-5 / 3;
  config.eos = {1, 2};
  const auto again = parse_config(config_json(config));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(config_json(*again), config_json(config));
  EXPECT_EQ(again->norm_epsilon, config.norm_epsilon);
  EXPECT_EQ(again->rope_scaling->factor, 32);
  config = random_model_config(Family::kMistral);
  config.sliding_window = 77;
  EXPECT_EQ(parse_config(config_json(config))->sliding_window, 77);
  config = random_model_config(Family::kQwen);
  config.max_position = Tokens(1000);  // less than what it was trained on: nothing is beyond
  EXPECT_EQ(parse_config(config_json(config))->plain_context(), kNoWindow);
  EXPECT_EQ(parse_config(config_json(config))->max_position, Tokens(1000));
  config = random_model_config(Family::kMixtral);
  EXPECT_EQ(config_json(*parse_config(config_json(config))), config_json(config));
  config = random_model_config(Family::kQwen3Moe);
  config.moe->dense_layers = {1};
  config.moe->normalise_top_k = false;
  const auto moe = parse_config(config_json(config));
  ASSERT_TRUE(moe.ok()) << moe.error().message;
  EXPECT_EQ(config_json(*moe), config_json(config));
  EXPECT_FALSE(moe->is_sparse(1) || moe->moe->normalise_top_k);
}

TEST(RandomModel, SameSeedSameBytesWhateverTheThreads) {
  const TemporaryDirectory root;
  RandomModelOptions options = tiny(Family::kLlama);
  options.config.vocab = 30'000;  // more than one chunk
  options.threads = 1;
  expect_made(options, root.path() / "a");
  options.threads = 3;
  expect_made(options, root.path() / "b");
  options.seed = 2;
  expect_made(options, root.path() / "c");
  const auto bytes = [&](const char* name) {
    return read_file(root.path() / name / "model.safetensors");
  };
  EXPECT_EQ(bytes("a"), bytes("b"));
  EXPECT_NE(bytes("a"), bytes("c"));
  EXPECT_EQ(read_file(root.path() / "a" / "tokenizer.json"),
            read_file(root.path() / "b" / "tokenizer.json"));
}

// Fixed for ever: another machine or compiler must make the same weights.
TEST(RandomModel, FirstBytesAreKnown) {
  const TemporaryDirectory directory;
  RandomModelOptions options = tiny(Family::kLlama);
  options.config.dtype = DType::kF32;
  expect_made(options, directory.path());
  const auto file = weights::SafetensorsFile::open(directory.path() / "model.safetensors");
  ASSERT_TRUE(file.ok());
  float first[2] = {};
  ASSERT_TRUE(
      file->file.read(file->tensors[0].offset, std::as_writable_bytes(std::span(first))).ok());
  EXPECT_EQ(file->tensors[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(first[0], 0x1.34080e0000000p-3f);
  EXPECT_EQ(first[1], -0x1.8bda120000000p-3f);
}

TEST(RandomModel, ShardsHoldTheSameTensors) {
  const TemporaryDirectory root;
  RandomModelOptions options = tiny(Family::kQwen3Moe);
  expect_made(options, root.path() / "whole");
  options.shard_bytes_max = kib(64);
  expect_made(options, root.path() / "shards");
  const auto whole = weights::Checkpoint::open(root.path() / "whole");
  const auto shards = weights::Checkpoint::open(root.path() / "shards");
  ASSERT_TRUE(whole.ok() && shards.ok());
  EXPECT_GT(shards->files().size(), 3u);
  for (const auto& info : whole->files()[0].tensors) {
    const auto* found = shards->find(info.name);
    ASSERT_NE(found, nullptr) << info.name;
    std::string a(to_size(info.bytes), '\0'), b(to_size(found->info->bytes), '\0');
    const auto& file = shards->files()[found->file].file;
    ASSERT_TRUE(
        whole->files()[0].file.read(info.offset, std::as_writable_bytes(std::span(a))).ok());
    ASSERT_TRUE(file.read(found->info->offset, std::as_writable_bytes(std::span(b))).ok());
    EXPECT_EQ(a, b) << info.name;
  }
}

TEST(RandomModel, WeightsAreScaledByTheirPurpose) {
  const TemporaryDirectory directory;
  RandomModelOptions options = tiny(Family::kLlama);
  options.config.dtype = DType::kF32;
  options.config.intermediate = 500;
  expect_made(options, directory.path());
  const auto file = weights::SafetensorsFile::open(directory.path() / "model.safetensors");
  ASSERT_TRUE(file.ok());
  for (const auto& info : file->tensors) {
    std::vector<float> values(to_size(info.bytes) / sizeof(float));
    ASSERT_TRUE(file->file.read(info.offset, std::as_writable_bytes(std::span(values))).ok());
    double sum = 0, squares = 0;
    for (const float value : values) sum += value;
    const double count = static_cast<double>(values.size()), mean = sum / count;
    for (const float value : values) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / count);
    if (info.shape.size() == 1) {
      EXPECT_NEAR(mean, 1, 0.06) << info.name;
      EXPECT_NEAR(deviation, 0.1, 0.04) << info.name;
      continue;
    }
    double expected = 1 / std::sqrt(static_cast<double>(info.shape[1]));
    if (info.name.ends_with("o_proj.weight") || info.name.ends_with("down_proj.weight")) {
      expected /= std::sqrt(6.0);
    }
    EXPECT_NEAR(mean / expected, 0, 0.1) << info.name;
    EXPECT_NEAR(deviation / expected, 1, 0.1) << info.name;
  }
}

TEST(RandomModel, ImpossibleOptionsAreRefused) {
  const TemporaryDirectory root;
  const auto expect_refused = [&](const RandomModelOptions& options, const std::string& part) {
    const Status status = make_random_model(options, root.path() / "model");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(root.path() / "model"));
  };
  RandomModelOptions options = tiny(Family::kLlama);
  options.config.vocab = kRandomVocabMin - 1;
  expect_refused(options, "vocabulary");
  options = tiny(Family::kLlama);
  options.config.kv_heads = 4;
  expect_refused(options, "num_key_value_heads");
  options = tiny(Family::kQwen3Moe);
  options.config.moe.reset();
  expect_refused(options, "num_experts");
  weights::testing::write_file(root.path() / "x", "x");
  const Status full = make_random_model(tiny(Family::kLlama), root.path());
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(full.error().message, HasSubstr("is not empty"));
  EXPECT_EQ(make_random_model(tiny(Family::kLlama), root.path() / "x" / "y").error().code,
            ErrorCode::kIo);
}

TEST(RandomModel, TellsProgress) {
  const TemporaryDirectory directory;
  RandomModelOptions options = tiny(Family::kQwen3);
  Bytes last, all;
  options.progress = [&](Bytes done, Bytes total) {
    EXPECT_GT(done, last);
    last = done;
    all = total;
  };
  expect_made(options, directory.path());
  EXPECT_EQ(last, all);
  EXPECT_EQ(all, Bytes(2 * parameter_count(options.config)));
}

std::unique_ptr<text::Tokenizer> tokenizer(std::int64_t vocab, bool adds_bos) {
  const auto config = random_model_config(adds_bos ? Family::kLlama : Family::kQwen3);
  auto loaded = text::load_tokenizer_json(random_tokenizer_json(vocab, adds_bos),
                                          {random_tokenizer_config_json(config, adds_bos)});
  CAUSEWAY_CHECK(loaded.ok(), loaded.ok() ? "" : loaded.error().message);
  return std::move(loaded).value();
}

TEST(RandomTokenizer, EveryIdOfTheVocabularyHasText) {
  for (const std::int64_t vocab : {kRandomVocabMin, std::int64_t{4096}, std::int64_t{151936}}) {
    const auto loaded = tokenizer(vocab, true);
    EXPECT_EQ(loaded->vocab_size(), vocab);
    std::set<std::string> seen;
    for (TokenId id = 0; id < vocab; ++id) {
      const std::string bytes(loaded->token_bytes(id));
      EXPECT_FALSE(bytes.empty()) << id;
      EXPECT_TRUE(seen.insert(bytes).second) << id;
      EXPECT_EQ(loaded->is_special(id), id >= vocab - kSpecialTokens) << id;
    }
    EXPECT_EQ(loaded->bos(), vocab - kSpecialTokens);
    EXPECT_EQ(loaded->find("<|im_start|>"), vocab - 6);
    EXPECT_EQ(loaded->eos(), loaded->find("<|im_end|>"));
  }
}

TEST(RandomTokenizer, AddsTheBeginningOnlyForLlama) {
  EXPECT_EQ(tokenizer(1000, true)->encode("", {})->size(), 1u);
  EXPECT_EQ(tokenizer(1000, false)->encode("", {})->size(), 0u);
}

TEST(RandomTokenizer, EnglishTakesSeveralBytesAToken) {
  const std::string english =
      "Everything that arrives in the harbour is written down by the man who works on the bridge.";
  const auto ids = tokenizer(4096, false)->encode(english, {});
  ASSERT_TRUE(ids.ok());
  EXPECT_LT(static_cast<double>(ids->size()), static_cast<double>(english.size()) / 2.2);
}

RC_GTEST_PROP(RandomTokenizer, DecodingGivesTheTextBack, ()) {
  static const auto loaded = tokenizer(4096, false);
  std::string text;
  for (const auto c : *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::oneOf(
           rc::gen::inRange<std::uint32_t>(1, 0x80), rc::gen::inRange<std::uint32_t>(0x80, 0x800),
           rc::gen::inRange<std::uint32_t>(0x4E00, 0x9FFF)))) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    } else {
      text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
               static_cast<char>(0x80 | (c & 0x3F))};
    }
  }
  const auto ids = loaded->encode(text, {});
  RC_ASSERT(ids.ok());
  text::Detokenizer detokenizer(*loaded);
  std::string again;
  for (const TokenId id : *ids) again += detokenizer.push(id, true);
  RC_ASSERT(again + detokenizer.finish() == text);
}

TEST(RandomTokenizer, ChatTemplateRenders) {
  for (const auto& [family, adds_bos] : all_families()) {
    const TemporaryDirectory directory;
    expect_made(tiny(family), directory.path());
    const auto chat = text::load_chat_template(directory.path());
    ASSERT_TRUE(chat.ok()) << chat.error().message;
    const auto messages = nlohmann::ordered_json::parse(
        R"([{"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]}])");
    const auto prompt =
        chat->render({.messages = messages, .bos_token = "<|begin_of_text|>", .eos_token = ""});
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    const std::string begin = adds_bos ? "<|begin_of_text|>" : "";
    EXPECT_EQ(*prompt, begin +
                           "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n"
                           "hello<|im_end|>\n<|im_start|>assistant\n");
    const auto loaded = text::load_tokenizer(directory.path());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto ids = (*loaded)->encode(*prompt, {.add_special_tokens = false});
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(ids->front(), *(*loaded)->find(begin.empty() ? "<|im_start|>" : begin));
    EXPECT_EQ(load_config(directory.path())->eos.front(), *(*loaded)->find("<|im_end|>"));
  }
}

}  // namespace
}  // namespace causeway::model::random_model_test
