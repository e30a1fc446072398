#include "commands/served_catalogue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "commands/serve_checks.h"

namespace causeway::app {
namespace {

bool names_it(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

fleet::CatalogueModel* find(std::vector<fleet::CatalogueModel>& models, const std::string& name) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const auto& model) { return model.entry->name == name; });
  return found == models.end() ? nullptr : &*found;
}

// What is there as a folder is one, whatever the hub's cache has.
Result<fleet::ModelSource> find_single(const CatalogueOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(options.model, ignored)) {
    return fleet::single_model(options.model, options.served_model_name);
  }
  auto source = fleet::hub_model(options.hub, options.model);
  if (source.ok() && !options.served_model_name.empty()) source->name = options.served_model_name;
  return source;
}

}  // namespace

Result<std::unique_ptr<fleet::CatalogueEntry>> ServedCatalogue::entry_of(
    ModelId id, const fleet::ModelSource& source) const {
  return fleet::load_entry(id, source,
                           {.max_model_len = Tokens(options_.max_model_len),
                            .chat_template = options_.chat_template,
                            .tool_calls = text::tool_call_format_named(options_.tool_call_parser),
                            .reasoning = text::reasoning_format_named(options_.reasoning_parser)});
}

Result<std::vector<fleet::CatalogueModel>> ServedCatalogue::read_all() const {
  const bool single = !options_.model.empty();
  if (single != options_.models_dir.empty()) {
    return invalid_argument("give either a model's folder or --models-dir; see 'serve --help'");
  }
  std::vector<fleet::ModelSource> sources;
  if (single) {
    CAUSEWAY_ASSIGN(auto source, find_single(options_));
    sources.push_back(std::move(source));
  } else {
    CAUSEWAY_ASSIGN(sources, fleet::find_models(options_.models_dir));
  }
  std::vector<fleet::CatalogueModel> models;
  std::vector<std::string> names;
  for (fleet::ModelSource& source : sources) {
    auto entry = entry_of(ModelId(std::ssize(models)), source);
    if (entry.ok()) {
      names.push_back(source.name);
      models.push_back({std::move(entry).value(), std::move(source)});
    } else if (single) {
      return entry.error().with_context(source.name);
    } else {
      spdlog::warn("{} is not served: {}", source.name, entry.error().message);
    }
  }
  if (models.empty()) return not_found(options_.models_dir + ": none of its models can be served");
  CAUSEWAY_TRY(set_up(names, models));
  return models;
}

Status ServedCatalogue::set_up(const std::vector<std::string>& names,
                               std::vector<fleet::CatalogueModel>& models) const {
  CAUSEWAY_TRY(check_pins(options_.pins, names));
  for (auto& model : models) model.pinned = names_it(options_.pins, model.entry->name);
  CAUSEWAY_TRY(limit_residents(names, models));
  CAUSEWAY_TRY(set_rates(names, models));
  return set_targets(names, models);
}

Status ServedCatalogue::limit_residents(const std::vector<std::string>& names,
                                        std::vector<fleet::CatalogueModel>& models) const {
  for (const std::string& given : options_.max_resident) {
    CAUSEWAY_ASSIGN(const ModelBytes limit, parse_model_bytes(given, "--max-resident-bytes"));
    if (!names_it(names, limit.model)) {
      return invalid_argument("--max-resident-bytes " + given + ": no such model");
    }
    auto* const model = find(models, limit.model);
    if (model != nullptr) model->entry->max_resident = limit.bytes;
  }
  return {};
}

Status ServedCatalogue::set_rates(const std::vector<std::string>& names,
                                  std::vector<fleet::CatalogueModel>& models) const {
  for (const std::string& given : options_.expected_rates) {
    CAUSEWAY_ASSIGN(const ModelRate rate, parse_model_rate(given, "--expected-rate"));
    if (!names_it(names, rate.model)) {
      return invalid_argument("--expected-rate " + given + ": no such model");
    }
    auto* const model = find(models, rate.model);
    if (model != nullptr) model->spec.rate = rate.rate;
  }
  return {};
}

Status ServedCatalogue::set_targets(const std::vector<std::string>& names,
                                    std::vector<fleet::CatalogueModel>& models) const {
  CAUSEWAY_ASSIGN(const auto of_models, targets_.of_models(names));
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto* const model = find(models, names[i]);
    if (model == nullptr) continue;
    model->entry->slo = of_models[i].slo;
    model->entry->alpha = of_models[i].alpha;
  }
  return {};
}

void ServedCatalogue::fit(fleet::CatalogueModel& model) const {
  CAUSEWAY_CHECK(slices_ != nullptr, "models are fitted to slices");
  const auto card = slices_->card(model.source);
  if (!card.ok()) return;  // what is wrong with a model is told when it is loaded
  const double rate = model.spec.rate;
  if (slices_->several()) model.spec = slices_->spec_of(*card);
  model.spec.rate = rate;
  const Tokens held(card->kv.tokens.count * slices_->frames());
  if (held >= model.entry->max_model_len) return;
  spdlog::warn(
      "{}: the KV cache holds {} tokens, and so is its context, not {}: see "
      "--kv-cache-memory-bytes and --max-model-len",
      model.entry->name, held.count, model.entry->max_model_len.count);
  model.entry->max_model_len = held;
}

// The names that were known first are those of the start, of which options may speak.
Result<fleet::CatalogueFound> ServedCatalogue::read(std::span<const fleet::KnownModel> known,
                                                    const std::function<bool()>& cancelled) {
  CAUSEWAY_CHECK(slices_ != nullptr, "models are fitted to slices");
  if (!slices_->any()) return unavailable("no slice is open; read the folder again when one is");
  auto sources = fleet::find_models(options_.models_dir);
  if (!sources.ok()) {
    return unavailable("the models' folder cannot be read: " + sources.error().message);
  }
  std::vector<std::string> names, there;
  for (const fleet::KnownModel& model : known) names.push_back(model.name);
  fleet::CatalogueFound found;
  for (fleet::ModelSource& source : *sources) {
    there.push_back(source.name);
    if (cancelled()) return unavailable("the server is shutting down");
    const auto at = std::find(names.begin(), names.end(), source.name) - names.begin();
    const auto index = static_cast<std::size_t>(at);
    if (index < known.size() && known[index].served) continue;
    if (index < known.size() && !known[index].left) {
      found.left_out.push_back({source.name, "it is still leaving host memory; reload again"});
      continue;
    }
    auto entry = entry_of(ModelId(at), source);
    if (!entry.ok()) {
      found.left_out.push_back({source.name, entry.error().message});
      continue;
    }
    if (index == names.size()) names.push_back(source.name);
    found.models.push_back({std::move(entry).value(), std::move(source)});
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].served && !names_it(there, known[i].name)) found.gone.emplace_back(i);
  }
  CAUSEWAY_TRY(set_up(names, found.models));
  for (fleet::CatalogueModel& model : found.models) {
    fit(model);
    slices_->add(model);
  }
  return found;
}

}  // namespace causeway::app
