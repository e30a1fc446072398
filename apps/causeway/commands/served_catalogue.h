// The models that `serve` serves: found, read, and set up as its options say, at the start and when
// the folder is read again.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "commands/rotation_options.h"
#include "commands/served_slices.h"
#include "fleet/catalogue_reader.h"

namespace causeway::app {

struct CatalogueOptions {
  std::string model, models_dir;  // one of them; `model`: a folder, or a name in the hub's cache
  std::filesystem::path hub;      // the cache
  std::string served_model_name, chat_template;
  std::string tool_call_parser = "auto", reasoning_parser = "auto";
  std::vector<std::string> pins, max_resident, expected_rates;
  std::int64_t max_model_len = 0;
};

class ServedCatalogue final : public fleet::CatalogueReader {
 public:
  // Both are borrowed.
  ServedCatalogue(const CatalogueOptions& options, const RotationOptions& targets)
      : options_(options), targets_(targets) {}

  // Of a folder, models that cannot be served are left out with a warning; a single one must be.
  // kInvalidArgument: an option names a model that is not there.
  Result<std::vector<fleet::CatalogueModel>> read_all() const;
  // Borrowed; before fit() and read().
  void set_slices(ServedSlices& slices) { slices_ = &slices; }
  // What a model asks of a slice, and what a slice can hold of it: a context that its KV cannot
  // hold is not promised, because a request without max_tokens asks for all.
  void fit(fleet::CatalogueModel& model) const;
  Result<fleet::CatalogueFound> read(std::span<const fleet::KnownModel> known,
                                     const std::function<bool()>& cancelled) override;

 private:
  Result<std::unique_ptr<fleet::CatalogueEntry>> entry_of(ModelId id,
                                                          const fleet::ModelSource& source) const;
  // `names`: all that options may speak of.
  Status set_up(const std::vector<std::string>& names,
                std::vector<fleet::CatalogueModel>& models) const;
  Status limit_residents(const std::vector<std::string>& names,
                         std::vector<fleet::CatalogueModel>& models) const;
  Status set_rates(const std::vector<std::string>& names,
                   std::vector<fleet::CatalogueModel>& models) const;
  Status set_targets(const std::vector<std::string>& names,
                     std::vector<fleet::CatalogueModel>& models) const;

  const CatalogueOptions& options_;
  const RotationOptions& targets_;
  ServedSlices* slices_ = nullptr;
};

}  // namespace causeway::app
