// The seam between deciding and doing (docs/decisions/0014-seams.md): an engine hands an executor
// batches and gets completions with durations. Implementations: host (CPU), cuda, simulated.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "base/units.h"
#include "kv/rotation.h"
#include "request/batch.h"
#include "weights/weight_layout.h"

namespace causeway::engine {

class StepExecutor {
 public:
  struct Capabilities {
    // How many steps of resident models may be in flight. With more than one, a batch may hold
    // tokens that the step submitted before it has yet to choose (request::pending_token); the
    // executor fills them in when that step is done.
    int steps_in_flight_max = 1;
    // A step that runs longer counts as hanging. An executor whose steps always end, however slow,
    // gives a time that no step reaches.
    Nanos step_timeout = seconds(60);
    // Runs models whose weights are streamed (CachedModel::streams): one step of them all in flight
    // beside the others', in ranges of layers as their weights come.
    bool streams = false;
    // Moves KV between HBM and host memory: batches may have copies.
    bool rotates = false;
    // Resident models only: takes batches whose masks follow (LogitEdits::mask_follows).
    bool late_masks = false;
  };

  virtual ~StepExecutor() = default;
  virtual const Capabilities& capabilities() const = 0;

  // Starts a step, which reads the model's weights where `weights` says. Does not block on its
  // execution. Until its result has been returned the batch's frames stay valid, no other step
  // writes them, and `weights` stays valid. An error: the step was not started, but its copies of
  // KV were begun.
  virtual Status submit(request::Batch batch, weights::StepWeights weights) = 0;
  // An empty batch for the next step, which may have the memory of an earlier one.
  virtual request::Batch spare_batch() { return {}; }

  // Supplies the masks of the step that was submitted last, which awaits some, in the order of its
  // entries: once, before the next step of a resident model is submitted. A row without a mask may
  // sample any token. The step's result cannot come before. Engine-loop thread; does not block. An
  // error: the step fails, as its result will say. Only where capabilities().late_masks.
  virtual Status supply_masks(StepId /*step*/, std::vector<request::LateMask> /*masks*/) {
    CAUSEWAY_CHECK(false, "an executor that takes no late masks is given some");
    return {};
  }

  // The result of a step that has ended: steps of resident models in the order of their submission,
  // that of a streamed model when it ends, before or after any of these. Blocks until there is one
  // or `timeout` has passed (nullopt: call again; the caller must report a step that never ends). A
  // step must be in flight. Engine-loop thread, as submit().
  virtual std::optional<request::StepResult> wait(Nanos timeout) = 0;

  // Begins copies of KV without a step, as those of a batch: when there are some and no step is
  // started. Engine-loop thread; does not block. Only where capabilities().rotates.
  virtual void begin_copies(std::span<const kv::KvCopy> /*copies*/) {
    CAUSEWAY_CHECK(false, "an executor that does not rotate KV is to copy some");
  }
  // What has happened to copies of KV since the last call, including those of batches, in order.
  // Engine-loop thread; does not block. Call it every few milliseconds while copies are under way,
  // because only this call ends the wait for one that hangs; and after each result of wait(),
  // before acting on it, so that the failure of a copy is known before the end of a step that
  // waited for it.
  virtual std::vector<kv::KvCopyEnd> poll_copies() { return {}; }

  // Does work in advance that would delay the model's first steps (loading kernels), while no step
  // is in flight: in pieces of some milliseconds, until `stop` returns true. False: it was stopped;
  // the next call continues. Engine-loop thread.
  virtual bool warm_up(ModelId /*model*/, const std::function<bool()>& /*stop*/) { return true; }

  // The rates that the links grant to copies of KV now, or would grant. Any thread.
  virtual kv::KvCopyRates copy_rates() const { return {}; }

  // kDevice, in the driver's words, once the device is lost to this process: no step will work
  // again. Any thread; does not block.
  virtual Status health() const { return {}; }
};

}  // namespace causeway::engine
