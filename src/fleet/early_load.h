// The load of the first model, begun before there is a slice: opening a GPU takes most of a second,
// during which files can be read already. What needs the slice, making the memory reachable for its
// copies, waits for the slice.
//
//   EarlyLoad() ── reads ───────────────────────┐
//        open_cuda_slice() ── slice_opened() ───┴─ reach ── take()
//
// One thread calls the functions; the load has a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "fleet/catalogue.h"
#include "model/model_card.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::fleet {

class EarlyLoad {
 public:
  // Begins the load. `card`: as the slice will give it. Home and clock must outlive the load.
  EarlyLoad(slice::ModelHome& home, const Clock& clock, ModelId model, ModelSource source,
            model::ModelCard card);
  // Without a take() the load is cancelled, and what it loaded is unloaded. Waits for a read that
  // the file system holds up.
  ~EarlyLoad();
  EarlyLoad(const EarlyLoad&) = delete;
  EarlyLoad& operator=(const EarlyLoad&) = delete;

  ModelId model() const { return model_; }
  Bytes bytes() const { return card_.layout.bytes; }
  Nanos started() const { return started_; }

  // Tells the load of its slice; call it once. The slice must outlive the load from here on.
  void slice_opened(slice::Slice& slice);
  // Blocks until the model is loaded and reachable, and hands it to the caller. After an error
  // nothing of it stays. Polls `cancelled`. Call it once, after slice_opened().
  Status take(const std::function<bool()>& cancelled);

 private:
  void run();
  Status reach(device::HostAddress address, Bytes bytes);
  bool is_cancelled() const;
  weights::HomeLeaves leaves() const;
  void cancel();

  slice::ModelHome& home_;
  const ModelId model_;
  const ModelSource source_;
  const model::ModelCard card_;
  const Nanos started_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  slice::Slice* slice_ = nullptr;
  bool cancelled_ = false;
  bool ended_ = false;
  bool taken_ = false;
  Status outcome_;
  std::thread thread_;  // the last member, because the thread uses all of the above
};

}  // namespace causeway::fleet
