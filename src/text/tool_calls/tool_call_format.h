// How models write calls of tools into their text.
//
//   hermes       <tool_call>{"name": …, "arguments": {…}}</tool_call>, again for each call
//                (Hermes, Qwen2.5, Qwen3)
//   llama3_json  {"name": …, "parameters": {…}}, from the start of the text, "; " between calls;
//                <|python_tag|> may stand before (Llama 3.1, 3.2)
//   mistral      [TOOL_CALLS] [{"name": …, "arguments": {…}}, …] (Mistral 7B v0.3, Nemo)
//   mistral_args [TOOL_CALLS]name[ARGS]{…}, again for each call; before [ARGS] may stand
//                [CALL_ID]id (tokenizers from version 11 on: Mistral Small 3.1, Magistral)
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace causeway::text {

class Tokenizer;

enum class ToolCallFormat { kNone, kHermes, kLlama3Json, kMistral, kMistralArgs };

// "none", "hermes", "llama3_json", "mistral"; nullopt for anything else. Mistral's newer form has
// no name of its own: the tokenizer tells (tool_call_format_with).
std::optional<ToolCallFormat> tool_call_format_named(std::string_view name);

// By the marks in the source of a chat template, which shows the model earlier calls in the form
// that it is to write them. kNone when it has no known ones.
ToolCallFormat tool_call_format_of(std::string_view template_source);

// The same, or kMistralArgs for kMistral if the model has the token [ARGS].
ToolCallFormat tool_call_format_with(ToolCallFormat format, const Tokenizer& tokenizer);

// The token that begins calls, "" where there is none.
std::string_view tool_call_mark(ToolCallFormat format);
// Every token that calls are marked with, the one that begins them first. A tokenizer may call them
// special, and yet they must not be left out of the text that a parser reads.
std::span<const std::string_view> tool_call_marks(ToolCallFormat format);

// Whether a call can name this tool. Where names stand in quotes any can be written.
bool can_name_tool(ToolCallFormat format, std::string_view name);
// A byte of a name that stands without quotes.
bool is_bare_name_byte(char c);

}  // namespace causeway::text
