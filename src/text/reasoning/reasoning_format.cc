#include "text/reasoning/reasoning_format.h"

#include <array>

namespace causeway::text {
namespace {

struct NamedReasoning {
  std::string_view name;
  ReasoningFormat format;
};
constexpr std::array<NamedReasoning, 4> kNamedReasonings = {
    {{"none", ReasoningFormat::kNone},
     {"qwen3", ReasoningFormat::kQwen3},
     {"deepseek_r1", ReasoningFormat::kDeepSeekR1},
     {"mistral", ReasoningFormat::kMistral}}};

}  // namespace

std::optional<ReasoningFormat> reasoning_format_named(std::string_view name) {
  for (const NamedReasoning& known : kNamedReasonings) {
    if (known.name == name) return known.format;
  }
  return {};
}

ReasoningFormat reasoning_format_of(std::string_view template_source) {
  for (const ReasoningFormat format : {ReasoningFormat::kMistral, ReasoningFormat::kQwen3}) {
    const std::string_view close = reasoning_marks(format).close;
    if (template_source.find(close) != std::string_view::npos) return format;
  }
  return ReasoningFormat::kNone;
}

ReasoningMarks reasoning_marks(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::kNone: return {};
    case ReasoningFormat::kQwen3:
    case ReasoningFormat::kDeepSeekR1: return {"<think>", "</think>"};
    case ReasoningFormat::kMistral: return {"[THINK]", "[/THINK]"};
  }
  return {};
}

bool begins_reasoning(ReasoningFormat format, std::string_view prompt) {
  if (format == ReasoningFormat::kNone) return false;
  const std::size_t last = prompt.find_last_not_of(" \t\n\r");
  prompt = prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  const auto [open, close] = reasoning_marks(format);
  if (prompt.ends_with(open)) return true;
  return format == ReasoningFormat::kDeepSeekR1 && !prompt.ends_with(close);
}

bool continues_reasoning(ReasoningFormat format, std::string_view message) {
  if (format == ReasoningFormat::kNone) return false;
  const auto [open, close] = reasoning_marks(format);
  const std::size_t opened = message.rfind(open), closed = message.rfind(close);
  if (opened == std::string_view::npos) return false;
  return closed == std::string_view::npos || closed < opened;
}

}  // namespace causeway::text
