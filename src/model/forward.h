// The forward pass of every family: a Batch in, logits out. Families differ only in what
// ModelConfig says (docs/design/families.md).
//
// Activations are computed in f32 and, when the weights are bf16, rounded to bf16 where each
// matrix product reads them; norms, RoPE, softmax and accumulation are in f32.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/result.h"
#include "kv/block_layout.h"
#include "model/config.h"
#include "request/batch.h"
#include "weights/weight_layout.h"

namespace causeway::model {

// The slice's KV memory: frame f lies at base + f × layout.frame.
struct KvMemory {
  std::byte* base = nullptr;
  kv::BlockLayout layout;
  DType dtype = DType::kBF16;
};

// On the CPU. Not thread-safe: one step at a time; uses the kernels' threads inside.
class HostForward {
 public:
  // `cached`: where groups are read that are cached or staged; `home`: where those at home are. The
  // memory outlives the object, the layouts need not.
  HostForward(ModelConfig config, const weights::PlacedWeights& cached,
              const weights::PlacedWeights& home);
  // For a model whose experts are cached one by one: `cached` lacks them, and they are read in
  // `slots` or at `home`.
  HostForward(ModelConfig config, const weights::PlacedWeights& cached,
              const weights::PlacedWeights& home, const weights::ExpertSlots& slots);
  // All in one place.
  HostForward(ModelConfig config, const weights::PlacedWeights& weights)
      : HostForward(std::move(config), weights, weights) {}
  ~HostForward();
  HostForward(HostForward&&) noexcept;
  HostForward& operator=(HostForward&&) noexcept;

  const ModelConfig& config() const;

  // Runs one step: writes K and V of the batch's tokens into `kv`, and into `logits`
  // [Batch::logit_rows(), vocab] (f32, row-major, in entry order) those of the rows that need some.
  // A token id outside the vocabulary is a CHECK failure: the server validates prompts. Groups are
  // read where `where` says; of staged ones the step waits for the semaphores, kDeadlineExceeded
  // after ten minutes, and of those that pass through a ring it raises the other one behind their
  // last use. `computing`: a lock that the caller holds; it is released while the step waits.
  Status run(const request::Batch& batch, const KvMemory& kv, weights::StepWeights where,
             std::span<float> logits, std::unique_lock<std::mutex>* computing = nullptr);
  Status run(const request::Batch& batch, const KvMemory& kv, std::span<float> logits) {
    return run(batch, kv, {}, logits);
  }
  // What the head has read for the last step's rows of logits: [rows, hidden], f32 (the final norm
  // of the last layer). Until the next run().
  std::span<const float> hidden() const;
  // How many tokens chose each expert in the last step, by layer that has experts and by expert.
  // Empty unless the model's experts are cached one by one.
  std::span<const std::uint32_t> experts_chosen() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::model
