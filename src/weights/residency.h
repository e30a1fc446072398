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
  // Of those, of models without requests, and of groups that are not required; none that is pinned.
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

  // Models not named have no requests. Models that begin to wait in one call queue in its order. A
  // failure (gave_up()) is forgotten where all requests are new: they have not waited for it.
  void demand(std::span<const ModelDemand> demands, Nanos now);
  // Appends commands: first decommits, then commits, then brings, so that committed extents stay
  // within the budget after each of them.
  void decide(Nanos now, std::vector<WeightCommand>& out);

  // The next step may be the model's, whether one is begun or not. Until this was told, or a step
  // of it has begun, since it came, its quantum is not over. True: it would be over otherwise, and
  // a model waits for room, so that decide() is to be called once more.
  [[nodiscard]] bool offer(ModelId model, Nanos now);
  // A CHECK fails unless every required group is cached or arriving, and the model is not leaving.
  void step_begins(ModelId model);
  // Copies into the model's memory_only group begin, which count as a step in flight until
  // step_ended(): nothing is taken from under them. A CHECK fails unless all of it is cached.
  void copies_begin(ModelId model);
  // The oldest step in flight of the model. False: poisoned: something that it read did not arrive;
  // its results are void. failed() of a copy must be told before the end of a step that waited for
  // it: the mover posts the event before it raises the semaphore.
  [[nodiscard]] bool step_ended(ModelId model, Nanos now);

  // Exactly one of the two for each bring.
  void arrived(ModelId model, int group, std::uint32_t arrival, Nanos now);
  void failed(ModelId model, int group, std::uint32_t arrival, Nanos now);

  // What the links grant this cache from now on, bytes per second; 0: nothing. Predictions follow
  // it, corrected by how arrivals compared with what was granted to them.
  void grant(double bytes_per_second, Nanos now);

  // Whether a step that begins at `begins`, which is now or later, and computes for `computes` may
  // be submitted; when not, and only time is missing, when it could begin (nullopt: ask again after
  // an event or a decide()). Not while the copy that is under way is late by more than 50 ms and
  // than the step computes: it may hang.
  struct Readiness {
    bool now = false;
    std::optional<Nanos> at;
  };
  Readiness readiness(ModelId model, Nanos computes, Nanos begins) const;

  // Its requests are to end with an error: attempts_max arrivals failed in a row, which
  // clear_failure() forgets; or it never fits (see fits()), which clear_failure() cannot change.
  bool gave_up(ModelId model) const;
  void clear_failure(ModelId model);  // the model queues anew
  // Nothing waits, arrives or is to go, and all that is asked for is cached: until something else
  // is asked for, decide() changes nothing that is called before then. nullopt: something may
  // change.
  std::optional<Nanos> quiet_until() const;
  // Fast-forward (docs/design/simulate.md). Of the copies that were commanded and have not ended:
  // how many of the first may end well, each told by arrived(), without a demand() for the same, or
  // a decide(), being of any use between them.
  std::int64_t calm_arrivals() const;
  // The copies of the calm arrivals, and the one behind them, end at `ends`. readiness() is asked
  // at each of these times for a step of `computes` that begins then, first at `look`, and when it
  // says. When it is to be asked first: all asked before then are told to wait. At the latest at
  // the last of the ends.
  Nanos await_arrivals(ModelId model, Nanos computes, std::optional<Nanos> look,
                       std::span<const Nanos> ends) const;
  // The same of one step, when so many of those copies have ended, the last of them told at `told`.
  Readiness readiness_behind(ModelId model, std::int64_t ended, Nanos told, Nanos computes,
                             Nanos begins) const;
  // Nothing of it arrives, and no failure waits to be told: without requests it need not be looked
  // at.
  bool rests(ModelId model) const;
  // Whether its required groups fit the largest budget beside the pinned models that are there.
  bool fits(ModelId model) const;

  GroupPlace place(ModelId model, int group) const;
  std::uint32_t arrival(ModelId model, int group) const;  // of its last bring; 0 before the first
  bool all_cached(ModelId model) const;  // every group, also those readable at home
  bool leaving(ModelId model) const;     // as of the last decide()
  Bytes cached_bytes(ModelId model) const;
  Bytes arriving_bytes() const;  // of all groups whose copies are under way
  std::int64_t committed_extents() const;
  // What predictions count on, bytes per second. Where nothing is granted: what the last arrivals
  // had; before the first 0, and a step waits for its weights.
  double link_rate() const;
  // When the next quantum ends that a model in the queue waits for: decide() then has more to give.
  std::optional<Nanos> next_quantum_end(Nanos now) const;

  struct Counters {
    std::int64_t arrivals = 0;   // begun
    std::int64_t evictions = 0;  // a model lost groups to another, or to a smaller budget
    std::int64_t failures = 0;   // arrivals in which a copy failed
    Bytes brought;               // of groups that arrived
  };
  Counters counters() const;
  Status check_integrity() const;

  class State;  // internal to this room

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::weights
