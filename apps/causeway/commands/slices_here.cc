#include "commands/slices_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "commands/slice_share.h"
#include "fleet/engine_slice.h"
#include "slice/choose_layout.h"
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

slice::CudaCandidate candidate_of(const fleet::CatalogueModel& model) {
  return {.id = model.entry->id,
          .name = model.entry->name,
          .config = model::load_config(model.source.directory),
          .max_model_len = model.entry->max_model_len,
          .pinned = model.pinned,
          .max_resident = model.entry->max_resident};
}

std::vector<slice::CudaCandidate> candidates_of(const std::vector<fleet::CatalogueModel>& models) {
  std::vector<slice::CudaCandidate> candidates;
  for (const fleet::CatalogueModel& model : models) candidates.push_back(candidate_of(model));
  return candidates;
}

class SlicesHere final : public ServedSlices, public fleet::SliceOpener {
 public:
  SlicesHere(const ServedSlicesOptions& options, slice::Machine& machine, engine::OutputSink& sink,
             const std::vector<fleet::CatalogueModel>& models)
      : options_(options),
        machine_(machine),
        sink_(sink),
        candidates_(candidates_of(models)),
        demands_(demands_of(models)) {}

  Status open(const slice::SliceLayout& layout);
  std::unique_ptr<fleet::PoolHome> pool_home(slice::ModelHome& home, const Clock& clock,
                                             std::unique_ptr<fleet::EarlyLoad> early) override;
  Result<model::ModelCard> card(const fleet::ModelSource& source) const override {
    CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
    return first().card(std::move(config));
  }

  fleet::SliceOpener* opener() override { return resizes_ ? this : nullptr; }
  std::optional<fleet::LayoutChange> decide(std::span<const fleet::ModelDemand> demands,
                                            Nanos now) override;
  fleet::SlicesOpened reopen(const fleet::LayoutChange& change) override;
  void add(const fleet::CatalogueModel& model) override;

  // In the order in which they were opened; none while they change. The loader's.
  std::vector<slice::Slice*> all() const {
    std::vector<slice::Slice*> all;
    for (const Opened& one : slices_) all.push_back(&static_cast<SliceHere&>(*one.slice).slice());
    return all;
  }

 private:
  slice::Slice& first() const { return static_cast<SliceHere&>(*slices_.front().slice).slice(); }
  Result<std::unique_ptr<slice::Slice>> open_one(const slice::SlicePart& part, int gpus);
  Result<std::vector<Opened>> open_all(const std::vector<slice::SlicePart>& parts, int gpus);

  const ServedSlicesOptions options_;
  slice::Machine& machine_;
  engine::OutputSink& sink_;
  // By ModelId, once they are served. Those that were removed count when slices are opened anew.
  std::vector<slice::CudaCandidate> candidates_;  // the loader's
  std::vector<slice::SliceDemand> demands_;       // guarded by the mutex
  bool resizes_ = false;
  slice::SliceGpu gpu_;  // that is divided anew
  slice::LayoutState layout_;
};

// Slices as the home of models knows them: those that there are now. Its calls and changes of
// slices come from the fleet's loader, one at a time.
class HomeOfSlicesHere final : public fleet::SlicesOfHome {
 public:
  explicit HomeOfSlicesHere(const SlicesHere& slices) : slices_(slices) {}
  Result<model::ModelCard> card(model::ModelConfig config) const override {
    const auto all = slices_.all();
    if (all.empty()) return none();
    return all.front()->card(std::move(config));
  }
  Status check(ModelId model, const model::ModelCard& card) const override {
    Status first = none();
    for (slice::Slice* slice : slices_.all()) {
      const Status runs = slice->check(model, card);
      if (runs.ok()) return runs;
      if (slice == slices_.all().front()) first = runs;
    }
    return first;
  }
  Status reach(device::HostAddress address, Bytes bytes,
               const std::function<bool()>& cancelled) override {
    const auto all = slices_.all();
    return all.empty() ? Status(none()) : all.front()->reach(address, bytes, cancelled);
  }
  void unreach(device::HostAddress address, Bytes bytes) override {
    const auto all = slices_.all();
    if (!all.empty()) all.front()->unreach(address, bytes);
  }
  bool serves() const override {
    const auto all = slices_.all();
    return std::any_of(all.begin(), all.end(), [](slice::Slice* slice) {
      return slice->engine().observe().requests() > 0;
    });
  }

 private:
  static Error none() { return unavailable("no slice is open"); }
  const SlicesHere& slices_;
};

Status SlicesHere::open(const slice::SliceLayout& layout) {
  CAUSEWAY_ASSIGN(slices_, open_all(layout.parts, gpus_of(layout)));
  if (options_.slices != "auto") return {};
  CAUSEWAY_ASSIGN(const slice::SliceFacts facts, machine_.slice_facts(options_.gpu));
  gpu_ = facts.gpus[static_cast<std::size_t>(options_.gpu)];
  resizes_ =
      gpu_.flops_per_second_each > 0 && gpu_.units >= slice::kPartsMax && demands_.size() > 1;
  layout_.parts = static_cast<int>(slices_.size());
  layout_.changed = machine_.clock().now();
  return {};
}

std::unique_ptr<fleet::PoolHome> SlicesHere::pool_home(slice::ModelHome& home, const Clock& clock,
                                                       std::unique_ptr<fleet::EarlyLoad> early) {
  if (!resizes_) {
    return std::make_unique<fleet::PoolHome>(home, all(), clock, fleet::LoadSettings(),
                                             std::move(early));
  }
  // What loads early is loaded ahead: slices do not change before that has ended.
  if (early) early->slice_opened(first());
  return std::make_unique<fleet::PoolHome>(home, std::make_unique<HomeOfSlicesHere>(*this), clock,
                                           fleet::LoadSettings(), std::move(early));
}

