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
      home_(home, {&local.slice()}, local.clock(), {}),
      slice_(home, local.slice()) {}

Status FileModel::load() {
  CAUSEWAY_TRY(home_.load(*entry_, source_, {.cancelled = [] { return false; }, .progress = {}}));
  return status_of(slice_.attach(*entry_, source_, /*pinned=*/false));
}

Status FileModel::forget() {
  CAUSEWAY_TRY(slice_.detach(entry_->id, kPatience));
  home_.unload(entry_->id);
  return {};
}

}  // namespace causeway::bench
