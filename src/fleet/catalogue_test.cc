#include "fleet/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/temporary_directory.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet::catalogue_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::write_file;
using testing::write_snapshot;

std::vector<std::string> names(const std::vector<ModelSource>& sources) {
  std::vector<std::string> found;
  for (const auto& source : sources) found.push_back(source.name);
  return found;
}

TEST(FindModels, SubfoldersAndHubCacheByName) {
  TemporaryDirectory folder;
  write_snapshot(folder.path() / "b");
  write_snapshot(folder.path() / "a");
  write_file(folder.path() / "notes" / "readme.txt", "no model");
  const fs::path hub = folder.path() / "models--org--name";
  write_snapshot(hub / "snapshots" / "111");
  write_snapshot(hub / "snapshots" / "222");
  write_file(hub / "refs" / "main", "222\n");
  const auto found = find_models(folder.path()).value();
  EXPECT_THAT(names(found), ElementsAre("a", "b", "org/name"));
  EXPECT_EQ(found[2].directory.filename(), "222");
}

TEST(FindModels, HubRevisionCannotLeaveTheCache) {
  TemporaryDirectory folder;
  write_snapshot(folder.path() / "outside");
  const fs::path hub = folder.path() / "cache" / "models--org--name";
  write_snapshot(hub / "snapshots" / "111");
  write_file(hub / "refs" / "main", "../../../outside");
  const auto found = find_models(folder.path() / "cache").value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].directory.filename(), "111");
}

TEST(HubModel, IsFoundByItsName) {
  TemporaryDirectory folder;
  write_snapshot(folder.path() / "models--org--name" / "snapshots" / "111");
  write_snapshot(folder.path() / "models--gpt2" / "snapshots" / "222");
  const auto found = hub_model(folder.path(), "org/name");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->name, "org/name");
  EXPECT_EQ(found->directory.filename(), "111");
  EXPECT_EQ(hub_model(folder.path(), "gpt2")->directory.filename(), "222");
}

TEST(HubModel, OthersAreNotThere) {
  TemporaryDirectory folder;
  write_snapshot(folder.path() / "models--org--name" / "snapshots" / "111");
  write_snapshot(folder.path() / "models--.." / "snapshots" / "111");
  for (const char* name : {"", "/", "org", "org/", "/name", "org/other", "org/name/", "org/../org",
                           "..", "../name", "org--name", "/org/name", "./org/name", "org\\name"}) {
    const auto found = hub_model(folder.path(), name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound) << name;
  }
  EXPECT_THAT(hub_model(folder.path(), "org/other").error().message,
              ::testing::HasSubstr(folder.path()));
}

