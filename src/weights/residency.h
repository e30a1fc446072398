// What HBM holds of the weights whose home is host memory: which models come, which give way, when
// a step may start. docs/design/residency.md draws the parts around it.
//
// A state machine: events and `now` in, commands out; no clock, no I/O, no threads, no memory but
// its tables. A WeightMover executes the commands in their order.
//
//   group   home ──bring──▶ arriving ──arrived──▶ cached ──drop──▶ home
//                              └──────failed──────▶ home (extents stay until no step uses them)
//
//   model   queue (requests, groups missing) ──▶ arriving ──▶ served ─quantum over─▶ leaving ┐
//             ▲──────────── at the end, if it still has requests ◀── last step ended ────────┘
//
// Rules
// - The queue is first come, first served: by when a model's requests began to wait. An arrival
//   gets all the room that its required groups lack, or evicts nothing.
// - Room is taken from cached groups that a step can also read at home; then from models without
//   requests, cheapest to bring back first (bytes × rate of requests); then from models whose
//   quantum is over, longest served first; then from what models further back in the queue still
//   have. Groups are dropped from the end of the reading order, only as many as are needed.
// - A model that left when its quantum was over takes no other's place before the other has had a
//   whole quantum since: two models do not swap for the sake of a third.
// - A quantum is not over before a step of the model has begun, or could have (offer()), since it
//   came, however short quanta are and however long others hold the device.
// - Pinned models keep their place from when all that a step needs is cached; models with a step in
//   flight are left to drain first ("leaving"), and are not stepped meanwhile.
// - Groups that a step can read at home come one after the other when their model has been served
//   for a while (optional_after), the link has nothing else to do and no model waits for room, into
//   free extents or those of models without requests that are asked for less than half as often.
//   Copies of required groups overtake them, and their model queues, gives way and is stepped as if
//   they stayed at home.
//
// The wait of a model is bounded. With n models, arrivals that succeed and steps that end, a model
// is served after at most the quanta of the others, n arrivals, and 6 n of the longest steps. The
// queue is strict: a model that would fit now still waits for a larger one before it.
//
// An extent that neighbouring groups share is committed while one of them needs it. After
// set_budget() to less than is committed, committed extents only ever shrink until they fit.
//
// One thread. Calls for a model that is not known fail a CHECK, where no error is documented.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::weights {

// One group of a model, in the order in which a step reads them.
struct ResidentGroup {
  Bytes offset;  // in the model's range
  Bytes bytes;   // ≥ 1
  // A step can read it at home until it is cached (the embedding when untied); such groups stand
  // last. All others are "required".
  bool readable_at_home = false;
  // Memory that a model needs beside its groups, into which nothing is copied when it is brought:
  // the ring of a streamed model.
  bool memory_only = false;
};

struct ResidencyOptions {
  Bytes extent = mib(32);
  std::int64_t extents = 0;      // budget of the cache, at the start
  std::int64_t extents_max = 0;  // what set_budget() may give later; 0: no more than there is now
  Nanos quantum_min = millis(500);
  double quantum_factor = 4;  // × the time that bringing the model takes
  // Groups that a step can read at home come when the model has been served for so long: copies
  // into the device's memory slow down the steps beside them, and the first ones after a switch
  // have waited already.
  Nanos optional_after = millis(500);
  Nanos rate_decay = seconds(60);  // time constant of the decayed request rate
  int arrivals_max = 2;            // under way at once
  int attempts_max = 2;            // failed arrivals in a row before requests fail
};

struct WeightCommand {
  // These come from the cache, not from a Residency: kStream, a group of a streamed model into its
  // ring; kExpert, one expert into its slot.
  enum class Kind : std::uint8_t { kDecommit, kCommit, kBring, kStream, kExpert };
  Kind kind = Kind::kBring;
  ModelId model;  // invalid: of the KV frames (a Residency commands nothing of theirs)
  // kCommit, kDecommit: of the range of the model, or of the frames.
  std::int64_t first_extent = 0;
  std::int64_t extents = 0;
  // kBring; kStream: of the streamed groups, and the pass for which it comes; kExpert: the layer,
  // of those that have experts.
  int group = 0;
  std::uint32_t arrival = 0;  // counts up per model from 1: the value that its semaphores get
  // kExpert: of the layer, and where it goes.
  std::int32_t expert = 0;
  std::int32_t slot = 0;
};

struct ModelDemand {
  ModelId model;
  std::int64_t requests = 0;  // unfinished now
  std::int64_t arrived = 0;   // new since the last call
};

enum class GroupPlace : std::uint8_t { kHome, kArriving, kCached };

// How many extents each model needs. Models that never fit beside the pinned ones want none.
struct ExtentDemand {
  std::int64_t used = 0;  // that hold groups
  // The part of `used` of models without requests, and of groups not required; none that is pinned.
  std::int64_t idle = 0;
  std::int64_t wanted = 0;   // that required groups of models with requests lack
  std::int64_t largest = 0;  // of one model with requests and the pinned ones
  std::int64_t least = 0;    // the same of all models
};

