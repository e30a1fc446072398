// Finding the models of a folder, and reading what the catalogue keeps of each: names, limits,
// tokenizer, chat template, generation defaults. Weights are not touched.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fleet/fleet.h"

namespace causeway::fleet {

// Where a model lies: a Hugging Face snapshot.
struct ModelSource {
  std::string name;
  std::filesystem::path directory;
};

// Every model of a folder, by name: its subfolders with a config.json, and the snapshots of a hub
// cache ("models--org--name/snapshots/<revision>", the one that refs/main names, as "org/name").
// kNotFound when the folder is not there, or holds no model.
Result<std::vector<ModelSource>> find_models(const std::filesystem::path& folder);

// The snapshot at `directory` itself, named after its folder unless `name` is given. kNotFound
// when there is no config.json.
Result<ModelSource> single_model(const std::filesystem::path& directory, const std::string& name);

// The snapshot of "org/name" (or "name") in a hub cache. kNotFound: there is none, or it is no such
// name.
Result<ModelSource> hub_model(const std::filesystem::path& hub, const std::string& name);

struct EntryOptions {
  Tokens max_model_len{0};              // 0: what config.json says
  std::filesystem::path chat_template;  // a file that replaces the model's own, or empty
  std::optional<text::ToolCallFormat> tool_calls = {};  // empty: what the chat template shows
  std::optional<text::ReasoningFormat> reasoning = {};  // likewise
};

// Reads config, tokenizer and template. A missing or broken chat template is no error: chat
// requests then get entry.chat_template_error.
Result<std::unique_ptr<CatalogueEntry>> load_entry(ModelId id, const ModelSource& source,
                                                   const EntryOptions& options);

}  // namespace causeway::fleet
