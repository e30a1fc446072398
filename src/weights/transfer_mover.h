// The WeightMover of a real device: extents of its arena, copies through the transfer engine.
//
//   engine loop ── commands ──▶ queue ──▶ mover's thread: commit, decommit, TransferEngine::submit
//   engine loop ◀── events ──── outbox ◀── transfer engine's thread: a copy has ended
//
// The semaphore of a group is raised by the copy stream, so that a step which waits for it on the
// device needs no thread of the host; when a copy fails, the mover raises it.
//
// While anything is on its way the mover's claim on the links has begun.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "device/arena.h"
#include "device/device.h"
#include "transfer/engine.h"
#include "transfer/link_shares.h"
#include "weights/command_order.h"
#include "weights/weight_cache.h"
#include "weights/weight_mover.h"

namespace causeway::weights {

class TransferMover final : public WeightMover {
 public:
  // Where a model lies: its range of the arena, and its home.
  struct Place {
    CachedModel model;
    device::MemoryAddress home;  // the first byte of the layout, in host memory or at a peer
  };

  // The arguments must outlive the mover. kResourceExhausted: no thread is available.
  static Result<std::unique_ptr<TransferMover>> start(device::Device& device,
                                                      transfer::TransferEngine& engine,
                                                      transfer::LinkClaim& claim);
  TransferMover(device::Device& device, transfer::TransferEngine& engine,
                transfer::LinkClaim& claim);  // for start()
  // Waits for the copies that are under way. No step may still wait for a group.
  ~TransferMover() override;

  // `notify` is called on some thread whenever poll() has something new. When this returns, the
  // function that was set before is not called any more.
  void set_notify(std::function<void()> notify);

  // Sets the range of KV frames, for memory that moves between frames and weights. Call it before
  // the first command. The range must outlive the mover, and from now on only the mover commits and
  // decommits its extents.
  void set_frames(device::AddressRange& frames) { frames_ = &frames; }

  // Called on the mover's thread before memory is taken from a model that is not streamed, with the
  // part of the arena, all of which has memory. Set it before the first command.
  using BeforeDrop = std::function<void(Bytes offset, Bytes bytes)>;
  void set_before_drop(BeforeDrop before_drop) { before_drop_ = std::move(before_drop); }

  // Reserves the model's addresses until remove_model(), and returns where its first byte will be.
  // Any thread. kResourceExhausted: no addresses are left; or a device's error.
  Result<std::byte*> add_model(ModelId model, Place place);
  // Call it after WeightCache::remove_model(); waits until the commands of that have been executed.
  void remove_model(ModelId model);

  void submit(std::span<const WeightCommand> commands) override;
  std::vector<WeightEvent> poll() override;
  bool issued(ModelId model) const override;
  const device::Semaphore* semaphore(ModelId model, int group) const override;
  const device::Semaphore* streamed(ModelId model, int group) const override;
  device::Semaphore* consumed(ModelId model) const override;
  double granted_rate() const override { return claim_.rate(); }

  // The number of models' extents that have memory. Any thread.
  std::int64_t committed() const { return committed_.load(); }
  // The bytes of groups that have arrived since the start. Any thread.
  Bytes moved() const;
  // The time since the start for which some were asked for and had not come. Any thread.
  Nanos busy() const;

 private:
  struct Model {
    Place place;
    device::AddressRange range;
    std::vector<std::unique_ptr<device::Semaphore>> semaphores;  // by group
    std::vector<std::unique_ptr<device::Semaphore>> streamed;    // by streamed group
    std::unique_ptr<device::Semaphore> consumed;                 // null: the model is not streamed
    bool aliased = false;  // the ring's aliases are in place; used by the mover's thread
  };
  class Copy;

  void loop();
  void execute(const WeightCommand& command);
  void execute_of_frames(const WeightCommand& command);
  Status commit(Model& model, const ExtentRun& extents);
  void decommit(Model& model, const WeightCommand& command);
  void bring(Model& model, const WeightCommand& command);
  void stream(Model& model, const WeightCommand& command);
  void load_expert(Model& model, const WeightCommand& command);
  Status show_ring(Model& model);
  void hide_ring(Model& model);
  // What a kBring, kStream or kExpert copies, and where.
  struct Part {
    Bytes home;    // offset from the model's home
    Bytes offset;  // offset in the model's range
    Bytes bytes;
  };
  struct Load {
    std::vector<Part> parts;
    device::CopyPriority priority = device::CopyPriority::kWeightsAhead;
    device::Semaphore* ready = nullptr;  // null: no step waits for it
  };
  void copy(Model& model, const WeightCommand& command, const Load& load);
  static Bytes bytes_of(const Model& model, const WeightCommand& command);
  void ended(Copy& copy, const Status& outcome);
  void finish(const WeightCommand& command, device::Semaphore* ready, const Status& outcome);
  void post(WeightEvent event);
  Model& model_of(ModelId id) const;

  device::Device& device_;
  transfer::TransferEngine& engine_;
  transfer::LinkClaim& claim_;
  const RealClock clock_;  // for busy() alone: nothing is decided by it
  device::AddressRange* frames_ = nullptr;
  BeforeDrop before_drop_;
  std::function<void()> notify_;
  std::atomic<std::int64_t> committed_{0};  // changed by the mover's thread

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<ModelId, std::unique_ptr<Model>> models_;
  std::deque<WeightCommand> queue_;
  std::map<ModelId, std::int64_t> to_issue_;  // by model: kBrings whose copies have not been begun
  std::int64_t bringing_ = 0;                 // copies that have not ended
  bool executing_ = false;
  int notifying_ = 0;  // threads in the notify function
  bool stopping_ = false;
  std::map<const Copy*, std::unique_ptr<Copy>> copies_;  // under way
  std::vector<WeightEvent> outbox_;
  Bytes moved_;
  Nanos busy_;        // until `busy_since_`
  Nanos busy_since_;  // when bringing_ last rose from zero

  std::thread thread_;
};

}  // namespace causeway::weights
