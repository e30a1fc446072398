// Slices in worker processes, one for each GPU that has some (docs/design/worker.md).
#pragma once

#include "commands/served_slices.h"

namespace causeway::app {

// As ServedSlices::open(). The workers are this program.
Result<std::unique_ptr<ServedSlices>> open_slices_of_workers(
    const ServedSlicesOptions& options, const slice::SliceLayout& layout,
    const std::vector<fleet::CatalogueModel>& models, slice::Machine& machine,
    engine::OutputSink& sink);

}  // namespace causeway::app
