// Chat templates: a conversation becomes the text that a model was trained on.
//
//   messages, tools, kwargs (JSON) --> ChatTemplate (Jinja, compiled once) --> prompt text
//
// The template language is the subset of Jinja2 that published chat templates use, set up as
// Hugging Face transformers does: trim_blocks, lstrip_blocks, break and continue, the immutable
// sandbox, `tojson` without HTML escapes, raise_exception, strftime_now, the generation tag. What
// is in the subset: docs/design/chat_template.md. Templates and conversations are hostile input,
// bounded by JinjaLimits.
//
// Variables that a template sees: messages, tools (none without), documents (none),
// add_generation_prompt, bos_token and eos_token (undefined when empty), and every member of
// `extra`, which wins over bos_token, eos_token and documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/jinja/limits.h"
#include "text/reasoning/reasoning_format.h"
#include "text/tool_calls/tool_call_format.h"

namespace causeway::text {

using JinjaLimits = jinja::Limits;

namespace jinja {
class Template;
}

// What one rendering reads; borrowed for the call.
struct ChatTemplateInput {
  // An array of {role, content: string | [{type: "text", text}], ...}. Handed on unchanged: whether
  // content may be a list depends on the template. ordered_json keeps the order of keys.
  const nlohmann::ordered_json& messages;
  const nlohmann::ordered_json* tools = nullptr;  // array, or null for none
  const nlohmann::ordered_json* extra = nullptr;  // object (chat_template_kwargs), or null
  bool add_generation_prompt = true;
  std::string_view bos_token = {}, eos_token = {};
  std::int64_t now_unix_seconds = 0;  // what strftime_now formats, in UTC
};

// Compiled once, immutable, thread-safe: any number of threads may render at the same time. Some
// models have one template more, for conversations with tools.
class ChatTemplate {
 public:
  // Errors: kInvalidArgument with line and cause.
  static Result<ChatTemplate> compile(std::string source, JinjaLimits limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Errors: kInvalidArgument with the message of raise_exception, or with line and cause when the
  // template fails on this conversation; kResourceExhausted when a limit is reached.
  Result<std::string> render(const ChatTemplateInput& input) const;
  // The source that renders them reads `tools`: others leave them out without a word.
  bool takes_tools() const { return takes_tools_; }
  // Special tokens that end a message, beside those that the model's files name. Empty unless the
  // template is built in.
  std::span<const std::string_view> ends() const { return ends_; }
  // By the marks in its source: how a model that it was made for writes calls.
  ToolCallFormat tool_calls() const { return tool_calls_; }
  // Likewise: how it parts what it thinks from its answer.
  ReasoningFormat reasoning() const { return reasoning_; }

 private:
  explicit ChatTemplate(std::unique_ptr<const jinja::Template> compiled);
  // Renders where there are tools. Errors as those of compile().
  Status set_tool_use(const std::string& source);

  std::unique_ptr<const jinja::Template> compiled_;
  std::unique_ptr<const jinja::Template> tool_use_;  // null: that one, too
  friend Result<ChatTemplate> load_chat_template(const std::filesystem::path& directory);
  std::span<const std::string_view> ends_;  // constants
  bool takes_tools_ = false;
  ToolCallFormat tool_calls_ = ToolCallFormat::kNone;
  ReasoningFormat reasoning_ = ReasoningFormat::kNone;
};

// For the last message to be continued: `rendered` up to where the text of that message, `content`,
// ends, as transformers cuts it. A template may have taken white space off its ends.
// kInvalidArgument when the message says nothing, or the template does not show it.
Result<std::string> cut_behind_final_message(std::string rendered, std::string_view content);

// Loads from a Hugging Face snapshot: chat_template.jinja wins, else "chat_template" of
// tokenizer_config.json (a string, or a list of {name, template}, of which "default" is taken).
// Where tools are given "tool_use" of that list, or additional_chat_templates/tool_use.jinja beside
// a chat_template.jinja, renders instead, as in transformers; others of either are not read.
// Qwen v1 publishes neither: beside qwen.tiktoken ChatML is built in, as its make_context() writes
// it, unless generation_config.json says that the model is not for chats ("chat_format").
// Errors: kNotFound when the model has no template; kIo, kCorrupt, kInvalidArgument naming the
// file.
Result<ChatTemplate> load_chat_template(const std::filesystem::path& directory);

}  // namespace causeway::text
