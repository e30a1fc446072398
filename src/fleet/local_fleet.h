// The loop of a FleetCore: it owns the lock, two threads and the bodies of requests, and executes
// the core's actions. The loader thread loads models. The watch thread notices lost slices and
// expired times, also while the loader is held up.
//
//   submit(), ask(), … ─┐               ┌─ Route, CancelOn ──▶ slices ──▶ SerialSink ──▶ target
//   outputs have ended ─┼─▶ FleetCore ──┼─ Refuse, Answered ─────────────────▲            │
//   loader: it is done ─┤               └─ Measure, Load, Unload ──▶ loader thread        │
//   a slice is lost, or ┤                                                                 │
//   slices are to change┘                                                                 │
//           ▲                                                                             │
//           └────────────────────────────── ends ◀────────────────────────────────────────┘
//
// Thread-safe. submit() and cancel() take one short lock; loading happens on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/slice_handle.h"
#include "fleet/catalogue_reader.h"
#include "fleet/fleet.h"
#include "fleet/fleet_home.h"
#include "fleet/fleet_slice.h"
#include "fleet/fleet_spec.h"
#include "fleet/placement.h"
#include "fleet/routed_requests.h"
#include "fleet/slice_opener.h"

namespace causeway::fleet {

// The slices of a fleet and their limits. Without `specs` the slices divide their memory
// themselves, and each serves as well as any other.
struct FleetSlices {
  std::vector<FleetSlice*> slices;  // at least one, borrowed
  std::vector<SliceSpec> specs;     // of each slice; or empty
  std::vector<LinkSpec> links;      // the links that `specs` name
  SliceOpener* opener = nullptr;    // borrowed; null: the slices never change
};

struct LocalFleetOptions {
  // Load models at the start, as many as fit, in the order of loads_before().
  bool load_ahead = true;
  std::int64_t waiting_for_load_max = 1024;  // requests held while their models load
  Nanos room_timeout = seconds(1);           // for models that could leave to end their requests
  Nanos unload_timeout = seconds(30);        // for the engine to release a model without requests
  Nanos stop_timeout = seconds(10);          // for a load to notice that it must end
  Nanos stall_timeout = seconds(120);        // for the loader to show a sign of life
  std::int64_t resumes_max = 2;              // FleetOptions::resumes_max
  Nanos resume_timeout = seconds(60);
  Nanos return_timeout = seconds(30);
  PlacementKind placement = PlacementKind::kBandwidth;  // of models, when there are several slices
  // How long requests may run on slices that are to be closed. An answer of a hundred tokens at 30
  // ms each ends within that time; longer ones are computed again elsewhere, prompt included.
  Nanos drain_max = seconds(3);
  CatalogueReader* reader = nullptr;  // borrowed; null: the catalogue stays as it is
  const Clock* clock = nullptr;       // borrowed; null: the machine's
};

// Serialises the outputs of engines and of the fleet to one target, because an OutputSink takes one
// call at a time. It also asks the fleet which outputs to deliver (the screen), and tells it which
// requests have ended or were given back (the listener).
class SerialSink final : public engine::OutputSink {
 public:
  using Listener = std::function<void(const std::vector<RequestId>& ended,
                                      const std::vector<RequestId>& given_back)>;
  using Screen = std::function<RoutedRequests::Passed(std::vector<request::Output>)>;

  // Borrows `target`.
  explicit SerialSink(engine::OutputSink& target) : target_(target) {}
  // Called by engines. The listener is told of ends after the target has them.
  void on_outputs(std::vector<request::Output> outputs) override;
  // Called by the fleet, for outputs of its own. The listener is not told.
  void deliver(std::vector<request::Output> outputs);
  // Sets the listener and the screen. With an empty listener no ends are reported; with an empty
  // screen all outputs are delivered. Waits for calls of the former ones.
  void listen(Listener listener, Screen screen = {});

 private:
  std::mutex mutex_;  // guards target and screen
  engine::OutputSink& target_;
  Screen screen_;
  std::mutex listener_mutex_;  // guards what follows
  Listener listener_;
};

class LocalFleet final : public Fleet {
  class State;

 public:
  // Home, slices and sink are borrowed and must outlive the fleet; the slices must deliver to the
  // same sink. When there are several slices, or the only one restarts, requests of a lost slice
  // continue elsewhere. With several slices a model without requests may change slices as the load
  // changes. Models get the ids 0, 1, … in the order of `models`. kInvalidArgument: two models have
  // the same name. kResourceExhausted: no thread is available.
  static Result<std::unique_ptr<LocalFleet>> start(std::vector<CatalogueModel> models,
                                                   const LocalFleetOptions& options,
                                                   FleetHome& home, FleetSlices slices,
                                                   SerialSink& sink);
  explicit LocalFleet(std::unique_ptr<State> state);  // by start()
  // Stops as stop() does, but waits for a load that is held, however long.
  ~LocalFleet() override;

  std::vector<const CatalogueEntry*> catalogue() const override;
  const CatalogueEntry* find(std::string_view name) const override;
  ModelStatus status(ModelId model) const override;
  Status submit(request::Request request) override;
  Status probe(request::Request request) override;
  Status ask(const Ask& ask) override;
  void cancel(RequestId request) override;
  bool asleep() const override;
  ReloadReport last_reload() const override;
  request::Observation observe() const override;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override;

  // Blocks until no model is being loaded or queued for loading. False: `timeout` has passed
  // before.
  bool wait_until_loaded(Nanos timeout) const;

  // Closes slices and opens others, as the opener's own decisions do: the slices of `change` drain
  // from now on. kUnsupported: the fleet has no opener; kInvalidArgument: the fleet does not have
  // such a slice; kUnavailable: models are being loaded, slices change already, or the fleet has
  // been stopped.
  Status resize(LayoutChange change);
  // Blocks until no slices change. False: `timeout` has passed before.
  bool wait_until_resized(Nanos timeout) const;

  // Ends the loader (cancelling its load) and the requests that wait for it. False: the load has
  // not ended within stop_timeout, as the log then says, and its thread is left running. The slices
  // must be stopped by their owner. Idempotent.
  bool stop();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::fleet
