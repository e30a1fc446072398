#include "text/tool_calls/tool_call_format.h"

#include <algorithm>
#include <array>

#include "text/tokenizer.h"

namespace causeway::text {
namespace {

struct Named {
  std::string_view name;
  ToolCallFormat format;
};
constexpr std::array<Named, 4> kNamed = {{{"none", ToolCallFormat::kNone},
                                          {"hermes", ToolCallFormat::kHermes},
                                          {"llama3_json", ToolCallFormat::kLlama3Json},
                                          {"mistral", ToolCallFormat::kMistral}}};

constexpr std::array<std::string_view, 1> kHermesMarks = {"<tool_call>"};
constexpr std::array<std::string_view, 1> kLlamaMarks = {"<|python_tag|>"};
constexpr std::array<std::string_view, 3> kMistralMarks = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::optional<ToolCallFormat> tool_call_format_named(std::string_view name) {
  for (const Named& known : kNamed) {
    if (known.name == name) return known.format;
  }
  return {};
}

ToolCallFormat tool_call_format_of(std::string_view template_source) {
  // <tool_call><function=name>… is not read.
  if (has(template_source, "<function=")) return ToolCallFormat::kNone;
  if (has(template_source, "[TOOL_CALLS]")) {
    const bool bare = has(template_source, "[ARGS]");
    return bare ? ToolCallFormat::kMistralArgs : ToolCallFormat::kMistral;
  }
  if (has(template_source, "<tool_call>")) return ToolCallFormat::kHermes;
  const bool llama =
      has(template_source, "<|start_header_id|>") || has(template_source, "<|python_tag|>");
  if (llama && has(template_source, "\"parameters\": ")) return ToolCallFormat::kLlama3Json;
  return ToolCallFormat::kNone;
}

ToolCallFormat tool_call_format_with(ToolCallFormat format, const Tokenizer& tokenizer) {
  const bool newer = format == ToolCallFormat::kMistral && tokenizer.find("[ARGS]");
  return newer ? ToolCallFormat::kMistralArgs : format;
}

std::string_view tool_call_mark(ToolCallFormat format) {
  const auto marks = tool_call_marks(format);
  return marks.empty() ? std::string_view() : marks[0];
}

std::span<const std::string_view> tool_call_marks(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kNone: return {};
    case ToolCallFormat::kHermes: return kHermesMarks;
    case ToolCallFormat::kLlama3Json: return kLlamaMarks;
    case ToolCallFormat::kMistral: return std::span(kMistralMarks).first(1);
    case ToolCallFormat::kMistralArgs: return kMistralMarks;
  }
  return {};
}

// The mark behind the name begins with a bracket, and blanks before the name are none of it.
bool is_bare_name_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte != 0x7F && c != '[';
}

bool can_name_tool(ToolCallFormat format, std::string_view name) {
  return format != ToolCallFormat::kMistralArgs ||
         std::all_of(name.begin(), name.end(), is_bare_name_byte);
}

}  // namespace causeway::text
