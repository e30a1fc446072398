#include "commands/served_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"

namespace causeway::app {
namespace {

// Of prompts that nobody has seen yet.
constexpr Tokens kPromptExpected(512);

Bytes part_of(Bytes whole, double share) {
  return share < 1 ? Bytes(static_cast<std::int64_t>(static_cast<double>(whole.count) * share))
                   : whole;
}

std::vector<slice::CudaCandidate> candidates_of(const std::vector<fleet::CatalogueModel>& models) {
  std::vector<slice::CudaCandidate> candidates;
  for (const fleet::CatalogueModel& model : models) {
    candidates.push_back({.id = model.entry->id,
                          .name = model.entry->name,
                          .config = model::load_config(model.source.directory),
                          .max_model_len = model.entry->max_model_len,
                          .pinned = model.pinned,
                          .max_resident = model.entry->max_resident});
  }
  return candidates;
}

// `gpus`: that have slices.
Result<std::unique_ptr<slice::Slice>> open_one(const ServedSlicesOptions& options,
                                               const slice::SlicePart& part, double gpus,
                                               const std::vector<fleet::CatalogueModel>& models,
                                               slice::Machine& machine, engine::OutputSink& sink) {
  const Bytes kv_host = part_of(options.kv_host, part.share / gpus);
  const int processors = part.whole ? 0 : part.processors;
  if (machine.cuda() == nullptr) {
    return slice::open_host_slice({.kv = part_of(options.kv, part.share),
                                   .kv_frame = options.kv_frame,
                                   .kv_host = {.bytes = kv_host},
                                   .cache = part_of(options.weights, part.share),
                                   .ring = options.ring,
                                   .experts = options.experts,
                                   .threads = processors,
                                   .engine = options.engine},
                                  machine, sink);
  }
  return slice::open_cuda_slice({.gpu = part.gpu,
                                 .processors = processors,
                                 .share = part.share,
                                 .memory_utilization = options.memory_utilization,
                                 .kv = part_of(options.kv, part.share),
                                 .kv_frame = options.kv_frame,
                                 .kv_host = {.bytes = kv_host},
                                 .weights = part_of(options.weights, part.share),
                                 .ring = options.ring,
                                 .experts = options.experts,
                                 .engine = options.engine},
                                candidates_of(models), machine, sink);
}

}  // namespace

Result<std::unique_ptr<ServedSlices>> ServedSlices::open(
    const ServedSlicesOptions& options, const std::vector<fleet::CatalogueModel>& models,
    slice::Machine& machine, engine::OutputSink& sink) {
  CAUSEWAY_ASSIGN(const slice::SliceFacts facts, machine.slice_facts(options.gpu));
  auto layout = slice::parse_slices(options.slices, facts);
  if (!layout.ok()) return layout.error().with_context("--slices " + options.slices);
  for (const std::string& note : layout->notes) spdlog::warn("--slices: {}", note);
  std::set<int> gpus;
  for (const slice::SlicePart& part : layout->parts) gpus.insert(part.gpu);
  auto served = std::make_unique<ServedSlices>();
  for (const slice::SlicePart& part : layout->parts) {
    const std::size_t index = served->slices_.size();
    auto slice = open_one(options, part, static_cast<double>(gpus.size()), models, machine, sink);
    if (!slice.ok()) {
      if (layout->parts.size() == 1) return slice.error();
      return slice.error().with_context(fmt::format("slice {} of {}", index, layout->parts.size()));
    }
    if (layout->parts.size() > 1) {
      spdlog::info("slice {}: {} processors of {} {}", index, part.processors,
                   machine.cuda() != nullptr ? "GPU" : "device", part.gpu);
    }
    auto seen = std::make_unique<fleet::EngineSlice>(machine.home(), **slice);
    served->slices_.push_back({part, std::move(slice).value(), std::move(seen)});
  }
  return served;
}

std::vector<slice::Slice*> ServedSlices::all() const {
  std::vector<slice::Slice*> all;
  for (const Served& one : slices_) all.push_back(one.slice.get());
  return all;
}

Result<model::ModelCard> ServedSlices::card(const fleet::ModelSource& source) const {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
  return slices_.front().slice->card(std::move(config));
}

std::int64_t ServedSlices::frames() const {
  std::int64_t least = slices_.front().slice->frames();
  for (const Served& one : slices_) least = std::min(least, one.slice->frames());
  return least;
}

slice::WeightRoom ServedSlices::weight_room() const {
  slice::WeightRoom least = slices_.front().slice->weight_room();
  for (const Served& one : slices_) {
    const slice::WeightRoom room = one.slice->weight_room();
    if (room.budget < least.budget) least = room;
  }
  return least;
}

fleet::FleetSlices ServedSlices::fleet() {
  fleet::FleetSlices fleet;
  for (const Served& one : slices_) fleet.slices.push_back(one.seen.get());
  if (!several()) return fleet;
  std::map<int, fleet::LinkId> links;  // by GPU
  for (const Served& one : slices_) {
    const slice::SliceLimits limits = one.slice->limits();
    const auto [link, added] = links.emplace(one.part.gpu, fleet::LinkId(std::ssize(fleet.links)));
    if (added) fleet.links.push_back({.bytes_per_second = limits.link_bytes_per_second});
    fleet.specs.push_back({.link = link->second,
                           .models_max = 0,
                           .memory = limits.memory,
                           .memory_bytes_per_second = limits.memory_bytes_per_second,
                           .flops_per_second = limits.flops_per_second});
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
  for (const Served& one : slices_) one.slice->engine().stop(Nanos(0));
}

request::Observation ServedSlices::observe_dead() const {
  request::Observation lost;
  std::size_t count = 0;
  for (const Served& one : slices_) {
    request::Observation seen = one.slice->engine().observe();
    if (seen.hung) return seen;
    if (!seen.lost.empty() && ++count == slices_.size()) lost = seen;
  }
  return lost;
}

}  // namespace causeway::app
