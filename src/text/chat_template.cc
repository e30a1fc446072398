#include "text/chat_template.h"

#include <fstream>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_numbers.h"
#include "text/jinja/template.h"
#include "text/jinja/unicode.h"

namespace causeway::text {
namespace {

// Configurations are a few KiB, some with every added token a few MiB.
constexpr std::uintmax_t kConfigBytesMax = std::uintmax_t{64} << 20;

constexpr std::string_view kToolUse = "tool_use";

jinja::Variable json_variable(std::string_view name, const nlohmann::ordered_json* json) {
  jinja::Variable variable;
  variable.name = name;
  variable.json = json;
  return variable;
}

void add_text(std::vector<jinja::Variable>& variables, std::string_view name,
              std::string_view text) {
  if (text.empty()) return;
  jinja::Variable variable;
  variable.name = name;
  variable.kind = jinja::Variable::Kind::kText;
  variable.text = text;
  variables.push_back(variable);
}

Result<std::string> read_config_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return io_error("cannot read " + path.string(), error.value());
  if (bytes > kConfigBytesMax) {
    return invalid_argument(path.string() + " is larger than 64 MiB: it is no configuration");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  if (!file || static_cast<std::uintmax_t>(file.gcount()) != bytes) {
    return io_error("cannot read " + path.string(), EIO);
  }
  return text;
}

Result<nlohmann::ordered_json> read_config(const std::filesystem::path& path) {
  CAUSEWAY_ASSIGN(const std::string text, read_config_file(path));
  std::string buffer;
  auto config = nlohmann::ordered_json::parse(plain_json_numbers(text, buffer), nullptr,
                                              /*allow_exceptions=*/false);
  if (!config.is_object()) return corrupt(path.string() + " is not a JSON object");
  return config;
}

Error no_template(const std::filesystem::path& directory) {
  return not_found(directory.string() +
                   " has no chat template (chat_template.jinja, or chat_template in "
                   "tokenizer_config.json): give the server one, or use completions");
}

// A conversation as Qwen v1 was trained on it, whose snapshots have no template but the code of
// make_context(). Content may be a list of texts.
constexpr const char* kQwenTemplate =
    "{%- if not messages or messages[0].role != 'system' %}\n"
    "{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>' }}\n"
    "{%- endif %}\n"
    "{%- for message in messages %}\n"
    "{%- if not loop.first or message.role != 'system' %}{{- '\\n' }}{%- endif %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' }}\n"
    "{%- if message.content is string %}\n"
    "{{- message.content }}\n"
    "{%- elif message.content %}\n"
    "{%- for part in message.content %}{{- part.text }}{%- endfor %}\n"
    "{%- endif %}\n"
    "{{- '<|im_end|>' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{- '\\n<|im_start|>assistant\\n' }}{%- endif %}";
constexpr std::string_view kQwenEnds[] = {"<|im_end|>", "<|im_start|>"};

struct Sources {
  std::string own;
  std::optional<std::string> tool_use = {};
};

// The one of a list that has this name; kNotFound: none has.
Result<std::string> template_named(std::string_view name, const nlohmann::ordered_json& list,
                                   const std::string& file) {
  for (const auto& entry : list) {
    if (!entry.is_object() || entry.value("name", nlohmann::ordered_json()) != name) continue;
    const auto source = entry.find("template");
    if (source != entry.end() && source->is_string()) return source->get<std::string>();
    return corrupt(file + ": the chat template \"" + std::string(name) + "\" is not a string");
  }
  return not_found(file + ": none of its chat templates is named \"" + std::string(name) + "\"");
}

// The templates in a parsed tokenizer_config.json.
Result<Sources> templates_in(const nlohmann::ordered_json& config,
                             const std::filesystem::path& directory) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return no_template(directory);
  if (found->is_string()) return Sources{found->get<std::string>()};
  const std::string name = (directory / "tokenizer_config.json").string();
  if (!found->is_array()) return corrupt(name + ": chat_template is neither a string nor a list");
  Sources sources;
  CAUSEWAY_ASSIGN(sources.own, template_named("default", *found, name));
  auto tool_use = template_named(kToolUse, *found, name);
  if (tool_use.ok()) {
    sources.tool_use = std::move(tool_use).value();
  } else if (tool_use.error().code != ErrorCode::kNotFound) {
    return tool_use.error();
  }
  return sources;
}

Result<Sources> templates_of_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "tokenizer_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return no_template(directory);
  CAUSEWAY_ASSIGN(const auto config, read_config(path));
  return templates_in(config, directory);
}