Result<std::unique_ptr<slice::Slice>> SlicesHere::open_one(const slice::SlicePart& part, int gpus) {
  const ServedSlicesOptions own = share_of(options_, part, gpus);
  if (machine_.cuda() == nullptr) {
    return slice::open_host_slice({.kv = own.kv,
                                   .kv_frame = own.kv_frame,
                                   .kv_host = {.bytes = own.kv_host},
                                   .cache = own.weights,
                                   .ring = own.ring,
                                   .experts = own.experts,
                                   .switching = own.switching,
                                   .device = part.gpu,
                                   .threads = part.whole ? 0 : part.processors,
                                   .engine = own.engine},
                                  machine_, sink_);
  }
  return slice::open_cuda_slice({.gpu = part.gpu,
                                 .processors = part.whole ? 0 : part.processors,
                                 .unit = part.unit,
                                 .share = part.share,
                                 .memory_utilization = own.memory_utilization,
                                 .kv = own.kv,
                                 .kv_frame = own.kv_frame,
                                 .kv_host = {.bytes = own.kv_host},
                                 .weights = own.weights,
                                 .ring = own.ring,
                                 .experts = own.experts,
                                 .switching = own.switching,
                                 .engine = own.engine},
                                candidates_, machine_, sink_);
}

Result<std::vector<ServedSlices::Opened>> SlicesHere::open_all(
    const std::vector<slice::SlicePart>& parts, int gpus) {
  std::vector<Opened> opened;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto slice = open_one(parts[i], gpus);
    if (!slice.ok()) {
      if (parts.size() == 1) return slice.error();
      return slice.error().with_context(fmt::format("slice {} of {}", i, parts.size()));
    }
    opened.push_back(
        {parts[i], std::make_unique<SliceHere>(machine_.home(), std::move(slice).value())});
  }
  return opened;
}

std::optional<fleet::LayoutChange> SlicesHere::decide(std::span<const fleet::ModelDemand> demands,
                                                      Nanos now) {
  std::vector<slice::MeasuredDemand> measured;
  {
    const std::scoped_lock lock(mutex_);
    CAUSEWAY_CHECK(demands.size() <= demands_.size(), "demands of models that were added");
    for (std::size_t i = 0; i < demands.size(); ++i) {
      measured.push_back({demands_[i], demands[i].rate, demands[i].prompt, demands[i].output});
    }
  }
  const auto share = [&](int parts) {
    return 100 * slice::share_in_time(gpu_, parts, measured, step_tokens(options_));
  };
  const auto parts = slice::choose_layout(layout_, gpu_, measured, step_tokens(options_),
                                          options_.layout_rules, now);
  if (!parts) return std::nullopt;
  fleet::LayoutChange change{
      .closing = {},
      .opening = slice::parts_of(gpu_, options_.gpu, *parts),
      .why = fmt::format("{:.0f}% of the requests would keep their targets, not {:.0f}%",
                         share(*parts), share(layout_.parts))};
  for (const Opened& one : slices_) change.closing.push_back(&one.slice->seen());
  return change;
}

void SlicesHere::add(const fleet::CatalogueModel& model) {
  const auto at = static_cast<std::size_t>(model.entry->id.value);
  slice::SliceDemand demand = demand_of(model);
  CAUSEWAY_CHECK(at <= candidates_.size(), "models are numbered in order");
  if (at < candidates_.size()) {
    candidates_[at] = candidate_of(model);
  } else {
    candidates_.push_back(candidate_of(model));
  }
  const std::scoped_lock lock(mutex_);
  if (at < demands_.size()) {
    demands_[at] = std::move(demand);
  } else {
    demands_.push_back(std::move(demand));
  }
}

// All slices are of the GPU that is divided anew. What ends does so outside the lock, under which
// others look at what there is.
fleet::SlicesOpened SlicesHere::reopen(const fleet::LayoutChange& change) {
  layout_.changed = machine_.clock().now();
  std::vector<Opened> closing;
  {
    const std::scoped_lock lock(mutex_);
    closing = std::exchange(slices_, {});
  }
  std::vector<slice::SlicePart> before;
  for (const Opened& one : closing) before.push_back(one.part);
  closing.clear();
  fleet::SlicesOpened opened;
  auto others = open_all(change.opening, 1);
  if (!others.ok()) {
    opened.failure = others.error().message;
    others = open_all(before, 1);
    if (!others.ok()) opened.failure += "; nor could those before: " + others.error().message;
  }
  if (others.ok()) {
    const std::scoped_lock lock(mutex_);
    slices_ = std::move(others).value();
  }
  layout_.parts = std::max(1, static_cast<int>(slices_.size()));
  for (const Opened& one : slices_) {
    opened.slices.push_back(&one.slice->seen());
    opened.specs.push_back(spec_of(one.slice->limits(), fleet::LinkId(0)));
  }
  return opened;
}

}  // namespace

Result<std::unique_ptr<ServedSlices>> open_slices_here(
    const ServedSlicesOptions& options, const slice::SliceLayout& layout,
    const std::vector<fleet::CatalogueModel>& models, slice::Machine& machine,
    engine::OutputSink& sink) {
  auto served = std::make_unique<SlicesHere>(options, machine, sink, models);
  CAUSEWAY_TRY(served->open(layout));
  return std::unique_ptr<ServedSlices>(std::move(served));
}

}  // namespace causeway::app