TEST(FindModels, EmptyAndMissingFolders) {
  TemporaryDirectory folder;
  EXPECT_EQ(find_models(folder.path()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_models(folder.path() / "nowhere").error().code, ErrorCode::kNotFound);
}

TEST(SingleModel, NameIsTheFolderUnlessGiven) {
  TemporaryDirectory folder;
  write_snapshot(folder.path() / "llama");
  EXPECT_EQ(single_model(folder.path() / "llama", "").value().name, "llama");
  EXPECT_EQ(single_model(folder.path() / "llama", "x").value().name, "x");
  EXPECT_THAT(single_model(folder.path(), "").error().message, HasSubstr("config.json"));
}

class LoadEntry : public ::testing::Test {
 protected:
  LoadEntry() { write_snapshot(folder_.path()); }
  Result<std::unique_ptr<CatalogueEntry>> load(const EntryOptions& options = {}) {
    return load_entry(ModelId(0), {"m", folder_.path()}, options);
  }
  TemporaryDirectory folder_;
};

TEST_F(LoadEntry, ReadsWhatTheServerNeeds) {
  write_file(folder_.path() / "generation_config.json",
             R"({"temperature": 0.6, "top_p": 0.9, "top_k": 40, "eos_token_id": [255, 257]})");
  const auto entry = load().value();
  EXPECT_EQ(entry->vocab, 258);
  EXPECT_EQ(entry->max_model_len, Tokens(128));
  EXPECT_THAT(entry->eos, ElementsAre(255, 257));
  EXPECT_FLOAT_EQ(entry->defaults.temperature.value(), 0.6f);
  EXPECT_EQ(entry->defaults.top_k.value(), 40);
  EXPECT_EQ(entry->bos_text, "<s>");
  EXPECT_FALSE(entry->chat_template.has_value());
  EXPECT_THAT(entry->chat_template_error, HasSubstr("no chat_template.jinja"));
}

TEST_F(LoadEntry, MaxModelLenCutsButNeverStretches) {
  EXPECT_EQ(load({.max_model_len = Tokens(64), .chat_template = {}}).value()->max_model_len,
            Tokens(64));
  EXPECT_THAT(load({.max_model_len = Tokens(129), .chat_template = {}}).error().message,
              HasSubstr("129"));
}

TEST_F(LoadEntry, ChatTemplateFileWins) {
  write_file(folder_.path() / "chat_template.jinja", "own");
  const fs::path other = folder_.path() / "other.jinja";
  write_file(other, "other");
  EXPECT_TRUE(load().value()->chat_template.has_value());
  EXPECT_TRUE(load({.max_model_len = Tokens(0), .chat_template = other}).value()->chat_template);
}

TEST_F(LoadEntry, TheTemplateShowsHowCallsAreWritten) {
  const auto format = [&](const EntryOptions& options = {}) {
    return load(options).value()->tool_calls;
  };
  EXPECT_EQ(format(), text::ToolCallFormat::kNone);
  write_file(folder_.path() / "chat_template.jinja", "{{ tools }}<tool_call>");
  EXPECT_EQ(format(), text::ToolCallFormat::kHermes);
  EXPECT_TRUE(load().value()->chat_template->takes_tools());
  EXPECT_EQ(format({.chat_template = {}, .tool_calls = text::ToolCallFormat::kMistral}),
            text::ToolCallFormat::kMistral);
  write_file(folder_.path() / "chat_template.jinja", "plain");
  EXPECT_FALSE(load().value()->chat_template->takes_tools());
  write_file(folder_.path() / "chat_template.jinja", "{{ tools }}[TOOL_CALLS]");
  EXPECT_EQ(format(), text::ToolCallFormat::kMistral);
  auto tokenizer = nlohmann::json::parse(testing::byte_tokenizer_json());
  auto mark = tokenizer["added_tokens"][0];
  mark["id"] = 258;
  mark["content"] = "[ARGS]";
  tokenizer["added_tokens"].push_back(mark);
  write_file(folder_.path() / "tokenizer.json", tokenizer.dump());
  EXPECT_EQ(format(), text::ToolCallFormat::kMistralArgs) << "the tokenizer has its second mark";
}

TEST_F(LoadEntry, TheTemplateShowsHowThinkingIsMarked) {
  EXPECT_EQ(load().value()->reasoning, text::ReasoningFormat::kNone);
  write_file(folder_.path() / "chat_template.jinja", "{{ content.split('</think>')[-1] }}");
  EXPECT_EQ(load().value()->reasoning, text::ReasoningFormat::kQwen3);
  for (const auto given : {text::ReasoningFormat::kNone, text::ReasoningFormat::kDeepSeekR1}) {
    EXPECT_EQ(load({.chat_template = {}, .reasoning = given}).value()->reasoning, given);
  }
}

// The 256 bytes, as a file of ranks.
std::string byte_ranks() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    text += {kDigits[byte / 4], kDigits[byte % 4 * 16], '=', '=', ' '};
    text += std::to_string(byte) + "\n";
  }
  return text;
}

