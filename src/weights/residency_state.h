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

  // Of the link, for a copy or an arrival.
  struct LinkUse {
    Nanos time;
    double granted = 0;  // bytes that the grants would have moved in that time
    bool always = true;  // something was granted all the time
  };
  // How an arrival goes.
  struct Arrival {
    bool required_failed = false;
    bool optional_failed = false;
    Bytes bytes;  // brought since the rate was last taken
    LinkUse use;  // for that

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
    std::uint64_t demand_call = 0;  // the last that named it
    std::uint64_t ticket = 0;       // its place in the queue: lower comes first
    double heat = 0;                // decayed number of requests, as of heat_at
    Nanos heat_at{};
    Nanos last_used{};

    bool pinned = false;
    bool leaving = false;
    bool gave_room = false;  // to another, in this decide()
    bool active = false;     // as State::active has it
    bool offered = false;    // since its last arrival a step of it has begun, or could have
    Nanos served_since{};
    Nanos brought_at{};      // when the last of its required groups came
    Nanos left_at = kNever;  // when its quantum was ended for another, if it waits since

    int steps = 0;     // in flight
    int poisoned = 0;  // the oldest of them

    std::uint32_t arrivals = 0;
    Arrival under_way{};
    int attempts = 0;           // arrivals in a row in which a required group failed
    int optional_attempts = 0;  // in which another did
    bool gave_up = false;

    // As plan_room() found it.
    bool idle = false;         // has no requests that could be served
    std::int64_t planned = 0;  // extents that plan_room() would take
    bool plan_leaves = false;  // more than what its steps can do without
  };
  // A copy that was issued and has neither arrived nor failed.
  struct Copy {
    Model* model = nullptr;
    int group = 0;
    Bytes bytes;
  };

  // Of the link, at its last event, for a model that comes over it.
  struct LinkAhead {
    Nanos event;
    Bytes needed;  // that cross until all is there that a step needs of it
    Bytes first;   // of the copy that is under way
  };

  // Whose room may be taken, in this order.
  enum class Victims : std::uint8_t { kOptional, kIdle, kQuantumOver, kQueued, kInQuantum };
  struct RoomWanted {
    std::int64_t extents = 0;
    const Model* taker = nullptr;  // null: the budget
    Victims last = Victims::kQueued;
    bool optional = false;  // for a group that a step can do without
  };

  explicit State(const ResidencyOptions& chosen) : options(chosen), budget(chosen.extents) {}

  Model& at(ModelId model);
  bool pinned_down(const Model& model) const { return model.pinned && model.groups.serves(); }
  std::int64_t used() const;
  std::int64_t committed() const;
  int arrivals_under_way() const;
  std::int64_t pinned_extents() const;  // of pinned models that are there or arrive
  std::int64_t budget_max() const { return std::max(budget, options.extents_max); }
  std::int64_t extents_of_pinned() const;  // whether they are there or not
  // Beside `pinned` extents of such models, a budget of so many.
  bool fits(const Model& model, std::int64_t pinned, std::int64_t extents) const;
  Model* first_waiting() const;
  double heat(const Model& model, Nanos now) const;
  void grant(double bytes_per_second, Nanos now);
  double link_rate() const;
  std::optional<Nanos> copy_time(Bytes bytes) const;  // nullopt: nothing is known of the link
  Bytes needed(const Model& model) const;             // LinkAhead::needed, now
  Readiness readiness(const LinkAhead& ahead, Nanos computes, Nanos begins) const;
  // Against one that waits. The quantum of a model counts anew against one that left before it.
  Nanos quantum_end(const Model& model, const Model& waiting) const;

  // The copy's end is taken off the link, and its use since its last event is returned.
  LinkUse end_copy(const Model& model, int group, std::uint32_t arrival, Nanos now);
  void use_link(Nanos now);  // up to now, as it is granted
  // All of the model's copies of required groups have ended, or all others.
  void end_arrival(Model& model, bool required);

  // residency_decide.cc.
  void decide(Nanos now, std::vector<WeightCommand>& out);
  bool is_quiet(Nanos now);
  bool all_rest() const;  // none waits, and none has more or less than it is to have
  void unsettle() { quiet = settled = false; }
  void activate(Model& model);
  void deactivate();

  ResidencyOptions options;
  std::int64_t budget;
  std::int64_t committed_max = 0;  // budget, or what was committed when it shrank
  IdMap<ModelId, Model> models;
  std::vector<Model*> asked;      // those with requests, as of the last demand()
  std::vector<Model*> active;     // by id: those, and all that have extents. Others need no look
  std::int64_t pinned_count = 0;  // of models that are pinned
  // As decide() left it: nothing waits, arrives or is in excess, and all that is asked for is
  // cached, so that another decide() changes nothing until then (when a group comes that steps can
  // do without). What changes that says so: a demand for what was not asked for, a pin, a
  // budget, a model that comes or goes.
  bool quiet = false;
  Nanos quiet_until;
  // The same while copies are under way, whatever the time.
  bool settled = false;
  std::uint64_t tickets = 0;
  std::uint64_t demand_calls = 0;
  std::vector<Copy> link;  // as issued
  Nanos link_event;        // its last, or when it was last given work while idle
  double granted = 0;      // bytes per second, now
  LinkUse use;             // since the last event
  // Sums over arrivals, decaying: what they had, and how that compares with what was granted.
  double rate_bytes = 0;
  double rate_seconds = 0;
  double share_bytes = 0;
  double share_granted = 0;
  Counters counters;

 private:
  struct Candidate {
    Model* model = nullptr;
    std::int64_t extents = 0;
    double rank = 0;  // lowest first
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
