#include "text/chat_template.h"

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/testing/temporary_directory.h"

namespace causeway::text::chat_template_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class ChatTemplateFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }
  std::string rendered(const Json& tools = nullptr) const {
    const auto loaded = load_chat_template(directory_);
    if (!loaded.ok()) return "error: " + loaded.error().message;
    const Json messages = Json::parse(R"([{"role": "user", "content": "hi"}])");
    const auto text = loaded->render({.messages = messages, .tools = &tools});
    return text.ok() ? *text : "error: " + text.error().message;
  }
  ErrorCode load_error() const {
    const auto loaded = load_chat_template(directory_);
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? ErrorCode::kIo : loaded.error().code;
  }

  const TemporaryDirectory temporary_;
  const std::filesystem::path& directory_ = temporary_.path();
};

TEST_F(ChatTemplateFiles, TheFileOfItsOwnWins) {
  write("tokenizer_config.json", R"({"chat_template": "config {{ messages[0].content }}"})");
  EXPECT_EQ(rendered(), "config hi");
  write("chat_template.jinja", "own {{ messages[0].content }}");
  EXPECT_EQ(rendered(), "own hi");
}

TEST_F(ChatTemplateFiles, OfAListTheDefault) {
  write("tokenizer_config.json", R"({"chat_template": [
    {"name": "tool_use", "template": "tools"}, {"name": "default", "template": "default"}]})");
  EXPECT_EQ(rendered(), "default");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_EQ(load_error(), ErrorCode::kNotFound);
}