// Whether the vocabulary is Qwen v1's, and nothing says that the model is none for chats.
Result<bool> is_qwen_chat(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory / "qwen.tiktoken", error)) return false;
  const std::filesystem::path path = directory / "generation_config.json";
  if (!std::filesystem::exists(path, error)) return true;
  CAUSEWAY_ASSIGN(const auto config, read_config(path));
  const auto format = config.find("chat_format");
  return format == config.end() || *format == "chatml";
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::Template> compiled)
    : compiled_(std::move(compiled)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(std::string source, JinjaLimits limits) {
  CAUSEWAY_ASSIGN(auto compiled, jinja::Template::compile(source, limits));
  ChatTemplate made(std::move(compiled));
  made.takes_tools_ = source.find("tools") != std::string::npos;
  made.tool_calls_ = tool_call_format_of(source);
  made.reasoning_ = reasoning_format_of(source);
  return made;
}

Status ChatTemplate::set_tool_use(const std::string& source) {
  CAUSEWAY_ASSIGN(tool_use_, jinja::Template::compile(source, {}));
  takes_tools_ = source.find("tools") != std::string::npos;
  tool_calls_ = tool_call_format_of(source);
  return {};
}

Result<std::string> ChatTemplate::render(const ChatTemplateInput& input) const {
  std::vector<jinja::Variable> variables;
  add_text(variables, "bos_token", input.bos_token);
  add_text(variables, "eos_token", input.eos_token);
  variables.push_back(json_variable("documents", nullptr));
  if (input.extra != nullptr && !input.extra->is_null()) {
    if (!input.extra->is_object()) {
      return invalid_argument("chat_template_kwargs must be an object");
    }
    for (auto it = input.extra->begin(); it != input.extra->end(); ++it) {
      variables.push_back(json_variable(it.key(), &it.value()));
    }
  }
  variables.push_back(json_variable("messages", &input.messages));
  variables.push_back(json_variable("tools", input.tools));
  jinja::Variable prompt;
  prompt.name = "add_generation_prompt";
  prompt.kind = jinja::Variable::Kind::kFlag;
  prompt.flag = input.add_generation_prompt;
  variables.push_back(prompt);
  const bool tools = input.tools != nullptr && !input.tools->is_null();
  const jinja::Template& used = tools && tool_use_ ? *tool_use_ : *compiled_;
  return used.render(variables, input.now_unix_seconds);
}

Result<std::string> cut_behind_final_message(std::string rendered, std::string_view content) {
  const std::string_view from = jinja::strip_left(content);
  const std::string_view bare = jinja::strip_right(from);
  if (bare.empty()) return invalid_argument("the last message says nothing that could go on");
  const std::size_t at = rendered.rfind(bare);
  if (at == std::string::npos) {
    return invalid_argument("the template does not show the last message as it is written");
  }
  const bool kept = std::string_view(rendered).substr(at, from.size()) == content;
  rendered.resize(at + (kept ? from.size() : bare.size()));
  return rendered;
}

Result<ChatTemplate> load_chat_template(const std::filesystem::path& directory) {
  const std::filesystem::path own = directory / "chat_template.jinja";
  std::error_code error;
  if (std::filesystem::exists(own, error)) {
    CAUSEWAY_ASSIGN(const std::string source, read_config_file(own));
    auto made = ChatTemplate::compile(source);
    if (!made.ok()) return made.error().with_context(own.string());
    const auto beside =
        directory / "additional_chat_templates" / (std::string(kToolUse) + ".jinja");
    if (!std::filesystem::exists(beside, error)) return made;
    CAUSEWAY_ASSIGN(const std::string tool_use, read_config_file(beside));
    CAUSEWAY_TRY(made->set_tool_use(tool_use).with_context(beside.string()));
    return made;
  }
  const auto sources = templates_of_config(directory);
  if (!sources.ok() && sources.error().code == ErrorCode::kNotFound) {
    CAUSEWAY_ASSIGN(const bool built_in, is_qwen_chat(directory));
    if (!built_in) return sources.error();
    CAUSEWAY_ASSIGN(ChatTemplate made, ChatTemplate::compile(kQwenTemplate));
    made.ends_ = kQwenEnds;
    return made;
  }
  if (!sources.ok()) return sources.error();
  const std::string file = (directory / "tokenizer_config.json").string();
  auto made = ChatTemplate::compile(sources->own);
  if (!made.ok()) return made.error().with_context(file);
  if (sources->tool_use) {
    CAUSEWAY_TRY(made->set_tool_use(*sources->tool_use).with_context(file + ": tool_use"));
  }
  return made;
}

}  // namespace causeway::text
