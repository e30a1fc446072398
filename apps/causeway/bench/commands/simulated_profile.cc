#include "bench/commands/simulated_profile.h"

#include "base/log.h"
#include "model/shape_text.h"

namespace causeway::app {

Status check_simulated_profile(const simulate::SimulationOptions& simulation, bool one_slice) {
  const schedule::ChunkProfile& profile = simulation.schedule.chunk.profile;
  if (profile.empty()) return {};
  if (!one_slice) {
    return invalid_argument(
        "--chunk-profile: simulated slices have no processors by which their tables are found; "
        "leave out --slices, or the profile");
  }
  for (const simulate::ModelShape& shape : simulation.models) {
    const std::string text = model::shape_text(shape.config, DType::kBF16);
    if (profile.find_largest(text) != nullptr) continue;
    spdlog::warn("{} has no table of the shape of {}, whose chunks are chosen without: {}",
                 profile.file, shape.name, text);
  }
  return {};
}

}  // namespace causeway::app