// As transformers chooses, for Hermes 3 among others.
TEST_F(ChatTemplateFiles, OfAListTheOneForToolsWhereThereAreSome) {
  write("tokenizer_config.json", R"({"chat_template": [
    {"name": "default", "template": "plain"}, {"name": "rag", "template": "{% broken"},
    {"name": "tool_use", "template": "<tool_call> {{ tools | length }}"}]})");
  EXPECT_EQ(rendered(), "plain");
  EXPECT_EQ(rendered(Json::array({1, 2})), "<tool_call> 2");
  const auto loaded = load_chat_template(directory_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->takes_tools());
  EXPECT_EQ(loaded->tool_calls(), ToolCallFormat::kHermes);
  write("tokenizer_config.json", R"({"chat_template": [
    {"name": "default", "template": "plain"}, {"name": "tool_use", "template": 5}]})");
  EXPECT_EQ(load_error(), ErrorCode::kCorrupt);
  write("tokenizer_config.json", R"({"chat_template": [
    {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{% broken"}]})");
  EXPECT_EQ(load_error(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(rendered(), HasSubstr("tool_use"));
}

TEST_F(ChatTemplateFiles, TheOneForToolsMayBeAFileOfItsOwn) {
  std::filesystem::create_directory(directory_ / "additional_chat_templates");
  write("tokenizer_config.json", R"({"chat_template": "config"})");
  write("additional_chat_templates/tool_use.jinja", "tools {{ tools[0] }}");
  write("chat_template.jinja", "own");
  EXPECT_EQ(rendered(), "own");
  EXPECT_EQ(rendered(Json::array({7})), "tools 7");
  write("additional_chat_templates/tool_use.jinja", "{% broken");
  EXPECT_EQ(load_error(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(rendered(), HasSubstr("tool_use.jinja"));
}

TEST_F(ChatTemplateFiles, NumbersOfPythonMayStandBesides) {
  write("tokenizer_config.json",
        R"({"model_max_length": 1000000000000000019884624838656, "x": [NaN, 1e999], "y": 1)" +
            std::string(400, '0') + R"(, "chat_template": "{{ messages[0].content }}"})");
  EXPECT_EQ(rendered(), "hi");
  write("tokenizer_config.json", R"({"chat_template": NaN})");
  EXPECT_EQ(load_error(), ErrorCode::kCorrupt);
}

TEST_F(ChatTemplateFiles, NoneIsNotFound) {
  EXPECT_EQ(load_error(), ErrorCode::kNotFound);
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(load_error(), ErrorCode::kNotFound);
  EXPECT_THAT(rendered(), HasSubstr("has no chat template"));
}

// As make_context() of its publisher writes a conversation.
TEST_F(ChatTemplateFiles, QwenVersion1SpeaksChatml) {
  write("tokenizer_config.json", R"({"tokenizer_class": "QWenTokenizer"})");
  EXPECT_EQ(load_error(), ErrorCode::kNotFound);
  write("qwen.tiktoken", "");
  const std::string asks = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  const std::string system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
  EXPECT_EQ(rendered(), system + asks);
  const auto loaded = load_chat_template(directory_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_THAT(loaded->ends(), ::testing::ElementsAre("<|im_end|>", "<|im_start|>"));
  EXPECT_FALSE(loaded->takes_tools());
  const Json turns = Json::parse(R"([{"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 + 1?\n"}, {"role": "assistant", "content": "2"},
    {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}])");
  EXPECT_EQ(loaded->render({.messages = turns}).value(),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1 + 1?\n<|im_end|>\n"
            "<|im_start|>assistant\n2<|im_end|>\n" +
                asks);
  const Json silent = Json::parse(R"([{"role": "assistant", "content": null}])");
  EXPECT_EQ(loaded->render({.messages = silent, .add_generation_prompt = false}).value(),
            system + "<|im_start|>assistant\n<|im_end|>");
  const Json answer = Json::parse(R"([{"role": "assistant", "content": "And"}])");
  EXPECT_EQ(loaded->render({.messages = answer, .add_generation_prompt = false}).value(),
            system + "<|im_start|>assistant\nAnd<|im_end|>");
  // A model of another vocabulary, or with a template, has what its files say.
  write("generation_config.json", R"({"chat_format": "raw"})");
  EXPECT_EQ(load_error(), ErrorCode::kNotFound);
  write("generation_config.json", R"({"chat_format": "chatml", "top_p": 0.8})");
  EXPECT_EQ(rendered(), system + asks);
  write("generation_config.json", "[");
  EXPECT_EQ(load_error(), ErrorCode::kCorrupt);
  write("chat_template.jinja", "own");
  EXPECT_EQ(rendered(), "own");
  EXPECT_TRUE(load_chat_template(directory_)->ends().empty());
}

TEST_F(ChatTemplateFiles, BrokenFilesAreNamed) {
  write("tokenizer_config.json", "{\"chat_template\": ");
  EXPECT_EQ(load_error(), ErrorCode::kCorrupt);
  write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_EQ(load_error(), ErrorCode::kCorrupt);
  write("tokenizer_config.json", R"({"chat_template": [5, {"name": "default"}]})");
  EXPECT_EQ(load_error(), ErrorCode::kCorrupt);
  write("chat_template.jinja", "line one\n{% if %}");
  EXPECT_EQ(load_error(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(rendered(), HasSubstr("chat_template.jinja"));
  EXPECT_THAT(rendered(), HasSubstr("line 2"));
  std::filesystem::remove(directory_ / "chat_template.jinja");
  std::filesystem::create_directory(directory_ / "chat_template.jinja");
  EXPECT_EQ(load_error(), ErrorCode::kIo);
}

TEST(ChatTemplate, VariablesAsTransformersSetsThem) {
  const auto compiled = ChatTemplate::compile(
      "{{ bos_token is defined }} {{ eos_token }} {{ tools }} {{ documents }} {{ flag }} "
      "{{ add_generation_prompt }} {{ messages }}");
  ASSERT_TRUE(compiled.ok());
  const Json messages = Json::array();
  const Json extra = Json::parse(R"({"flag": 1, "eos_token": "E", "messages": "mine"})");
  const auto text = compiled->render(
      {.messages = messages, .extra = &extra, .add_generation_prompt = false, .eos_token = "x"});
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "False E None None 1 False []");
  const Json list = Json::array();
  EXPECT_FALSE(compiled->render({.messages = messages, .extra = &list}).ok());
}

TEST(ChatTemplate, ManyThreadsRenderOneTemplate) {
  const auto compiled = ChatTemplate::compile(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
      "{{ m.content | upper }}{% endfor %}{{ ns.n }}");
  ASSERT_TRUE(compiled.ok());
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      Json messages = Json::array();
      for (std::size_t m = 0; m < 100 + i; ++m) messages.push_back({{"content", "a"}});
      for (int repeat = 0; repeat < 20; ++repeat) {
        texts[i] = compiled->render({.messages = messages}).value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], std::string(100 + i, 'A') + std::to_string(100 + i));
  }
}

TEST(FinalMessage, IsCutAsTransformersDoes) {
  const auto cut = [](const std::string& rendered, std::string_view content) {
    auto text = cut_behind_final_message(rendered, content);
    return text.ok() ? std::move(text).value() : "error";
  };
  EXPECT_EQ(cut("<a>Sure, </a>\n", "Sure, "), "<a>Sure, ") << "white space kept";
  EXPECT_EQ(cut("<a>Sure,</a>\n", "Sure, "), "<a>Sure,") << "white space taken off";
  EXPECT_EQ(cut("<u>Sure</u><a>Sure</a>", "Sure"), "<u>Sure</u><a>Sure") << "the last occurrence";
  EXPECT_EQ(cut("<a> Sure\n</a>", " Sure\n"), "<a> Sure") << "with white space before it";
  EXPECT_EQ(cut("<a>x</a>", "y"), "error");
  EXPECT_EQ(cut("<a></a>", " \u3000\n"), "error");
  EXPECT_EQ(cut("", ""), "error");
}

}  // namespace
}  // namespace causeway::text::chat_template_test
