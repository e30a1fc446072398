#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands/command.h"
#include "fleet/catalogue.h"
#include "model/config.h"

namespace causeway::app {
namespace {

struct ListedModel {
  std::string name, family, error;
  std::int64_t parameters = 0, layers = 0, context = 0;
  Bytes bytes;
};

ListedModel listed(const fleet::ModelSource& source) {
  ListedModel row;
  row.name = source.name;
  const auto config = model::load_config(source.directory);
  if (!config.ok()) {
    row.error = config.error().message;
    return row;
  }
  row.family = model::traits_of(config->family).model_type;
  row.parameters = model::parameter_count(*config);
  row.layers = config->layers;
  row.context = config->max_position.count;
  row.bytes = size_of(model::host_dtype(config->dtype)) * row.parameters;
  return row;
}

class ModelsList final : public Command {
 public:
  explicit ModelsList(Options& parent)
      : Command(parent, "list", "List the models of a folder, and what each needs") {
    options().add_option("--models-dir", folder_, "folder of models, or a hub cache");
    options().add_flag("--json", json_, "print JSON");
  }

  Status run() override {
    if (folder_.empty()) return invalid_argument("--models-dir is required");
    CAUSEWAY_ASSIGN(const auto sources, fleet::find_models(folder_));
    std::vector<ListedModel> rows;
    for (const auto& source : sources) rows.push_back(listed(source));
    json_ ? print_json(rows) : print_table(rows);
    return {};
  }

 private:
  static void print_table(const std::vector<ListedModel>& rows) {
    fmt::print("{:<32} {:<10} {:>12} {:>7} {:>9} {:>12}\n", "model", "family", "parameters",
               "layers", "context", "host memory");
    for (const ListedModel& row : rows) {
      if (!row.error.empty()) {
        fmt::print("{:<32} not served: {}\n", row.name, row.error);
        continue;
      }
      fmt::print("{:<32} {:<10} {:>11.3f}M {:>7} {:>9} {:>9.3f} GB\n", row.name, row.family,
                 static_cast<double>(row.parameters) * 1e-6, row.layers, row.context,
                 static_cast<double>(row.bytes.count) * 1e-9);
    }
  }

  static void print_json(const std::vector<ListedModel>& rows) {
    auto list = nlohmann::ordered_json::array();
    for (const ListedModel& row : rows) {
      list.push_back({{"name", row.name},
                      {"family", row.family},
                      {"parameters", row.parameters},
                      {"layers", row.layers},
                      {"max_model_len", row.context},
                      {"host_bytes", row.bytes.count},
                      {"error", row.error}});
    }
    fmt::print("{}\n", list.dump(2));
  }

  std::string folder_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_models_list(Options& parent) {
  return std::make_unique<ModelsList>(parent);
}

}  // namespace causeway::app
