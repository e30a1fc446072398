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
  // Where a model lies: what one range of the arena holds, and its home.
  struct Place {
    CachedModel model;
    device::MemoryAddress home;  // of the layout's first byte: in host memory, or at a peer
  };

  // All outlive the mover. kResourceExhausted: no thread to be had.
  static Result<std::unique_ptr<TransferMover>> start(device::Device& device,
                                                      transfer::TransferEngine& engine,
                                                      transfer::LinkClaim& claim);
  TransferMover(device::Device& device, transfer::TransferEngine& engine,
                transfer::LinkClaim& claim);  // for start()
  // Waits for the copies that are under way. No step may still wait for a group.
  ~TransferMover() override;

  // Called on some thread whenever poll() has something new. When this returns, what was set before
  // is not called any more.
  void set_notify(std::function<void()> notify);

  // Where KV frames lie, if memory is to go to and from them. Before the first command; the range
  // outlives the mover, and only the mover commits and decommits its extents from now on.
  void set_frames(device::AddressRange& frames) { frames_ = &frames; }

  // Called on the mover's thread before memory is taken from a model that is not streamed: which
  // part of the arena, all of it with memory. Before the first command.
  using BeforeDrop = std::function<void(Bytes offset, Bytes bytes)>;
  void set_before_drop(BeforeDrop before_drop) { before_drop_ = std::move(before_drop); }

  // Reserves the model's addresses, which stay until remove_model(): where its first byte will be.
  // Any thread. kResourceExhausted: no addresses are left; a device's error.
  Result<std::byte*> add_model(ModelId model, Place place);
  // After WeightCache::remove_model(): waits until what that commanded has been executed.
  void remove_model(ModelId model);

  void submit(std::span<const WeightCommand> commands) override;
  std::vector<WeightEvent> poll() override;
  bool issued(ModelId model) const override;
  const device::Semaphore* semaphore(ModelId model, int group) const override;
  const device::Semaphore* streamed(ModelId model, int group) const override;
  device::Semaphore* consumed(ModelId model) const override;
  double granted_rate() const override { return claim_.rate(); }

  // Extents of models that have memory. Any thread.
  std::int64_t committed() const { return committed_.load(); }
  // Bytes of groups that have arrived since the start. Any thread.
  Bytes moved() const;

 private:
  struct Model {
    Place place;
    device::AddressRange range;
    std::vector<std::unique_ptr<device::Semaphore>> semaphores;  // by group
    std::vector<std::unique_ptr<device::Semaphore>> streamed;    // by streamed group
    std::unique_ptr<device::Semaphore> consumed;                 // null: nothing is streamed
    bool aliased = false;                                        // the ring shows; mover's thread
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
  // What a kBring, kStream or kExpert copies, and how.
  struct Part {
    Bytes home;    // from the model's home on
    Bytes offset;  // in its range
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
  device::AddressRange* frames_ = nullptr;
  BeforeDrop before_drop_;
  std::function<void()> notify_;
  std::atomic<std::int64_t> committed_{0};  // written by the mover's thread

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<ModelId, std::unique_ptr<Model>> models_;
  std::deque<WeightCommand> queue_;
  std::map<ModelId, std::int64_t> to_issue_;  // kBrings that have not been handed on
  std::int64_t bringing_ = 0;                 // copies that have not ended
  bool executing_ = false;
  int notifying_ = 0;  // threads
  bool stopping_ = false;
  std::map<const Copy*, std::unique_ptr<Copy>> copies_;  // under way
  std::vector<WeightEvent> outbox_;
  Bytes moved_;

  std::thread thread_;
};

}  // namespace causeway::weights
