#include "text/tool_calls/tool_call_format.h"

#include <array>

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
  // Newer forms, [TOOL_CALLS]name[ARGS]{…} and <tool_call><function=name>…, are not read.
  if (has(template_source, "[ARGS]") || has(template_source, "<function=")) {
    return ToolCallFormat::kNone;
  }
  if (has(template_source, "[TOOL_CALLS]")) return ToolCallFormat::kMistral;
  if (has(template_source, "<tool_call>")) return ToolCallFormat::kHermes;
  const bool llama =
      has(template_source, "<|start_header_id|>") || has(template_source, "<|python_tag|>");
  if (llama && has(template_source, "\"parameters\": ")) return ToolCallFormat::kLlama3Json;
  return ToolCallFormat::kNone;
}

std::string_view tool_call_mark(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::kNone: return "";
    case ToolCallFormat::kHermes: return "<tool_call>";
    case ToolCallFormat::kLlama3Json: return "<|python_tag|>";
    case ToolCallFormat::kMistral: return "[TOOL_CALLS]";
  }
  return "";
}

}  // namespace causeway::text
