#include "host_backend.h"

#include <fmt/format.h>

#include "base/log.h"
#include "model/config.h"

namespace causeway::app {

HostBackend::HostBackend(const HostBackendOptions& options, const Clock& clock)
    : options_(options), clock_(clock), pool_(memory_, clock, options.pool) {}

Result<std::unique_ptr<HostBackend>> HostBackend::create(const HostBackendOptions& options,
                                                         const Clock& clock) {
  if (options.kv < options.kv_frame || options.kv_frame < Bytes(1)) {
    return invalid_argument(fmt::format("--kv-cache-memory-bytes {} is less than one frame of {}",
                                        options.kv.count, options.kv_frame.count));
  }
  auto backend = std::make_unique<HostBackend>(options, clock);
  CAUSEWAY_TRY(backend->start());
  return backend;
}

Status HostBackend::start() {
  CAUSEWAY_ASSIGN(machine_, device::HostMachine::create({}, clock_, memory_));
  const Bytes arena = round_up(options_.kv, device::kExtentBytes);
  CAUSEWAY_ASSIGN(device_, machine_->open({.name = "cpu", .arena_bytes = arena}));
  auto frames =
      kv::FrameArena::create(*device_, options_.kv_frame, options_.kv / options_.kv_frame);
  if (!frames.ok()) return frames.error().with_context("memory for the KV cache");
  frames_.emplace(std::move(frames).value());
  const engine::HostFrames memory{
      .base = frames_->base(), .bytes = frames_->frame_bytes(), .count = frames_->frames()};
  CAUSEWAY_ASSIGN(executor_, engine::HostExecutor::start(memory, clock_));
  return {};
}

Result<fleet::AttachedModel> HostBackend::attach(const fleet::CatalogueEntry& entry,
                                                 const fleet::ModelSource& source,
                                                 const std::function<bool()>& cancelled) {
  const Nanos start = clock_.now();
  CAUSEWAY_ASSIGN(const model::ModelConfig config, model::load_config(source.directory));
  CAUSEWAY_TRY(pool_.load(entry.id, source.directory,
                          model::plan_weights(config, model::host_dtype(config.dtype)),
                          {.threads = options_.load_threads,
                           .progress = log_progress(entry.name),
                           .cancelled = cancelled}));
  auto runnable = make_runnable(entry.id, config);
  if (!runnable.ok()) {
    if (const Status undone = pool_.unload(entry.id); !undone.ok()) {
      spdlog::error("{}: {}", entry.name, undone.error().message);
    }
    return runnable.error();
  }
  const Tokens tokens_per_block = runnable->layout.tokens;
  CAUSEWAY_TRY(executor_->add_model(entry.id, std::move(runnable).value()));
  CAUSEWAY_ASSIGN(const auto pinned, pool_.pin(entry.id));
  const Nanos took = clock_.now() - start;
  log_loaded(entry.name, pinned->bytes(), took);
  return fleet::AttachedModel{.facts = {.tokens_per_block = tokens_per_block,
                                        .max_model_len = entry.max_model_len,
                                        .vocab = config.vocab},
                              .bytes = pinned->bytes()};
}

Result<engine::HostModel> HostBackend::make_runnable(ModelId model,
                                                     const model::ModelConfig& config) {
  const DType kv_dtype = model::host_dtype(config.dtype);
  CAUSEWAY_ASSIGN(const kv::BlockLayout layout,
                  kv::plan_block(model::kv_shape(config, kv_dtype), options_.kv_frame));
  CAUSEWAY_ASSIGN(auto pinned, pool_.pin(model));
  return engine::HostModel{
      .forward = std::make_unique<model::HostForward>(config, std::move(pinned)),
      .layout = layout,
      .kv_dtype = kv_dtype};
}

void HostBackend::detach(ModelId model) {
  for (const Status& status : {executor_->remove_model(model), pool_.unload(model)}) {
    if (!status.ok()) spdlog::error("cannot let go of a model: {}", status.error().message);
  }
}

}  // namespace causeway::app
