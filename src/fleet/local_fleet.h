// A fleet of one slice in this process: models of the catalogue are loaded into host memory, ahead
// or when they are asked for, and all are served by one engine. When host memory is full, models
// without requests give way to one that is asked for (unload.h).
//
//   submit() ── ready ──────────────────────────────▶ engine
//      │                                                 ▲
//      └── not ready ─▶ waiting for the model ── loader thread: make room, attach(), add_model()
//                                                             │
//                               models that give way ◀────────┘ remove_model(), detach()
//
// Thread-safe. submit() and cancel() take one short lock; loading happens on a thread of its own.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "fleet/fleet.h"
#include "fleet/slice_backend.h"

namespace causeway::fleet {

struct CatalogueModel {
  std::unique_ptr<CatalogueEntry> entry;
  ModelSource source;
  bool pinned = false;  // never unloaded, nor taken out of the device's cache
};

struct LocalFleetOptions {
  // Load as many models as fit at once: pinned ones, then the others, in catalogue order.
  bool load_ahead = true;
  std::int64_t waiting_for_load_max = 1024;  // requests held while their models load
  Nanos room_timeout = seconds(1);           // for models that could give way to end their requests
  Nanos unload_timeout = seconds(30);        // for the engine to let go of a model without requests
  Nanos stop_timeout = seconds(10);          // for a load to notice that it is to end
};

// An OutputSink takes one call at a time; the engine and the fleet deliver to the same target
// through this.
class SerialSink final : public engine::OutputSink {
 public:
  // Borrows `target`.
  explicit SerialSink(engine::OutputSink& target) : target_(target) {}
  void on_outputs(std::vector<request::Output> outputs) override;

 private:
  std::mutex mutex_;
  engine::OutputSink& target_;
};

class LocalFleet final : public Fleet {
  class State;

 public:
  // Engine, backend and sink are borrowed and outlive the fleet; the engine delivers to the same
  // sink. Entries are numbered from 0 in the order of `models`. kInvalidArgument: two models of one
  // name. kResourceExhausted: no thread to be had.
  static Result<std::unique_ptr<LocalFleet>> start(std::vector<CatalogueModel> models,
                                                   const LocalFleetOptions& options,
                                                   engine::Engine& engine, SliceBackend& backend,
                                                   SerialSink& sink);
  explicit LocalFleet(std::unique_ptr<State> state);  // by start()
  // As stop(), but waits for a load that is held, however long.
  ~LocalFleet() override;

  const std::vector<const CatalogueEntry*>& catalogue() const override;
  const CatalogueEntry* find(std::string_view name) const override;
  ModelStatus status(ModelId model) const override;
  Status submit(request::Request request) override;
  void cancel(RequestId request) override;
  request::Observation observe() const override;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override;

  // Blocks until no model is loading or queued for it, or `timeout` has passed: false.
  bool wait_until_loaded(Nanos timeout) const;

  // Ends the loader (cancelling a load under way) and the requests that wait for it. False: the
  // load has not ended within stop_timeout, which the log says; its thread is left. The engine is
  // its owner's to stop. Idempotent.
  bool stop();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::fleet
