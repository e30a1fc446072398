// What a FleetHistory keeps, and does: internal to fleet_history*.cc.
#pragma once

#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "fleet/rate_meter.h"
#include "fleet/testing/fleet_history.h"

namespace causeway::fleet::testing {

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) { start(); }

  FleetHistoryReport run() {
    const std::int64_t events = random_.between(20, 300);
    for (std::int64_t i = 0; i < events && failure_.empty(); ++i) happen();
    settle();
    report_.failure = failure_;
    report_.counters = core_->counters();
    return report_;
  }

 private:
  struct Asked {
    ModelId model;
    SliceId slice;  // none: held
    std::int64_t routed = 0;
    bool cancelled = false;      // while it ran
    Nanos lost_at = Nanos(-1);   // its slice; negative: it runs, or never did
    bool given_back = false;     // its slice was told to
    std::int64_t withdrawn = 0;  // from slices that were closed, or gave it back
    std::int64_t suspected = 0;  // in a step of slices that were lost
    std::int64_t waited = 0;     // in those that were lost
    bool loads = false;          // asks for the model alone
    bool poison = false;         // brings down every slice that computes it
  };

  void start();
  void happen();
  void settle();
  void tell(const Event& event);
  std::string state() const;
  void arrive();
  void cancel();
  void ask();
  void tell_ask(RequestId id, const Event& event);
  void ask_to_load(RequestId id, ModelId model);
  void ask_to_unload(RequestId id, ModelId model);
  void ask_to_sleep(RequestId id);
  void ask_to_reload(RequestId id);
  bool any_there(const std::set<RequestId>& requests) const;
  CatalogueRead read_catalogue();
  ModelSpec new_model(std::int64_t number);
  void end_one();
  void answer_one();
  void lose_or_return();
  void lose(SliceId slice, RequestId by = {});
  void strike(RequestId poison);
  void stall();
  void resize();
  void see_link();
  void open_others();
  void give_back();
  void end_late(const std::vector<RequestId>& routed);
  void pass_time();
  Event answer_to(const Action& task);
  Event load_ended(ModelId model, SliceId slice);
  Event unload_ended(const Unload& unload);

  void apply(const Route& route);
  void apply(const CancelOn& cancel);
  void apply(const Withdraw& withdraw);
  void apply(const Refuse& refuse);
  void apply(const Answered& answered);
  void apply(const LoadFailed& failed) {
    if (failed.error.message.empty()) fail("a load fails without a reason");
  }
  void apply(const Measure& measure) { take(measure.model, measure); }
  void apply(const Load& load);
  void apply(const Unload& unload);
  void apply(const Drop& drop);
  void apply(const Resize& resize);
  void apply(const ModelRemoved& removed);
  void apply(const ModelKept& kept);
  void apply(const Reread&) {
    if (std::exchange(rereads_, true)) fail("the catalogue is read twice at once");
  }
  void take(ModelId model, const Action& task);

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  bool uses(ModelId model) const;
  bool rests(ModelId model) const;
  bool is_left(ModelId model, bool keeps_home) const;
  Bytes bytes(ModelId model) const { return bytes_[static_cast<std::size_t>(model.value)]; }
  const ModelSpec& spec(ModelId model) const {
    return spec_.models[static_cast<std::size_t>(model.value)];
  }
  Bytes host_used() const;
  std::set<ModelId>& on(SliceId slice) { return slices_[static_cast<std::size_t>(slice.value)]; }
  bool is_up(SliceId slice) const { return up_[static_cast<std::size_t>(slice.value)]; }
  template <typename Map>
  auto any_of(Map& map) {
    return std::next(map.begin(), random_.below(std::ssize(map)));
  }

  Random random_;
  FleetSpec spec_;
  FleetOptions options_;
  std::unique_ptr<FleetCore> core_;
  Nanos now_;
  std::vector<Bytes> bytes_;  // of models in host memory
  Bytes budget_;
  std::vector<std::set<ModelId>> slices_;  // what is on them
  std::vector<bool> up_, open_;
  std::set<SliceId> closing_;                        // these are to be
  bool closed_ = false;                              // they are, and others are to come
  Nanos drained_at_;                                 // when they have to be
  std::vector<std::int64_t> lost_;                   // how often each was lost, or closed
  std::set<std::pair<ModelId, SliceId>> forgotten_;  // attached after an unload that failed
  std::set<ModelId> home_;
  std::map<ModelId, Action> tasks_;                // that wait for their answers
  std::map<ModelId, std::int64_t> loading_since_;  // losses of the slice when the load began
  std::map<RequestId, Asked> requests_;
  std::set<RequestId> ended_;
  std::map<RequestId, Event> asks_;  // but those for loads, which are held as requests are
  std::set<RequestId> asks_refused_;
  std::map<RequestId, std::set<RequestId>> sleeps_behind_;  // requests that are to end before
  std::int64_t next_request_ = 0;
  std::int64_t wanted_ = 0;
  std::int64_t arriving_ = -1;  // the request that is being told of
  bool stalled_ = false;        // the loader, as the core knows
  bool resizes_ = false;
  bool rereads_ = false;                  // the loader, the catalogue
  RequestId reloader_;                    // who asked for that last
  std::map<ModelId, RequestId> removed_;  // as the core has said, and for whom
  std::set<ModelId> gone_;                // whose folders are, as the event being told says
  std::vector<RequestId> withdrawn_;      // by the event that is being told
  std::string failure_;
  FleetHistoryReport report_;
};

}  // namespace causeway::fleet::testing
