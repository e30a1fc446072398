// How models write calls of tools into their text.
//
//   hermes       <tool_call>{"name": …, "arguments": {…}}</tool_call>, again for each call
//                (Hermes, Qwen2.5, Qwen3)
//   llama3_json  {"name": …, "parameters": {…}}, from the start of the text, "; " between calls;
//                <|python_tag|> may stand before (Llama 3.1, 3.2)
//   mistral      [TOOL_CALLS] [{"name": …, "arguments": {…}}, …]
#pragma once

#include <optional>
#include <string_view>

namespace causeway::text {

enum class ToolCallFormat { kNone, kHermes, kLlama3Json, kMistral };

// "none", "hermes", "llama3_json", "mistral"; nullopt for anything else.
std::optional<ToolCallFormat> tool_call_format_named(std::string_view name);

// By the marks in the source of a chat template, which shows the model earlier calls in the form
// that it is to write them. kNone when it has no known ones.
ToolCallFormat tool_call_format_of(std::string_view template_source);

// The token that begins calls, "" where there is none. A tokenizer may call it special, and yet it
// must not be left out of the text that a parser reads.
std::string_view tool_call_mark(ToolCallFormat format);

}  // namespace causeway::text
