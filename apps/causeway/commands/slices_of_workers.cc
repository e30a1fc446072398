#include "commands/slices_of_workers.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <utility>

#include "commands/leased_links.h"
#include "commands/slice_share.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"
#include "transfer/lease_book.h"
#include "version.h"
#include "worker/worker.h"

namespace causeway::app {
namespace {

class SliceOfWorker final : public ServedSlice {
 public:
  SliceOfWorker(worker::Worker& worker, worker::WorkerSlice& slice)
      : worker_(worker), slice_(slice) {}
  fleet::FleetSlice& seen() override { return slice_; }
  std::int64_t frames() const override { return slice_.frames(); }
  slice::WeightRoom weight_room() const override { return slice_.weight_room(); }
  slice::SliceLimits limits() const override { return slice_.limits(); }
  void stop() override { worker_.stop(); }

 private:
  worker::Worker& worker_;
  worker::WorkerSlice& slice_;
};

// How models are kept is known without their slices, which reach homes themselves.
class HomeOfWorkers final : public fleet::SlicesOfHome {
 public:
  HomeOfWorkers(bool cuda, Bytes kv_frame, std::vector<fleet::FleetSlice*> slices)
      : cuda_(cuda), kv_frame_(kv_frame), slices_(std::move(slices)) {}
  Result<model::ModelCard> card(model::ModelConfig config) const override {
    return cuda_ ? slice::cuda_card(std::move(config), kv_frame_)
                 : slice::host_card(std::move(config), kv_frame_);
  }
  // Told by attach().
  Status check(ModelId, const model::ModelCard&) const override { return {}; }
  Status reach(device::HostAddress, Bytes, const std::function<bool()>&) override { return {}; }
  void unreach(device::HostAddress, Bytes) override {}
  bool serves() const override {
    for (const fleet::FleetSlice* slice : slices_) {
      if (slice->observe().requests() > 0) return true;
    }
    return false;
  }

 private:
  const bool cuda_;
  const Bytes kv_frame_;
  const std::vector<fleet::FleetSlice*> slices_;
};

class SlicesOfWorkers final : public ServedSlices {
 public:
  SlicesOfWorkers(bool cuda, Bytes kv_frame, const std::vector<topology::ChosenInstance>& instances,
                  std::unique_ptr<transfer::LeaseBook> leases)
      : cuda_(cuda), kv_frame_(kv_frame), instances_(instances), leases_(std::move(leases)) {}
  ~SlicesOfWorkers() override { slices_.clear(); }  // they use the workers

  void add(const std::vector<slice::SlicePart>& parts, std::unique_ptr<worker::Worker> worker) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      slices_.push_back({parts[i], std::make_unique<SliceOfWorker>(*worker, *worker->slices()[i])});
    }
    workers_.push_back(std::move(worker));
  }
  std::unique_ptr<fleet::PoolHome> pool_home(slice::ModelHome& home, const Clock& clock,
                                             std::unique_ptr<fleet::EarlyLoad>) override {
    return std::make_unique<fleet::PoolHome>(home, home_of_workers(), clock, fleet::LoadSettings());
  }
  Result<model::ModelCard> card(const fleet::ModelSource& source) const override {
    CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(source.directory));
    return home_of_workers()->card(std::move(config));
  }

 private:
  std::unique_ptr<fleet::SlicesOfHome> home_of_workers() const {
    std::vector<fleet::FleetSlice*> seen;
    for (const Opened& one : slices_) seen.push_back(&one.slice->seen());
    return std::make_unique<HomeOfWorkers>(cuda_, kv_frame_, std::move(seen));
  }

  int link_of(const slice::SlicePart& part) const override {
    return instances_.empty() ? part.gpu : topology::link_of_instance(instances_, part.gpu);
  }

  const bool cuda_;
  const Bytes kv_frame_;
  const std::vector<topology::ChosenInstance> instances_;
  const std::unique_ptr<transfer::LeaseBook> leases_;  // null: no worker shares a link
  std::vector<std::unique_ptr<worker::Worker>> workers_;
};

worker::SlicePlan plan_of(const ServedSlicesOptions& own, const slice::SlicePart& part) {
  return {.processors = part.whole ? 0 : part.processors,
          .unit = part.unit,
          .share = part.share,
          .kv = own.kv,
          .kv_frame = own.kv_frame,
          .kv_host = own.kv_host,
          .weights = own.weights,
          .ring = own.ring,
          .experts = own.experts,
          .memory_utilization = own.memory_utilization,
          .engine = own.engine};
}

Result<std::string> this_program() {
  std::error_code failed;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return io_error("cannot find this program to start workers of it", failed.value());
  return path.string();
}

}  // namespace

Result<std::unique_ptr<ServedSlices>> open_slices_of_workers(
    const ServedSlicesOptions& options, const slice::SliceLayout& layout,
    const std::vector<fleet::CatalogueModel>& models, slice::Machine& machine,
    engine::OutputSink& sink) {
  CAUSEWAY_ASSIGN(const std::string program, this_program());
  const bool cuda = machine.cuda() != nullptr;
  std::map<int, std::vector<slice::SlicePart>> by_gpu;
  for (const slice::SlicePart& part : layout.parts) by_gpu[part.gpu].push_back(part);
  std::vector<int> gpus;
  for (const auto& [gpu, parts] : by_gpu) gpus.push_back(gpu);
  CAUSEWAY_ASSIGN(auto leases,
                  book_of_workers(std::move(gpus), options.instances, machine.shares()));
  transfer::LeaseBook* const book = leases.get();
  auto served = std::make_unique<SlicesOfWorkers>(cuda, options.kv_frame, options.instances,
                                                  std::move(leases));
  int lessee = 0;
  for (const auto& [gpu, parts] : by_gpu) {
    worker::WorkerOptions worker;
    worker.command = {program, "worker", "--worker-socket", "3"};
    worker.name = fmt::format("{} {}", cuda ? "GPU" : "device", gpu);
    worker.version = version();
    worker.plan.backend = cuda ? worker::Backend::kCuda : worker::Backend::kHost;
    worker.plan.gpu = gpu;
    if (!options.instances.empty()) {
      const std::string& uuid = options.instances[static_cast<std::size_t>(gpu)].uuid;
      worker.name = uuid;
      worker.environment = {"CUDA_VISIBLE_DEVICES=" + uuid};
      worker.plan.gpu = 0;  // the only one that it sees
    }
    for (const slice::SlicePart& part : parts) {
      const int count = static_cast<int>(by_gpu.size());
      worker.plan.slices.push_back(plan_of(share_of(options, part, count), part));
    }
    if (book != nullptr) {
      worker.leases = book;
      worker.lessee = lessee;
      worker.plan.link_least = book->least(lessee);
    }
    lessee += 1;
    for (const fleet::CatalogueModel& model : models) {
      worker.plan.models.push_back({.id = model.entry->id,
                                    .name = model.entry->name,
                                    .directory = model.source.directory,
                                    .max_model_len = model.entry->max_model_len,
                                    .pinned = model.pinned,
                                    .max_resident = model.entry->max_resident});
    }
    auto started = worker::Worker::start(worker, machine.home(), machine.clock(), sink);
    if (!started.ok()) return started.error().with_context("the worker of " + worker.name);
    served->add(parts, std::move(started).value());
  }
  return std::unique_ptr<ServedSlices>(std::move(served));
}

}  // namespace causeway::app
