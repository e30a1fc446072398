// The part of a slice's device that caches weights: the mover, the cache that commands it, and the
// places of the models. The same for every device.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "device/device.h"
#include "model/model_card.h"
#include "slice/machine.h"
#include "slice/weight_sleeper.h"
#include "weights/model_pool.h"
#include "weights/transfer_mover.h"
#include "weights/weight_cache.h"

namespace causeway::slice {

class WeightEstate {
 public:
  // Device, links and the peer home from which weights come (or nullptr) must outlive the estate.
  // `options.extent` must be the arena's.
  static Result<std::unique_ptr<WeightEstate>> create(device::Device& device,
                                                      const SliceLinks& links, PeerHome* peer,
                                                      const weights::ResidencyOptions& options);
  WeightEstate(std::unique_ptr<weights::TransferMover> mover, PeerHome* peer,
               const weights::ResidencyOptions& options);  // for create()

  // Before weights are dropped they are copied to `memory`, which must outlive the estate. Call it
  // before add(). Errors as WeightSleeper::open().
  Status sleep_to(device::Device& device, device::HostMemory& memory);
  Bytes slept() const { return sleeper_ ? sleeper_->copied() : Bytes(0); }

  // Adds a model, and returns where it will be cached. Its home stays pinned until remove(). Errors
  // as WeightCache::check_fits(), PeerHome::add() and TransferMover::add_model().
  Result<weights::PlacedWeights> add(ModelId model, weights::CachedModel cached,
                                     std::unique_ptr<weights::PinnedModel> home);
  // Forgets the model; the engine, and with it the cache, must have forgotten it before.
  void remove(ModelId model);

  std::int64_t cached_extents() const { return mover_->committed(); }

  weights::WeightCache& cache() { return cache_; }
  weights::TransferMover& mover() { return *mover_; }
  const weights::TransferMover& mover() const { return *mover_; }

 private:
  Result<std::byte*> place(ModelId model, weights::CachedModel cached,
                           const weights::PinnedModel& home);

  PeerHome* const peer_;  // nullptr: groups come from host memory
  std::mutex mutex_;      // guards what follows
  std::map<ModelId, std::unique_ptr<weights::PinnedModel>> homes_;

  std::unique_ptr<WeightSleeper> sleeper_;  // the mover uses it
  std::unique_ptr<weights::TransferMover> mover_;
  weights::WeightCache cache_;
};

// The bytes that a transfer engine has moved from devices to host memory; 0 for null.
Bytes bytes_out(const transfer::TransferEngine* engine);

}  // namespace causeway::slice
