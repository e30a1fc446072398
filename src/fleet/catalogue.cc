#include "fleet/catalogue.h"

#include <algorithm>

#include "base/clock.h"
#include "fleet/generation_config.h"
#include "model/config.h"
#include "weights/checked_json.h"

namespace causeway::fleet {
namespace {

namespace fs = std::filesystem;

bool is_snapshot(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / "config.json", error);
}

// "models--org--name" → "org/name".
std::string hub_name(std::string folder) {
  folder.erase(0, std::string_view("models--").size());
  for (std::size_t at; (at = folder.find("--")) != std::string::npos;) folder.replace(at, 2, "/");
  return folder;
}

// The snapshot of a hub-cache folder: the revision that refs/main names, else the first by name.
fs::path hub_snapshot(const fs::path& folder) {
  if (auto revision = weights::read_small_file(folder / "refs" / "main", kib(1)); revision.ok()) {
    std::string name = revision.value();
    name.erase(std::find_if(name.begin(), name.end(), [](char c) { return c <= ' '; }), name.end());
    const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "..";
    if (plain && is_snapshot(folder / "snapshots" / name)) return folder / "snapshots" / name;
  }
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "snapshots", error)) {
    if (is_snapshot(entry.path())) found.push_back(entry.path());
  }
  return found.empty() ? fs::path() : *std::min_element(found.begin(), found.end());
}

void add_eos(std::vector<TokenId>& all, const std::vector<TokenId>& more) {
  for (const TokenId token : more) {
    if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
  }
}

// A name on the hub: no path, whatever it has in it.
bool is_hub_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  const std::size_t slash = std::min(name.find('/'), name.size());
  for (const std::string_view part : {name.substr(0, slash), name.substr(slash)}) {
    const std::string_view word = part.starts_with('/') ? part.substr(1) : part;
    if (!part.empty() && (word.empty() || word.front() == '.')) return false;
    if (!std::all_of(word.begin(), word.end(), plain)) return false;
  }
  return !name.empty() && slash > 0 && name.find("--") == std::string_view::npos;
}

void read_chat_template(const ModelSource& source, const EntryOptions& options,
                        CatalogueEntry& entry) {
  // Requests may bring a template where the model has none.
  entry.tool_calls = options.tool_calls.value_or(text::ToolCallFormat::kNone);
  entry.reasoning = options.reasoning.value_or(text::ReasoningFormat::kNone);
  auto loaded = [&]() -> Result<text::ChatTemplate> {
    if (options.chat_template.empty()) return text::load_chat_template(source.directory);
    CAUSEWAY_ASSIGN(std::string file, weights::read_small_file(options.chat_template, mib(1)));
    return text::ChatTemplate::compile(std::move(file))
        .with_context(options.chat_template.string());
  }();
  if (loaded.ok()) {
    entry.chat_template = std::move(loaded).value();
    entry.tool_calls = options.tool_calls.value_or(entry.chat_template->tool_calls());
    entry.reasoning = options.reasoning.value_or(entry.chat_template->reasoning());
    // What ends a message in the template ends an answer.
    for (const std::string_view end : entry.chat_template->ends()) {
      if (const auto token = entry.tokenizer->find(end)) add_eos(entry.eos, {*token});
    }
  } else if (loaded.error().code == ErrorCode::kNotFound && options.chat_template.empty()) {
    entry.chat_template_error =
        "its folder has no chat_template.jinja, and tokenizer_config.json no \"chat_template\"";
  } else {
    entry.chat_template_error = "its template cannot be used: " + loaded.error().message;
  }
  entry.tool_calls = text::tool_call_format_with(entry.tool_calls, *entry.tokenizer);
}

std::string token_text(const text::Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? std::string(tokenizer.token_bytes(*token)) : std::string();
}

}  // namespace

Result<std::vector<ModelSource>> find_models(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return not_found(folder.string() + ": " + error.message());
  std::vector<ModelSource> found;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (is_snapshot(entry.path())) {
      found.push_back({name, entry.path()});
    } else if (name.starts_with("models--")) {
      const fs::path snapshot = hub_snapshot(entry.path());
      if (!snapshot.empty()) found.push_back({hub_name(name), snapshot});
    }
  }
  if (found.empty()) {
    return not_found(folder.string() + ": no model in it (a subfolder with a config.json)");
  }
  std::sort(found.begin(), found.end(),
            [](const ModelSource& a, const ModelSource& b) { return a.name < b.name; });
  return found;
}

Result<ModelSource> single_model(const fs::path& directory, const std::string& name) {
  if (!is_snapshot(directory)) {
    return not_found(directory.string() +
                     ": no config.json in it; a model is a folder with "
                     "config.json, tokenizer and safetensors files");
  }
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(directory, error);
  return ModelSource{!name.empty() ? name : absolute.filename().string(), directory};
}

Result<ModelSource> hub_model(const fs::path& hub, const std::string& name) {
  if (!is_hub_name(name)) return not_found(name + ": there is no such folder");
  std::string folder = "models--" + name;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  const fs::path snapshot = hub_snapshot(hub / folder);
  if (!snapshot.empty()) return ModelSource{name, snapshot};
  return not_found(name + ": there is no such folder, nor is it in the hub cache " + hub.string() +
                   "; download it there, or name the folder that it is in");
}

Result<std::unique_ptr<CatalogueEntry>> load_entry(ModelId id, const ModelSource& source,
                                                   const EntryOptions& options) {
  auto entry = std::make_unique<CatalogueEntry>();
  entry->id = id;
  entry->name = source.name;
  entry->created_unix_seconds = unix_seconds();
  CAUSEWAY_ASSIGN(const model::ModelConfig config, model::load_config(source.directory));
  entry->vocab = config.vocab;
  entry->hidden = config.hidden;
  entry->max_model_len = config.max_position;
  entry->max_prompt = config.max_prompt;
  if (options.max_model_len > config.max_position) {
    return invalid_argument("a context of " + std::to_string(options.max_model_len.count) +
                            " tokens is more than the " +
                            std::to_string(config.max_position.count) + " tokens that the model '" +
                            source.name + "' was made for");
  }
  if (options.max_model_len > Tokens(0)) entry->max_model_len = options.max_model_len;

  CAUSEWAY_ASSIGN(entry->tokenizer, text::load_tokenizer(source.directory));
  CAUSEWAY_ASSIGN(const GenerationConfig generation, load_generation_config(source.directory));
  entry->defaults = generation.defaults;
  add_eos(entry->eos, generation.eos);
  add_eos(entry->eos, config.eos);
  if (const auto eos = entry->tokenizer->eos()) add_eos(entry->eos, {*eos});
  entry->bos_text = token_text(*entry->tokenizer, entry->tokenizer->bos());
  entry->eos_text = token_text(*entry->tokenizer, entry->tokenizer->eos());
  read_chat_template(source, options, *entry);
  return entry;
}

}  // namespace causeway::fleet
