#include <fmt/format.h>

#include "catalogue/synthetic_catalogue.h"
#include "commands/command.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

class MakeCatalogue final : public Command {
 public:
  explicit MakeCatalogue(Options& parent)
      : Command(parent, "make-catalogue",
                "Write a folder of models of 0.5 to 2.9 GB with random weights, for serve "
                "--models-dir; those of one shape share their files") {
    auto& app = options();
    app.add_option("directory", directory_,
                   "folder to write; models that are there already are kept");
    app.add_option("--models", catalogue_.models, "number of models")
        .range(std::int64_t{1}, bench::kCatalogueModelsMax)
        .show_default();
    app.add_option("--kind", kind_, "dense models, mixtures of experts, or both")
        .one_of(bench::catalogue_kinds())
        .show_default();
    app.add_option("--seed", catalogue_.seed, "seed that decides which model has which shape")
        .show_default();
    app.add_flag("--tiny", tiny_, "models of a few hundred KB, for trying out");
  }

  Status run() override {
    if (directory_.empty()) return invalid_argument("give the folder to write the models into");
    if (tiny_) catalogue_.size = bench::CatalogueSize::kTiny;
    catalogue_.kind = bench::catalogue_kind_named(kind_).value_or(bench::CatalogueKind::kDense);
    const auto models = bench::synthetic_catalogue(catalogue_);
    CAUSEWAY_TRY(bench::write_catalogue(directory_, models, print_step));
    const bench::CatalogueBytes bytes = bench::bytes_of(models);
    fmt::print("{}: {} models, {:.2f} GB of weights, {:.2f} GB of files\n", directory_,
               models.size(), static_cast<double>(bytes.weights.count) * 1e-9,
               static_cast<double>(bytes.files.count) * 1e-9);
    return {};
  }

 private:
  std::string directory_, kind_ = "dense";
  bench::CatalogueOptions catalogue_;
  bool tiny_ = false;
};

}  // namespace

std::unique_ptr<Command> make_make_catalogue(Options& parent) {
  return std::make_unique<MakeCatalogue>(parent);
}

}  // namespace causeway::app