class Residency {
 public:
  explicit Residency(const ResidencyOptions& options);
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // kResourceExhausted, with the numbers, when the extents of the groups exceed the largest budget
  // that there may be; kInvalidArgument when the model is known. A group without bytes, or a
  // required one after one that is not, fails a CHECK.
  Status add_model(ModelId model, std::vector<ResidentGroup> groups);
  // Appends the commands that give its extents back. kUnavailable while a step of it is in flight
  // or a group arrives; kNotFound when the model is not known.
  Status remove_model(ModelId model, std::vector<WeightCommand>& out);
  // By the user: never evicted once it is there. A pin brings nothing by itself.
  void set_pinned(ModelId model, bool pinned);
  // kResourceExhausted when the pinned models do not fit a budget that shrinks. A smaller budget
  // evicts over the next decide() calls, also models within their quantum.
  Status set_budget(std::int64_t extents);
  std::int64_t budget() const;
  // As of the last demand().
  ExtentDemand extent_demand() const;

  // Sets the demand; models that are not named have no requests. Models that begin to wait in the
  // same call queue in its order. A failure (gave_up()) is forgotten when all requests of the model
  // are new, because they have not waited for the failed arrivals.
  void demand(std::span<const ModelDemand> demands, Nanos now);
  // Appends commands: first decommits, then commits, then brings, so that the committed extents
  // stay within the budget after each command.
  void decide(Nanos now, std::vector<WeightCommand>& out);

  // Tells that the next step may be one of the model's, whether or not it is begun. Since the model
  // came, its quantum cannot end before a step of it has begun or offer() has been called. True:
  // that was all that kept the quantum from ending, and a model waits for room, so decide() must be
  // called again.
  [[nodiscard]] bool offer(ModelId model, Nanos now);
  // A CHECK fails unless every required group is cached or arriving and the model is not leaving.
  void step_begins(ModelId model);
  // Copies into the model's memory_only group begin. They count as a step in flight until
  // step_ended(), so that their memory is not taken away. A CHECK fails unless the group is cached.
  void copies_begin(ModelId model);
  // The model's oldest step in flight has ended. False: a group that it read did not arrive, so its
  // results are void. failed() must be called before step_ended() of a step that waited for that
  // copy; the mover therefore posts the event before it raises the semaphore.
  [[nodiscard]] bool step_ended(ModelId model, Nanos now);

  // Call exactly one of the two for each bring.
  void arrived(ModelId model, int group, std::uint32_t arrival, Nanos now);
  void failed(ModelId model, int group, std::uint32_t arrival, Nanos now);

  // Sets the rate that the links grant this cache from now on, in bytes per second; 0: nothing.
  // Predictions use it, corrected by how past arrivals compared with the rates granted to them.
  void grant(double bytes_per_second, Nanos now);

  // Whether a step may be submitted that begins at `begins`, now or later, and computes for
  // `computes`. When only time is missing, `at` says when it could begin (nullopt: ask again after
  // an event or a decide()). A step is not ready while the copy under way is late by more than 50
  // ms and by more than the step computes, because that copy may hang.
  struct Readiness {
    bool now = false;
    std::optional<Nanos> at;
  };
  Readiness readiness(ModelId model, Nanos computes, Nanos begins) const;

  // Whether the model's requests must end with an error: attempts_max arrivals failed in a row,
  // which clear_failure() forgets, or the model can never fit (fits()), which clear_failure() does
  // not change.
  bool gave_up(ModelId model) const;
  void clear_failure(ModelId model);  // the model queues anew
  // Until when decide() changes nothing unless something is asked for: nothing waits, arrives or
  // must leave, and everything that is asked for is cached. nullopt: decide() may change something.
  std::optional<Nanos> quiet_until() const;
  // Fast-forward (docs/design/simulate.md). How many of the copies under way are calm: if they
  // succeed, arrived() is the only call needed for each of them, with no demand() or decide() in
  // between.
  std::int64_t calm_arrivals() const;
  // The calm copies, and the next one, end at `ends`. A caller would ask readiness() for a step of
  // `computes` at `look`, at each of these ends, and at the times that readiness() itself gives.
  // Returns the first of these times at which the answer may be other than to wait; the last end at
  // the latest.
  Nanos await_arrivals(ModelId model, Nanos computes, std::optional<Nanos> look,
                       std::span<const Nanos> ends) const;
  // The readiness of such a step when `ended` of those copies have been reported, the last of them
  // at `told`.
  Readiness readiness_behind(ModelId model, std::int64_t ended, Nanos told, Nanos computes,
                             Nanos begins) const;
  // Whether the model can be ignored while it has no requests: no group of it arrives, and no
  // failure of it is unreported.
  bool rests(ModelId model) const;
  // Whether its required groups fit the largest budget beside the present pinned models.
  bool fits(ModelId model) const;

  GroupPlace place(ModelId model, int group) const;
  // The number of the group's last bring; 0 before the first.
  std::uint32_t arrival(ModelId model, int group) const;
  bool all_cached(ModelId model) const;  // every group, including those readable at home
  bool leaving(ModelId model) const;     // as of the last decide()
  Bytes cached_bytes(ModelId model) const;
  Bytes arriving_bytes() const;  // of all groups whose copies are under way
  std::int64_t committed_extents() const;
  // The rate that predictions use, in bytes per second. When nothing is granted it is that of the
  // last arrivals; before the first arrival it is 0, and a step waits for all of its weights.
  double link_rate() const;
  // When the next quantum ends for which a model in the queue waits; decide() can do more then.
  std::optional<Nanos> next_quantum_end(Nanos now) const;

  struct Counters {
    std::int64_t arrivals = 0;   // begun
    // Times that a model lost groups to another model, or to a smaller budget.
    std::int64_t evictions = 0;
    std::int64_t failures = 0;  // arrivals with a failed copy
    Bytes brought;              // in groups that arrived
  };
  Counters counters() const;
  Status check_integrity() const;

  class State;  // internal to this room

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::weights
