// Where `causeway bench kv` moves KV: a slice's frames, their twins in host memory, and what moves
// blocks between them, made as a slice makes them; beside the twins as much plain host memory,
// which is registered as one, for copies without any of that.
//
//   HBM          │ frame 0 │ frame 1 │ …            2 × blocks; as plain memory: two halves,
//   host, twins  │ twin 0  │ twin 1  │ …            the first of what goes out,
//   host, plain  │ half of what goes out │ in │     the second of what comes in
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "bench/copy_lanes.h"
#include "bench/kv_layers.h"
#include "kv/frame_arena.h"
#include "slice/machine.h"
#include "slice/model_home.h"
#include "slice/twin_home.h"

namespace causeway::bench {

struct KvStageSettings {
  bool on_gpu = true;
  int gpu = 0;
  double modelled_link = 2e9;  // bytes per second each way, where no GPU is used
  Bytes bytes = gib(16);       // both ways together; less where memory lacks
  Bytes block = mib(4);        // and frame
};

class KvStage {
 public:
  // kUnavailable without a GPU; kInvalidArgument for a GPU that is not there, blocks that no extent
  // holds a whole number of, or bytes of less than two blocks; kResourceExhausted. The clock
  // outlives the stage.
  static Result<std::unique_ptr<KvStage>> open(const KvStageSettings& settings, const Clock& clock);
  explicit KvStage(const Clock& clock) : clock_(clock), home_(clock, Bytes(0)) {}  // for open()

  std::int64_t blocks() const { return blocks_; }  // that move each way
  Bytes block() const { return frames_->frame_bytes(); }
  Bytes half() const { return block() * blocks_; }
  device::Device& device() { return *device_; }
  const kv::TwinMemory& twins() const { return twins_->twins(); }
  kv::TransferKvMover& mover() { return *mover_; }
  const Clock& clock() const { return clock_; }

  // The copy of a block between its frame and its twin.
  device::Copy block_copy(transfer::Direction direction, FrameId frame, TwinId twin) const;
  // Of what moves one way: its half of the device's memory and of the plain host memory.
  LayeredBases plain(transfer::Direction direction) const;

 private:
  Status open_machine(const KvStageSettings& settings);
  Status choose_size(const KvStageSettings& settings);
  Status open_memory(const KvStageSettings& settings);

  const Clock& clock_;
  slice::ModelHome home_;  // of its pool nothing is used
  std::int64_t blocks_ = 0;
  // In the order in which they are needed: what comes later ends first.
  std::unique_ptr<slice::Machine> machine_;
  std::unique_ptr<device::Device> device_;
  std::optional<kv::FrameArena> frames_;
  std::unique_ptr<kv::TwinMemory> plain_;  // two places, a half each
  std::unique_ptr<slice::TwinHome> twins_;
  slice::KvLinks links_;
  std::unique_ptr<kv::TransferKvMover> mover_;
};

}  // namespace causeway::bench
