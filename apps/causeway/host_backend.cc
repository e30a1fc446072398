#include "host_backend.h"

#include <fmt/format.h>

#include "model/config.h"

namespace causeway::app {

HostBackend::HostBackend(const HostBackendOptions& options, const Clock& clock)
    : PooledBackend({.bytes = options.pool, .load_threads = options.load_threads}, clock),
      options_(options) {}

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
  CAUSEWAY_ASSIGN(machine_, device::HostMachine::create({}, clock(), memory()));
  const Bytes arena = round_up(options_.kv, device::kExtentBytes);
  CAUSEWAY_ASSIGN(device_, machine_->open({.name = "cpu", .arena_bytes = arena}));
  auto frames =
      kv::FrameArena::create(*device_, options_.kv_frame, options_.kv / options_.kv_frame);
  if (!frames.ok()) return frames.error().with_context("memory for the KV cache");
  frames_.emplace(std::move(frames).value());
  const engine::HostFrames memory{
      .base = frames_->base(), .bytes = frames_->frame_bytes(), .count = frames_->frames()};
  CAUSEWAY_ASSIGN(executor_, engine::HostExecutor::start(memory, clock()));
  return {};
}

DType HostBackend::storage_of(const model::ModelConfig& config) const {
  return model::host_dtype(config.dtype);
}

Result<Tokens> HostBackend::add(ModelId model, const model::ModelConfig& config) {
  CAUSEWAY_ASSIGN(const kv::BlockLayout layout, layout_of(config));
  CAUSEWAY_ASSIGN(auto pinned, pool().pin(model));
  CAUSEWAY_TRY(executor_->add_model(
      model, {.forward = std::make_unique<model::HostForward>(config, std::move(pinned)),
              .layout = layout,
              .kv_dtype = storage_of(config)}));
  return layout.tokens;
}

Status HostBackend::remove(ModelId model) { return executor_->remove_model(model); }

}  // namespace causeway::app
