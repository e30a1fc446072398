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
    // How often submit() of resident models may be called again before wait(). With more than one
    // step in flight, a batch may hold tokens that the step submitted before it has yet to choose
    // (request::pending_token): the executor puts them there when that step is done.
    int steps_in_flight_max = 1;
    // A step that runs longer is taken to hang. An executor whose steps always end, be they slow,
    // says so with a time that none of them takes.
    Nanos step_timeout = seconds(60);
    // Runs models whose weights are streamed (CachedModel::streams): one step of them all in flight
    // beside the others', in ranges of layers as their weights come.
    bool streams = false;
    // Moves KV between HBM and host memory: batches may have copies.
    bool rotates = false;
    // Of resident models, takes batches in which masks follow (LogitEdits::mask_follows).
    bool late_masks = false;
  };

  virtual ~StepExecutor() = default;
  virtual const Capabilities& capabilities() const = 0;

  // Starts a step, which reads the model's weights where `weights` says. Does not block on its
  // execution. Until its result has been returned the batch's frames stay valid and are written by
  // no other step, and `weights` stays valid. An error: the step was not started; its copies of KV
  // were all the same.
  virtual Status submit(request::Batch batch, weights::StepWeights weights) = 0;

  // The masks that follow for the step that was submitted last, which awaits some, in the order of
  // its entries: once, before the next step of a resident model is submitted. A row that none is
  // for may sample any token. The step's result cannot come before. Engine-loop thread; does not
  // block. An error: the step fails, as its result will say. Only where capabilities().late_masks.
  virtual Status supply_masks(StepId /*step*/, std::vector<request::LateMask> /*masks*/) {
    CAUSEWAY_CHECK(false, "an executor that takes no late masks is given some");
    return {};
  }

  // The result of a step that has ended: of resident models in the order of their submission; that
  // of a streamed model when it ends, before or after any of these. Blocks until there is one or
  // `timeout` has passed (nullopt: try again; a step that never ends is the caller's to report). A
  // step in flight must exist. Engine-loop thread, as submit().
  virtual std::optional<request::StepResult> wait(Nanos timeout) = 0;

  // Begins copies of KV without a step, as those of a batch: when there are some and no step is
  // started. Engine-loop thread; does not block. Only where capabilities().rotates.
  virtual void begin_copies(std::span<const kv::KvCopy> /*copies*/) {
    CAUSEWAY_CHECK(false, "an executor that does not rotate KV is to copy some");
  }
  // What has become of copies of KV since the last call, those of batches among them, in order.
  // Engine-loop thread; does not block. To be called every few milliseconds while copies are under
  // way, because it is what ends the wait for one that hangs; and after each result of wait(),
  // before that is acted on: then the failure of a copy is known before the end of a step that
  // waited for it.
  virtual std::vector<kv::KvCopyEnd> poll_copies() { return {}; }

  // Does ahead what would hold up the model's first steps (loads kernels), while no step is in
  // flight: in pieces of some milliseconds, until `stop` says that something else is to be done.
  // False: it was stopped; the next call goes on. Engine-loop thread.
  virtual bool warm_up(ModelId /*model*/, const std::function<bool()>& /*stop*/) { return true; }

  // The rates that the links grant to copies of KV now, or would if there were any. Any thread.
  virtual kv::KvCopyRates copy_rates() const { return {}; }

  // kDevice, in the driver's words, once the device is lost to this process: no step will work
  // again. Any thread; does not block.
  virtual Status health() const { return {}; }
};

}  // namespace causeway::engine
