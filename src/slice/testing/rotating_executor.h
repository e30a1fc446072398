// Stands before a slice's executor and rotates all KV of every batch once: what the step is to read
// goes from its frames to twins, zeros come into the frames, and what went comes back with the
// step. An executor that reads too early, or from another place, gives other answers. The twins are
// its own: it says that it does not rotate, so that the engine does not, too. For slices with one
// step in flight, twins for every frame and one more.
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "base/clock.h"
#include "engine/step_executor.h"

namespace causeway::slice::testing {

class RotatingExecutor final : public engine::StepExecutor {
 public:
  struct Seen {
    std::atomic<std::int64_t> out{0}, in{0}, failed{0}, given_up{0};
    // Whether each failure of a copy in was told before the end of the step that waited for it.
    std::atomic<bool> told_first{true};
  };
  // Borrowed all. `zeros`: the twin that nothing is ever copied to.
  RotatingExecutor(engine::StepExecutor& inner, TwinId zeros, Seen& seen)
      : inner_(inner), capabilities_(inner.capabilities()), zeros_(zeros), seen_(seen) {
    capabilities_.rotates = false;
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  // A step of which a copy failed ends with an error.
  std::optional<request::StepResult> wait(Nanos timeout) override;
  Status health() const override { return inner_.health(); }
  bool warm_up(ModelId model, const std::function<bool()>& stop) override {
    return inner_.warm_up(model, stop);
  }

 private:
  kv::KvCopy copy(kv::KvCopy::Direction direction, FrameId frame, TwinId twin);
  // Until nothing is under way.
  void do_copies(const std::vector<kv::KvCopy>& copies);
  void poll();

  engine::StepExecutor& inner_;
  Capabilities capabilities_;
  const TwinId zeros_;
  Seen& seen_;
  const RealClock clock_;
  std::map<kv::CopyId, kv::KvCopy> under_way_;
  std::int64_t next_ = 0;
  std::int64_t failed_of_step_ = 0;
};

}  // namespace causeway::slice::testing
