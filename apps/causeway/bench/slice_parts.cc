#include "bench/slice_parts.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "base/random.h"
#include "device/memory_headroom.h"
#include "kernels/testing/random_bf16.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"

namespace causeway::bench {
namespace {

constexpr Bytes kExtentOnCpu = mib(2);
constexpr Bytes kKvOnCpu = mib(512);

// Random bf16, a piece of it again and again: what crosses the link does not depend on more.
void fill_model(std::span<std::byte> memory) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  const std::size_t first = std::min(kPiece, memory.size());
  kernels::testing::fill_random_bf16(memory.first(first), 3, 0.03f);
  std::vector<std::thread> threads;
  const std::size_t parts = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
  for (std::size_t part = 0; part < parts; ++part) {
    threads.emplace_back([&, part] {
      for (std::size_t at = kPiece * (part + 1); at < memory.size(); at += kPiece * parts) {
        std::memcpy(memory.data() + at, memory.data(), std::min(kPiece, memory.size() - at));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

slice::HostSliceOptions host_options(const SliceSettings& settings) {
  return {.kv = settings.kv > Bytes(0) ? settings.kv : kKvOnCpu,
          .kv_frame = settings.kv_frame,
          .kv_host = {.bytes = settings.kv_host},
          .cache = settings.weights,
          .ring = settings.ring,
          .experts = settings.experts,
          .engine = settings.engine,
          .executor_front = settings.executor_front};
}

// Devices of the CPU backend, which say nothing of any GPU.
Result<std::unique_ptr<slice::Machine>> open_modelled(const SliceSettings& settings,
                                                      slice::ModelHome& home, const Clock& clock) {
  device::HostMachineOptions host{.devices = settings.modelled_links,
                                  .extent_bytes = settings.extent()};
  if (settings.modelled_link > 0) {
    host.links = device::make_link_tree({.devices = settings.modelled_links,
                                         .link = settings.modelled_link,
                                         .link_duplex = 1.8 * settings.modelled_link,
                                         .peer_link = 7 * settings.modelled_link});
  }
  slice::LinkOptions links = settings.links;
  links.engine.dispatch.multipath_bytes_min = mib(2);  // its links are slow
  return slice::Machine::open_host(std::move(host), std::move(links), home, clock);
}

slice::CudaSliceOptions cuda_options(const SliceSettings& settings) {
  return {.gpu = settings.gpu,
          .memory_utilization = settings.memory_utilization,
          .kv = settings.kv,
          .kv_frame = settings.kv_frame,
          .kv_host = {.bytes = settings.kv_host},
          .weights = settings.weights,
          .ring = settings.ring,
          .experts = settings.experts,
          .graphs = settings.graphs,
          .engine = settings.engine,
          .executor_front = settings.executor_front};
}

}  // namespace

Bytes SliceSettings::extent() const { return on_gpu() ? device::kExtentBytes : kExtentOnCpu; }

Result<Bytes> SliceSettings::home() const {
  if (pool > Bytes(0)) return pool;
  CAUSEWAY_ASSIGN(const device::MemoryHeadroom headroom, device::read_memory_headroom());
  return headroom.bytes;
}

Result<model::ModelCard> SliceSettings::card(const model::ModelConfig& config) const {
  return model::make_card(config, on_gpu() ? DType::kBF16 : model::host_dtype(config.dtype),
                          kv_frame);
}

void pause_until(Nanos when, const Clock& clock) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (Nanos left = when - clock.now(); left > Nanos(0); left = when - clock.now()) {
    (void)never.wait_for(lock, std::chrono::nanoseconds(left.count));
  }
}

LocalSlice::~LocalSlice() {
  if (slice_) slice_->engine().stop(Nanos(0));
}

Status LocalSlice::open(const SliceSettings& settings, std::vector<BenchModel> models) {
  models_ = std::move(models);
  if (!settings.on_gpu()) {
    CAUSEWAY_ASSIGN(machine_, open_modelled(settings, home_, clock_));
    CAUSEWAY_ASSIGN(slice_, slice::open_host_slice(host_options(settings), *machine_, sink_));
    return {};
  }
  CAUSEWAY_ASSIGN(machine_, slice::Machine::open_gpus(settings.links, home_, clock_));
  std::vector<slice::CudaCandidate> candidates;
  for (const BenchModel& model : models_) {
    candidates.push_back({.id = model.id,
                          .name = "model " + std::to_string(model.id.value),
                          .config = model.config,
                          .max_model_len = model.max_model_len,
                          .max_resident = model.max_resident});
  }
  CAUSEWAY_ASSIGN(slice_,
                  slice::open_cuda_slice(cuda_options(settings), candidates, *machine_, sink_));
  return {};
}

Result<model::ModelCard> LocalSlice::add(ModelId id) {
  const BenchModel& model = models_[static_cast<std::size_t>(id.value)];
  CAUSEWAY_ASSIGN(model::ModelCard card, slice_->card(model.config));
  const auto reach = [&](device::HostAddress address, Bytes bytes) {
    return slice_->reach(address, bytes, {});
  };
  const auto fill = [&](std::span<std::byte> memory) {
    fill_model(memory);
    if (model.adjust) model.adjust(memory, card);
    return Status();
  };
  const bool at_home = home_.pool.is_loaded(id);
  if (!at_home) CAUSEWAY_TRY(home_.pool.make(id, card.layout, fill, {.home_taken = reach}));
  CAUSEWAY_ASSIGN(auto pinned, home_.pool.pin(id));
  if (at_home) CAUSEWAY_TRY(reach(pinned->address(), pinned->bytes()));
  CAUSEWAY_ASSIGN(const engine::ModelFacts facts,
                  slice_->attach({.id = id,
                                  .card = card,
                                  .home = std::move(pinned),
                                  .max_model_len = model.max_model_len,
                                  .max_resident = model.max_resident,
                                  .alpha = model.alpha}));
  CAUSEWAY_TRY(slice_->engine().add_model(id, facts));
  facts_.insert_or_assign(id, facts);
  return card;
}

Result<RequestId> LocalSlice::submit(ModelId model, std::vector<TokenId> prompt,
                                     std::int64_t output) {
  request::Request request;
  request.id = RequestId(next_request_++);
  request.model = model;
  request.prompt = std::move(prompt);
  request.sampling.temperature = temperature_;
  request.sampling.seed = static_cast<std::uint64_t>(request.id.value);
  request.max_tokens = Tokens(output);
  request.slo = slo_;
  request.arrival = clock_.now();
  const RequestId id = request.id;
  CAUSEWAY_TRY(slice_->engine().submit(std::move(request)));
  return id;
}

Result<RequestId> LocalSlice::submit(ModelId model, std::int64_t prompt, std::int64_t output) {
  Random random(static_cast<std::uint64_t>(next_request_));
  const std::int64_t vocab = models_[static_cast<std::size_t>(model.value)].config.vocab;
  std::vector<TokenId> tokens(static_cast<std::size_t>(prompt));
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.below(vocab));
  return submit(model, std::move(tokens), output);
}

Status LocalSlice::stop(const std::vector<RequestId>& requests) {
  for (const RequestId id : requests) slice_->engine().cancel(id);
  for (const RequestId id : requests) CAUSEWAY_TRY(status_of(sink_.wait_for_end(id, kPatience)));
  return {};
}

}  // namespace causeway::bench
