// How thinking models part what they think from their answer: by a mark before it and one behind.
//
//   qwen3        <think> … </think>, opened by the model, or by the template at the prompt's end
//                (Qwen3, QwQ, and most others)
//   deepseek_r1  the same, but the model leaves out the opening mark where the prompt has none
//   mistral      [THINK] … [/THINK] (Magistral)
#pragma once

#include <optional>
#include <string_view>

namespace causeway::text {

enum class ReasoningFormat { kNone, kQwen3, kDeepSeekR1, kMistral };

// "none", "qwen3", "deepseek_r1", "mistral"; nullopt for anything else.
std::optional<ReasoningFormat> reasoning_format_named(std::string_view name);

// By the marks in the source of a chat template, which has them to leave earlier thinking out;
// kNone when it has none. Never kDeepSeekR1: such templates open the thinking in the prompt.
ReasoningFormat reasoning_format_of(std::string_view template_source);

// Tokens of their own in most vocabularies. A tokenizer may call them special, and yet they must
// not be left out of the text that a parser reads. Empty where there are none.
struct ReasoningMarks {
  std::string_view open, close;
};
ReasoningMarks reasoning_marks(ReasoningFormat format);

// Whether an answer to this prompt begins within thinking. The prompt's last mark counts only where
// nothing but white space follows, so that no text of a message can stand for it.
bool begins_reasoning(ReasoningFormat format, std::string_view prompt);

// Whether an answer that goes on behind `message`, text of the model's, does: its last mark opens.
bool continues_reasoning(ReasoningFormat format, std::string_view message);

}  // namespace causeway::text
