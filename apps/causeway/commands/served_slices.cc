#include "commands/served_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/log.h"
#include "commands/slices_here.h"
#include "commands/slices_of_workers.h"
#include "model/step_work.h"

namespace causeway::app {
namespace {

// The expected length of prompts, before any has been seen.
constexpr Tokens kPromptExpected(512);

std::string chosen_slices(const ServedSlicesOptions& options,
                          const std::vector<fleet::CatalogueModel>& models,
                          const slice::SliceFacts& facts) {
  std::vector<slice::SliceDemand> demands;
  for (const slice::SliceDemand& demand : demands_of(models)) {
    if (demand.bytes_per_step > Bytes(0)) demands.push_back(demand);
  }
  const slice::ChosenSlices chosen = slice::choose_slices(facts, demands, step_tokens(options));
  spdlog::info("--slices auto: {}, since {}", chosen.text, chosen.why);
  return chosen.text;
}

// Each is a whole GPU to the process that has it.
slice::SliceLayout layout_of(const std::vector<topology::ChosenInstance>& instances) {
  slice::SliceLayout layout;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    layout.parts.push_back({.gpu = static_cast<int>(i)});
    spdlog::info("slice {}: {}", i, instances[i].uuid);
  }
  return layout;
}

Result<slice::SliceLayout> layout_of(const ServedSlicesOptions& options,
                                     const std::vector<fleet::CatalogueModel>& models,
                                     slice::Machine& machine) {
  CAUSEWAY_ASSIGN(const slice::SliceFacts facts, machine.slice_facts(options.gpu));
  auto layout = slice::parse_slices(
      options.slices == "auto" ? chosen_slices(options, models, facts) : options.slices, facts);
  if (!layout.ok()) return layout.error().with_context("--slices " + options.slices);
  for (const std::string& note : layout->notes) spdlog::warn("--slices: {}", note);
  if (layout->parts.size() == 1) return layout;
  for (std::size_t i = 0; i < layout->parts.size(); ++i) {
    const slice::SlicePart& part = layout->parts[i];
    spdlog::info("slice {}: {} processors of {} {}", i, part.processors,
                 machine.cuda() != nullptr ? "GPU" : "device", part.gpu);
  }
  return layout;
}

}  // namespace

std::vector<slice::SliceDemand> demands_of(const std::vector<fleet::CatalogueModel>& models) {
  std::vector<slice::SliceDemand> demands;
  for (const fleet::CatalogueModel& model : models) demands.push_back(demand_of(model));
  return demands;
}

slice::SliceDemand demand_of(const fleet::CatalogueModel& model) {
  slice::SliceDemand demand;
  demand.model = model.entry->name;
  demand.tpot = model.entry->slo.tpot;
  const auto config = model::load_config(model.source.directory);
  if (!config.ok()) return demand;  // its load says so
  demand.flops_per_token = model::operations_per_token(*config);
  demand.bytes_per_step = model::decode_weight_bytes(*config, DType::kBF16, 1);
  return demand;
}

// Chunks that are chosen as they go become as small as others' targets ask.
Tokens step_tokens(const ServedSlicesOptions& options) {
  const schedule::Options& schedule = options.engine.core.schedule;
  return schedule.chunk.automatic ? schedule.chunk.least : Tokens(schedule.tokens_per_step_max);
}

Result<std::unique_ptr<ServedSlices>> ServedSlices::open(
    const ServedSlicesOptions& options, const std::vector<fleet::CatalogueModel>& models,
    slice::Machine& machine, engine::OutputSink& sink) {
  if (options.gpu >= machine.gpus()) {
    return invalid_argument(
        fmt::format("--gpu {}: this process sees {} GPU(s), counted from 0; see "
                    "CUDA_VISIBLE_DEVICES and `causeway topology`",
                    options.gpu, machine.gpus()));
  }
  if (!options.instances.empty()) {
    CAUSEWAY_CHECK(options.isolate, "a process has one MIG instance");
    return open_slices_of_workers(options, layout_of(options.instances), models, machine, sink);
  }
  CAUSEWAY_ASSIGN(const slice::SliceLayout layout, layout_of(options, models, machine));
  return options.isolate ? open_slices_of_workers(options, layout, models, machine, sink)
                         : open_slices_here(options, layout, models, machine, sink);
}

int ServedSlices::parts_later() {
  return opener() != nullptr ? slice::kPartsMax / static_cast<int>(slices_.size()) : 1;
}

std::int64_t ServedSlices::frames() {
  std::int64_t least = slices_.front().slice->frames();
  for (const Opened& one : slices_) least = std::min(least, one.slice->frames());
  return least / parts_later();
}

bool ServedSlices::any() {
  const std::scoped_lock lock(mutex_);
  return !slices_.empty();
}

slice::WeightRoom ServedSlices::weight_room() {
  slice::WeightRoom least = slices_.front().slice->weight_room();
  for (const Opened& one : slices_) {
    const slice::WeightRoom room = one.slice->weight_room();
    if (room.budget < least.budget) least = room;
  }
  least.budget = least.budget / parts_later();
  return least;
}

slice::WeightRoom ServedSlices::weight_room_most() {
  slice::WeightRoom most;
  for (const Opened& one : slices_) {
    const slice::WeightRoom room = one.slice->weight_room();
    if (room.budget > most.budget) most = room;
  }
  return most;
}

std::size_t ServedSlices::count() {
  const std::scoped_lock lock(mutex_);
  return slices_.size();
}

fleet::SliceSpec ServedSlices::spec_of(const slice::SliceLimits& limits, fleet::LinkId link) {
  return {.link = link,
          .models_max = 0,
          .memory = limits.memory,
          .memory_bytes_per_second = limits.memory_bytes_per_second,
          .flops_per_second = limits.flops_per_second};
}

fleet::FleetSlices ServedSlices::fleet() {
  fleet::FleetSlices fleet;
  fleet.opener = opener();
  for (const Opened& one : slices_) fleet.slices.push_back(&one.slice->seen());
  if (!several()) return fleet;
  std::map<int, fleet::LinkId> links;
  for (const Opened& one : slices_) {
    const slice::SliceLimits limits = one.slice->limits();
    const auto [link, added] =
        links.emplace(link_of(one.part), fleet::LinkId(std::ssize(fleet.links)));
    if (added) fleet.links.push_back({.bytes_per_second = limits.link_bytes_per_second});
    fleet.specs.push_back(spec_of(limits, link->second));
  }
  return fleet;
}

fleet::ModelSpec ServedSlices::spec_of(const model::ModelCard& card) const {
  fleet::ModelSpec spec;
  spec.weights = card.bytes_per_step;
  spec.flops_per_token = card.operations_per_token;
  spec.prompt = kPromptExpected;
  return spec;
}

void ServedSlices::stop() {
  const std::scoped_lock lock(mutex_);
  for (const Opened& one : slices_) one.slice->stop();
}

request::Observation ServedSlices::observe_dead() const {
  const std::scoped_lock lock(mutex_);
  request::Observation dead;
  std::size_t lost = 0;
  for (const Opened& one : slices_) {
    request::Observation seen = one.slice->seen().observe();
    // What hangs or is lost elsewhere is started again.
    if (one.slice->seen().restarts()) continue;
    if (seen.hung) return seen;
    if (!seen.lost.empty() && ++lost == slices_.size()) dead = seen;
  }
  return dead;
}

}  // namespace causeway::app