TEST_F(LoadEntry, QwenVersion1) {
  write_file(folder_.path() / "config.json",
             R"({"architectures": ["QWenLMHeadModel"], "hidden_size": 32, "intermediate_size": 64,
                 "num_hidden_layers": 2, "num_attention_heads": 4, "kv_channels": 8,
                 "vocab_size": 512, "seq_length": 100, "max_position_embeddings": 400})");
  fs::remove(folder_.path() / "tokenizer.json");
  write_file(folder_.path() / "qwen.tiktoken", byte_ranks());
  write_file(folder_.path() / "tokenizer_config.json", R"({"tokenizer_class": "QWenTokenizer"})");
  write_file(folder_.path() / "generation_config.json",
             R"({"chat_format": "chatml", "eos_token_id": 256, "top_k": 0, "top_p": 0.8})");
  const auto entry = load().value();
  EXPECT_EQ(entry->max_model_len, Tokens(400));
  EXPECT_EQ(entry->max_prompt, Tokens(100));
  // <|endoftext|>; and what ends a message, <|im_end|> and <|im_start|>.
  EXPECT_THAT(entry->eos, ElementsAre(256, 258, 257));
  ASSERT_TRUE(entry->chat_template.has_value()) << entry->chat_template_error;
  const auto messages = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "a"}])");
  const std::string prompt = entry->chat_template->render({.messages = messages}).value();
  const auto tokens = entry->tokenizer->encode(prompt, {.add_special_tokens = false}).value();
  EXPECT_THAT(std::vector<TokenId>(tokens.end() - 20, tokens.end() - 11),
              ElementsAre(257, 'u', 's', 'e', 'r', '\n', 'a', 258, '\n'));
  EXPECT_EQ(tokens[tokens.size() - 11], 257);
  write_file(folder_.path() / "generation_config.json", R"({"chat_format": "raw"})");
  const auto base = load().value();
  EXPECT_FALSE(base->chat_template.has_value());
  EXPECT_THAT(base->eos, ElementsAre(256));
}

TEST_F(LoadEntry, BrokenTemplateIsReportedToChatRequestsOnly) {
  write_file(folder_.path() / "chat_template.jinja", "{% for %}");
  const auto entry = load().value();
  EXPECT_FALSE(entry->chat_template.has_value());
  EXPECT_THAT(entry->chat_template_error, HasSubstr("cannot be used"));
}

TEST_F(LoadEntry, NumbersOfGenerationConfigAreReadAsPythonReadsThem) {
  write_file(folder_.path() / "generation_config.json",
             R"({"temperature": 1, "top_k": -0, "max_length": 1000000000000000019884624838656,
                 "length_penalty": Infinity, "x": [NaN, -1e999]})");
  const auto entry = load().value();
  EXPECT_FLOAT_EQ(entry->defaults.temperature.value(), 1);
  EXPECT_EQ(entry->defaults.top_k.value(), 0);
  for (const char* name :
       {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "eos_token_id"}) {
    for (const char* value : {"NaN", "1e999", "-Infinity", "18446744073709551616", "1e400"}) {
      write_file(folder_.path() / "generation_config.json",
                 std::string("{\"") + name + "\": " + value + "}");
      const auto bad = load();
      ASSERT_FALSE(bad.ok()) << name << value;
      EXPECT_THAT(bad.error().message, HasSubstr("generation_config.json")) << value;
      EXPECT_THAT(bad.error().message, HasSubstr(name)) << value;
    }
  }
  for (const char* value : {"40.0", "40.5", "9223372036854775808"}) {
    write_file(folder_.path() / "generation_config.json",
               std::string("{\"top_k\": ") + value + "}");
    EXPECT_THAT(load().error().message, HasSubstr("top_k")) << value;
  }
}

TEST_F(LoadEntry, HostileGenerationConfigNamesFileAndField) {
  for (const char* text :
       {R"({"temperature": -1})", R"({"top_p": "x"})", R"({"eos_token_id": [1.5]})", "[]", "{"}) {
    write_file(folder_.path() / "generation_config.json", text);
    const auto entry = load();
    ASSERT_FALSE(entry.ok()) << text;
    EXPECT_THAT(entry.error().message, HasSubstr("generation_config.json")) << text;
  }
}

}  // namespace
}  // namespace causeway::fleet::catalogue_test
