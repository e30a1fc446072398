// The state behind weights/residency.h. Internal to this room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/id_map.h"
#include "weights/residency.h"
#include "weights/resident_groups.h"

namespace causeway::weights {

class Residency::State {
 public:
  static constexpr Nanos kNever = Nanos(std::numeric_limits<std::int64_t>::min());

  // The use of the link by a copy or an arrival.
  struct LinkUse {
    Nanos time;
    double granted = 0;  // bytes that the granted rates would have moved in that time
    bool always = true;  // the granted rate was never 0 in that time
  };
  // The state of an arrival.
  struct Arrival {
    bool required_failed = false;
    bool optional_failed = false;
    Bytes bytes;  // brought since the rate was last measured
    LinkUse use;  // the use of the link in that time

    void add(const LinkUse& copy) {
      use.time += copy.time;
      use.granted += copy.granted;
      use.always = use.always && copy.always;
    }
  };
  struct Model {
    ModelId id;
    ResidentGroups groups;

    std::int64_t requests = 0;
    std::uint64_t demand_call = 0;  // the last call of demand() that named the model
    std::uint64_t ticket = 0;       // its place in the queue; the lowest is first
    double heat = 0;                // decayed number of requests, at heat_at
    Nanos heat_at{};
    Nanos last_used{};

    bool pinned = false;
    bool leaving = false;
    bool gave_room = false;  // it gave up room for another model in this decide()
    bool active = false;     // it is listed in State::active
    bool offered = false;    // since its last arrival a step has begun, or could have
    Nanos served_since{};
    Nanos brought_at{};      // when the last of its required groups arrived
    Nanos left_at = kNever;  // when its quantum was ended for another model, if it has waited since

    int steps = 0;     // in flight
    int poisoned = 0;  // how many of these, the oldest, are poisoned

    std::uint32_t arrivals = 0;
    Arrival under_way{};
    int attempts = 0;           // arrivals in a row with a failed required group
    int optional_attempts = 0;  // arrivals in a row with another failed group
    bool gave_up = false;

    // Set by plan_room().
    bool idle = false;         // it has no requests that could be served
    std::int64_t planned = 0;  // extents that plan_room() would take from it
    bool plan_leaves = false;  // these include extents that its steps need
  };
  // A copy that was begun and has neither arrived nor failed.
  struct Copy {
    Model* model = nullptr;
    int group = 0;
    Bytes bytes;
  };

  // The state of the link after its last event, for a model that comes over it.
  struct LinkAhead {
    Nanos event;
    Bytes needed;  // bytes that cross before everything is there that a step of the model needs
    Bytes first;   // bytes of the copy that is under way
  };

  // Which models give up room, in this order.
  enum class Victims : std::uint8_t { kOptional, kIdle, kQuantumOver, kQueued, kInQuantum };
  struct RoomWanted {
    std::int64_t extents = 0;
    const Model* taker = nullptr;  // null: the budget has shrunk
    Victims last = Victims::kQueued;
    bool optional = false;  // the room is for a group that a step does not need
  };

  explicit State(const ResidencyOptions& chosen) : options(chosen), budget(chosen.extents) {}

  Model& at(ModelId model);
  bool pinned_down(const Model& model) const { return model.pinned && model.groups.serves(); }
  std::int64_t used() const;
  std::int64_t committed() const;
  int arrivals_under_way() const;
  std::int64_t pinned_extents() const;  // of pinned models that are there or arriving
  std::int64_t budget_max() const { return std::max(budget, options.extents_max); }
  std::int64_t extents_of_pinned() const;  // of all pinned models
  // Whether the model fits a budget of `extents` beside pinned models that take `pinned`.
  bool fits(const Model& model, std::int64_t pinned, std::int64_t extents) const;
  Model* first_waiting() const;
  double heat(const Model& model, Nanos now) const;
  void grant(double bytes_per_second, Nanos now);
  double link_rate() const;
  std::optional<Nanos> copy_time(Bytes bytes) const;  // nullopt: nothing is known of the link
  Bytes needed(const Model& model) const;             // LinkAhead::needed at this moment
  Readiness readiness(const LinkAhead& ahead, Nanos computes, Nanos begins) const;
  // When the model's quantum ends against a waiting model. It counts anew against a model that left
  // before it.
  Nanos quantum_end(const Model& model, const Model& waiting) const;

  // Takes an ended copy off the link, and returns the link's use since its last event.
  LinkUse end_copy(const Model& model, int group, std::uint32_t arrival, Nanos now);
  void use_link(Nanos now);  // counts the use of the link up to now, at the granted rate
  // All of the model's copies of required groups, or all of its other copies, have ended.
  void end_arrival(Model& model, bool required);

  // Defined in residency_decide.cc.
  void decide(Nanos now, std::vector<WeightCommand>& out);
  bool is_quiet(Nanos now);
  bool all_rest() const;  // none waits, and none has more or less than it should have
  void unsettle() { quiet = settled = false; }
  void activate(Model& model);
  void deactivate();

  ResidencyOptions options;
  std::int64_t budget;
  std::int64_t committed_max = 0;  // the budget or, if more, what was committed when it shrank
  IdMap<ModelId, Model> models;
  std::vector<Model*> asked;  // models with requests, as of the last demand()
  // Models with requests or extents, by id; the others need no attention.
  std::vector<Model*> active;
  std::int64_t pinned_count = 0;  // the number of pinned models
  // Set by decide() when nothing waits, arrives or is in excess and everything asked for is cached,
  // so that another decide() would change nothing until a group is due that steps do not need.
  // Cleared by what can change that: a demand for something new, a pin, a budget, a model added or
  // removed.
  bool quiet = false;
  Nanos quiet_until;
  // The same while copies are under way, at any time.
  bool settled = false;
  std::uint64_t tickets = 0;
  std::uint64_t demand_calls = 0;
  std::vector<Copy> link;  // in the order in which they were begun
  Nanos link_event;        // its last event, or when it last got work while idle
  double granted = 0;      // bytes per second, at present
  LinkUse use;             // since the last event
  // Decaying sums over arrivals: what they achieved, and what had been granted to them.
  double rate_bytes = 0;
  double rate_seconds = 0;
  double share_bytes = 0;
  double share_granted = 0;
  Counters counters;

 private:
  struct Candidate {
    Model* model = nullptr;
    std::int64_t extents = 0;
    double rank = 0;  // the lowest goes first
  };

  void shrink(Nanos now);
  void start_arrivals(Nanos now);
  void begin_arrival(Model& model, Nanos now);
  void bring(Model& model, int group, Nanos now);
  void bring_optional(Nanos now);
  bool bring_optional(Model& model, Nanos now);

  bool plan_room(const RoomWanted& wanted, Nanos now);
  std::int64_t room_of(const Model& model, Victims kind, const RoomWanted& wanted, Nanos now) const;
  double rank_of(const Model& model, Victims kind, std::int64_t extents, Nanos now) const;
  std::int64_t take_from(Victims kind, std::int64_t wanted, Nanos now);
  void choose(Victims kind, std::int64_t wanted, Nanos now);
  bool execute_plan(Nanos now);
  void evict(Model& model, Nanos now);

  std::vector<Candidate> candidates_;
  std::vector<Candidate> chosen_;
  std::vector<WeightCommand> brings_;
};

}  // namespace causeway::weights
