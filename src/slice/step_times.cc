#include "slice/step_times.h"

#include <fmt/format.h>

#include "base/log.h"
#include "kernels/cpu.h"
#include "model/shape_text.h"

namespace causeway::slice {

std::string host_machine_name() {
  return fmt::format("cpu ({})", kernels::name_of(kernels::best_variant()));
}

std::string gpu_machine_name(const std::string& label) {
  const auto begin = label.find('('), end = label.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end <= begin) return label;
  return label.substr(begin + 1, end - begin - 1);
}

Result<StepTimes> StepTimes::of(const schedule::Options& options, std::string_view machine,
                                int processors) {
  const schedule::ChunkProfile& profile = options.chunk.profile;
  StepTimes times;
  if (profile.empty()) return times;
  const Status whole = schedule::check_chunk(options.chunk);
  if (!whole.ok()) return whole.error().with_context(profile.file);
  if (profile.machine != machine) {
    return invalid_argument(fmt::format(
        "{}: machine is '{}', and the slice is on '{}': the profile has to be measured anew",
        profile.file, profile.machine, machine));
  }
  const Tokens most(options.tokens_per_step_max);
  for (std::size_t i = 0; i < profile.tables.size(); ++i) {
    const schedule::ShapeTable& one = profile.tables[i];
    if (one.processors != processors || one.table.times.back().tokens >= most) continue;
    return invalid_argument(fmt::format(
        "{}: tables[{}].steps end at {} tokens, and a step has up to {}: the profile has to be "
        "measured anew with larger steps",
        profile.file, i, one.table.times.back().tokens.count, most.count));
  }
  times.profile_ = &profile;
  times.processors_ = processors;
  return times;
}

schedule::StepTable StepTimes::table(const model::ModelCard& card) {
  if (profile_ == nullptr) return {};
  std::string shape = model::shape_text(card.config, card.storage);
  const schedule::StepTable* const found = profile_->find(shape, processors_);
  if (found != nullptr) return *found;
  if (missed_.insert(shape).second) {
    spdlog::warn("{} has no table of this shape on {} processors, so chunks are chosen without: {}",
                 profile_->file, processors_, shape);
  }
  return {};
}

}  // namespace causeway::slice
