#include "commands/slices_here.h"

#include <fmt/format.h>

#include <utility>

#include "commands/slice_share.h"
#include "fleet/engine_slice.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"

namespace causeway::app {
namespace {

class SliceHere final : public ServedSlice {
 public:
  SliceHere(slice::ModelHome& home, std::unique_ptr<slice::Slice> slice)
      : slice_(std::move(slice)), seen_(home, *slice_) {}
  fleet::FleetSlice& seen() override { return seen_; }
  std::int64_t frames() const override { return slice_->frames(); }
  slice::WeightRoom weight_room() const override { return slice_->weight_room(); }
  slice::SliceLimits limits() const override { return slice_->limits(); }
  void stop() override { slice_->engine().stop(Nanos(0)); }
  slice::Slice& slice() { return *slice_; }

 private:
  const std::unique_ptr<slice::Slice> slice_;
  fleet::EngineSlice seen_;
};

class SlicesHere final : public ServedSlices {
 public:
  void add(const slice::SlicePart& part, std::unique_ptr<SliceHere> slice) {
    all_.push_back(&slice->slice());
    slices_.push_back({part, std::move(slice)});
  }
  std::unique_ptr<fleet::PoolHome> pool_home(slice::ModelHome& home, const Clock& clock,
                                             std::unique_ptr<fleet::EarlyLoad> early) override {
    return std::make_unique<fleet::PoolHome>(home, all_, clock, fleet::LoadSettings(),
                                             std::move(early));
  }
  Result<model::ModelCard> card(const fleet::ModelSource& source) const override {
    CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
    return all_.front()->card(std::move(config));
  }

 private:
  std::vector<slice::Slice*> all_;
};

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

Result<std::unique_ptr<slice::Slice>> open_one(const ServedSlicesOptions& own,
                                               const slice::SlicePart& part,
                                               const std::vector<fleet::CatalogueModel>& models,
                                               slice::Machine& machine, engine::OutputSink& sink) {
  if (machine.cuda() == nullptr) {
    return slice::open_host_slice({.kv = own.kv,
                                   .kv_frame = own.kv_frame,
                                   .kv_host = {.bytes = own.kv_host},
                                   .cache = own.weights,
                                   .ring = own.ring,
                                   .experts = own.experts,
                                   .device = part.gpu,
                                   .threads = part.whole ? 0 : part.processors,
                                   .engine = own.engine},
                                  machine, sink);
  }
  return slice::open_cuda_slice({.gpu = part.gpu,
                                 .processors = part.whole ? 0 : part.processors,
                                 .share = part.share,
                                 .memory_utilization = own.memory_utilization,
                                 .kv = own.kv,
                                 .kv_frame = own.kv_frame,
                                 .kv_host = {.bytes = own.kv_host},
                                 .weights = own.weights,
                                 .ring = own.ring,
                                 .experts = own.experts,
                                 .engine = own.engine},
                                candidates_of(models), machine, sink);
}

}  // namespace

Result<std::unique_ptr<ServedSlices>> open_slices_here(
    const ServedSlicesOptions& options, const slice::SliceLayout& layout,
    const std::vector<fleet::CatalogueModel>& models, slice::Machine& machine,
    engine::OutputSink& sink) {
  auto served = std::make_unique<SlicesHere>();
  const std::size_t count = layout.parts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const slice::SlicePart& part = layout.parts[i];
    auto slice = open_one(share_of(options, part, gpus_of(layout)), part, models, machine, sink);
    if (!slice.ok()) {
      if (count == 1) return slice.error();
      return slice.error().with_context(fmt::format("slice {} of {}", i, count));
    }
    served->add(part, std::make_unique<SliceHere>(machine.home(), std::move(slice).value()));
  }
  return std::unique_ptr<ServedSlices>(std::move(served));
}

}  // namespace causeway::app
