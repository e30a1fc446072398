// The loop of a FleetCore: it owns the lock, two threads and the bodies of requests, and executes
// what the core decides. The loader loads models; the watch hears of slices and of time, also while
// the loader is held.
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

// Slices, and what they have. No `specs`: they divide what they have themselves, and one serves
// as well as another.
struct FleetSlices {
  std::vector<FleetSlice*> slices;  // at least one, borrowed
  std::vector<SliceSpec> specs;     // of each
  std::vector<LinkSpec> links;      // that these name
  SliceOpener* opener = nullptr;    // borrowed; null: they stay as they are
};

struct LocalFleetOptions {
  // Load as many models as fit at once, in the order of loads_before().
  bool load_ahead = true;
  std::int64_t waiting_for_load_max = 1024;  // requests held while their models load
  Nanos room_timeout = seconds(1);           // for models that could give way to end their requests
  Nanos unload_timeout = seconds(30);        // for the engine to let go of a model without requests
  Nanos stop_timeout = seconds(10);          // for a load to notice that it is to end
  Nanos stall_timeout = seconds(120);        // for the loader to show a sign of life
  std::int64_t resumes_max = 2;              // FleetOptions has these
  Nanos resume_timeout = seconds(60);
  Nanos return_timeout = seconds(30);
  PlacementKind placement = PlacementKind::kBandwidth;  // of models, where there are several slices
  // How long what runs on slices that are to be closed may go on there. An answer of a hundred
  // tokens at 30 ms ends within that; what is longer is computed again, prompt and all, elsewhere.
  Nanos drain_max = seconds(3);
  CatalogueReader* reader = nullptr;  // borrowed; null: the catalogue stays as it is
  const Clock* clock = nullptr;       // borrowed; null: the machine's
};

// An OutputSink takes one call at a time; the engine and the fleet deliver to the same target
// through this. It also asks the fleet which of the engine's outputs are to be delivered, and tells
// it which requests have ended with them, or were given back.
class SerialSink final : public engine::OutputSink {
 public:
  using Listener = std::function<void(const std::vector<RequestId>& ended,
                                      const std::vector<RequestId>& given_back)>;
  using Screen = std::function<RoutedRequests::Passed(std::vector<request::Output>)>;

  // Borrows `target`.
  explicit SerialSink(engine::OutputSink& target) : target_(target) {}
  // Called by engines. The listener hears of ends after the target has them.
  void on_outputs(std::vector<request::Output> outputs) override;
  // Called by the fleet, for outputs of its own. The listener is not told.
  void deliver(std::vector<request::Output> outputs);
  // Sets the listener and the screen. An empty listener hears nothing; an empty screen lets all
  // pass. Waits for calls of those before.
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
  // Home, slices and sink are borrowed and outlive the fleet; the slices deliver to the same sink.
  // Where there are several, or the one restarts, requests of a slice that is lost go on elsewhere.
  // With several, a model without requests changes slices as load moves. Entries are numbered from
  // 0 in the order of `models`. kInvalidArgument: two models of one name. kResourceExhausted: no
  // thread to be had.
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

  // Blocks until no model is loading or queued for it, or `timeout` has passed: false.
  bool wait_until_loaded(Nanos timeout) const;

  // Has slices closed and others opened, as the opener's own decisions do: those of `change` drain
  // from now on. kUnsupported: the fleet has no opener; kInvalidArgument: a slice that it does not
  // have; kUnavailable: models are being loaded, slices change already, or it has been stopped.
  Status resize(LayoutChange change);
  // Blocks until no slices change, or `timeout` has passed: false.
  bool wait_until_resized(Nanos timeout) const;

  // Ends the loader (cancelling a load under way) and the requests that wait for it. False: the
  // load has not ended within stop_timeout, which the log says; its thread is left. The slices are
  // their owner's to stop. Idempotent.
  bool stop();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::fleet
