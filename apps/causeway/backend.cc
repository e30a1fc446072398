#include "backend.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace causeway::app {
namespace {

constexpr double kGigabyte = 1e9;

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / kGigabyte; }

// Logs a load's progress every few seconds, so that a long one is seen to move.
std::function<void(const weights::LoadProgress&)> log_progress(std::string name) {
  static constexpr Nanos kEvery = seconds(2);
  return [name = std::move(name), next = kEvery](const weights::LoadProgress& p) mutable {
    if (p.elapsed < next) return;
    next = p.elapsed + kEvery;
    spdlog::info("loading {}: {:.1f} of {:.1f} GB, {:.2f} GB/s, {:.0f} s left", name,
                 gigabytes(p.done), gigabytes(p.total), p.bytes_per_second / kGigabyte,
                 to_seconds(p.remaining));
  };
}

void log_loaded(const std::string& name, Bytes bytes, Nanos took) {
  spdlog::info("loaded {}: {:.2f} GB in {:.2f} s ({:.2f} GB/s)", name, gigabytes(bytes),
               to_seconds(took), gigabytes(bytes) / std::max(1e-9, to_seconds(took)));
}

}  // namespace

PooledBackend::PooledBackend(const PoolOptions& options, const Clock& clock)
    : options_(options), clock_(clock), pool_(memory_, clock, options.bytes) {}

Result<fleet::AttachedModel> PooledBackend::attach(const fleet::CatalogueEntry& entry,
                                                   const fleet::ModelSource& source,
                                                   const std::function<bool()>& cancelled) {
  const Nanos start = clock_.now();
  CAUSEWAY_ASSIGN(const model::ModelConfig config, model::load_config(source.directory));
  CAUSEWAY_TRY(pool_.load(entry.id, source.directory,
                          model::plan_weights(config, storage_of(config)),
                          {.threads = options_.load_threads,
                           .progress = log_progress(entry.name),
                           .cancelled = cancelled}));
  const auto tokens_per_block = add(entry.id, config);
  if (!tokens_per_block.ok()) {
    if (const Status undone = pool_.unload(entry.id); !undone.ok()) {
      spdlog::error("{}: {}", entry.name, undone.error().message);
    }
    return tokens_per_block.error();
  }
  CAUSEWAY_ASSIGN(const auto pinned, pool_.pin(entry.id));
  log_loaded(entry.name, pinned->bytes(), clock_.now() - start);
  return fleet::AttachedModel{.facts = {.tokens_per_block = *tokens_per_block,
                                        .max_model_len = entry.max_model_len,
                                        .vocab = config.vocab},
                              .bytes = pinned->bytes()};
}

Result<Tokens> PooledBackend::kv_capacity(const fleet::ModelSource& source) const {
  CAUSEWAY_ASSIGN(const model::ModelConfig config, model::load_config(source.directory));
  CAUSEWAY_ASSIGN(const kv::BlockLayout layout, layout_of(config));
  return Tokens(layout.tokens.count * frames());
}

Result<kv::BlockLayout> PooledBackend::layout_of(const model::ModelConfig& config) const {
  return kv::plan_block(model::kv_shape(config, storage_of(config)), kv_frame());
}

void PooledBackend::detach(ModelId model) {
  for (const Status& status : {remove(model), pool_.unload(model)}) {
    if (!status.ok()) spdlog::error("cannot let go of a model: {}", status.error().message);
  }
}

}  // namespace causeway::app
