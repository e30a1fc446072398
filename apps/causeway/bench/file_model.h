// A model in files that a slice of this process loads and forgets again, as `serve` does it.
#pragma once

#include <filesystem>
#include <memory>

#include "bench/slice_parts.h"
#include "fleet/catalogue.h"
#include "fleet/engine_slice.h"
#include "fleet/pool_home.h"

namespace causeway::bench {

class FileModel {
 public:
  // Reads what the catalogue keeps of the model. Home and slice are borrowed; the slice was opened
  // for a model of this id and shape.
  static Result<std::unique_ptr<FileModel>> open(ModelId id, const std::filesystem::path& folder,
                                                 slice::ModelHome& home, LocalSlice& local);
  FileModel(std::unique_ptr<fleet::CatalogueEntry> entry, fleet::ModelSource source,
            slice::ModelHome& home, LocalSlice& local);  // for open()

  // From its files into host memory; then its requests are accepted. Blocks.
  Status load();
  // Undoes load(). It has no requests.
  Status forget();

 private:
  std::unique_ptr<fleet::CatalogueEntry> entry_;
  fleet::ModelSource source_;
  fleet::PoolHome home_;
  fleet::EngineSlice slice_;
};

}  // namespace causeway::bench
