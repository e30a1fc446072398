#include "bench/file_model.h"

#include <utility>

namespace causeway::bench {

Result<std::unique_ptr<FileModel>> FileModel::open(ModelId id, const std::filesystem::path& folder,
                                                   slice::ModelHome& home, LocalSlice& local) {
  CAUSEWAY_ASSIGN(fleet::ModelSource source, fleet::single_model(folder, ""));
  CAUSEWAY_ASSIGN(auto entry, fleet::load_entry(id, source, {}));
  entry->max_model_len = local.max_model_len(id);
  return std::make_unique<FileModel>(std::move(entry), std::move(source), home, local);
}

FileModel::FileModel(std::unique_ptr<fleet::CatalogueEntry> entry, fleet::ModelSource source,
                     slice::ModelHome& home, LocalSlice& local)
    : entry_(std::move(entry)),
      source_(std::move(source)),
      local_(local),
      backend_(home, local.slice(), local.clock(), {}) {}

Status FileModel::load() {
  CAUSEWAY_ASSIGN(const fleet::AttachedModel attached,
                  backend_.attach(*entry_, source_, [] { return false; }));
  return local_.slice().engine().add_model(entry_->id, attached.facts);
}

Status FileModel::forget() {
  CAUSEWAY_TRY(local_.slice().engine().remove_model(entry_->id, kPatience));
  backend_.detach(entry_->id);
  return {};
}

}  // namespace causeway::bench
