// Slices in the server's own process.
#pragma once

#include "commands/served_slices.h"

namespace causeway::app {

// As ServedSlices::open().
Result<std::unique_ptr<ServedSlices>> open_slices_here(
    const ServedSlicesOptions& options, const slice::SliceLayout& layout,
    const std::vector<fleet::CatalogueModel>& models, slice::Machine& machine,
    engine::OutputSink& sink);

}  // namespace causeway::app
