// A WeightMover without a device: copies take the time that a link needs, in virtual time. The
// Residency and the WeightCache above it are the code that serves.
//
//   submit() ─▶ one copy after the other: latency + bytes / rate ─▶ poll(), once the clock is there
//
// Copies of groups that a step waits for have known ends as soon as they are submitted, so that a
// simulated step can ask when its groups arrive. They overtake copies of groups that a step can
// read at home, as long as those have not begun. Copies of streamed groups alternate with the
// others, in the order of their submission. A copy that fails takes as long as one that succeeds.
//
// The mover keeps account of the memory behind models and KV frames and of the contents of rings,
// and reports commands that break a rule: a group is copied to where no memory is, or over a group
// that is arriving; memory is taken from a group that is arriving; more memory is used than there
// is. A copy into a ring overwrites the earlier contents when it is submitted: a step that has not
// read them yet finds them gone.
//
// A step may read at home what has not arrived (home_read.h); copies beside such a read end later.
//
// With `copies_out` weights are copied to host memory before their memory gets another use, at the
// link's rate in the other direction. The mover's copies to the device begin after that.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id_map.h"
#include "base/random.h"
#include "simulate/home_read.h"
#include "simulate/link_rates.h"
#include "simulate/ring_layout.h"
#include "simulate/shared_memory.h"
#include "simulate/simulated_semaphore.h"
#include "weights/command_order.h"
#include "weights/weight_cache.h"
#include "weights/weight_mover.h"

namespace causeway::simulate {

struct SimulatedMoverOptions {
  double bytes_per_second = 0;   // of the link; above 0
  double granted = 0;            // what granted_rate() says; 0: the link's rate
  Nanos latency = micros(10);    // of each copy
  double error_rate = 0;         // of copies that fail
  bool copies_out = false;       // weights are copied to host memory before they are dropped
  Bytes extent = mib(32);        // as in ResidencyOptions
  // Committed at the same time, including those of KV frames if memory moves.
  std::int64_t extents_max = 0;
  // For memory that moves between weights and KV frames: the extents of frames at the start, and
  // the most there may be.
  std::int64_t frames_per_extent = 1;
  std::int64_t frame_extents = 0;
  std::int64_t frame_extents_max = 0;
  Nanos frame_latency = micros(50);  // to put memory behind an extent of frames
  double frame_error_rate = 0;       // share of extents for which there is no memory
  std::uint64_t seed = 1;
};

// A link that several movers share: their copies follow each other in the order of their
// submission.
struct SharedLink {
  Nanos free;                // when all submitted copies will have ended
  Nanos read_until;          // when the steps that read at home will have ended
  std::deque<LinkUse> uses;  // by copies that had not ended at the last submission
  Nanos free_out;            // the same for copies to host memory
  std::int64_t sharers = 1;  // slices on the link, each of which is granted an equal share
  LinkRates rates = {};      // over time, shares of the movers' rate
  Bytes submitted = {};      // by all copies to devices so far
  // Where it is watched: the copies to devices of which no observation has told.
  struct Carried {
    Nanos end;
    Nanos took;
    Bytes bytes;
  };
  bool watched = false;
  std::deque<Carried> carried = {};  // in the order of their ends
  // Steps that read at home with an α, by slice, in shares of the rate at which one alone does.
  SharedMemory readers = SharedMemory(1);
  int readers_known = 0;
};

class SimulatedMover final : public weights::WeightMover {
 public:
  // Clock and link are borrowed. On a shared link no copy overtakes another; null: the mover has a
  // link of its own.
  SimulatedMover(const SimulatedMoverOptions& options, const Clock& clock,
                 SharedLink* link = nullptr);
  ~SimulatedMover() override { use_at_home(0); }

  void add_model(ModelId model, const weights::CachedModel& cached);
  // Call it after WeightCache::remove_model().
  void remove_model(ModelId model);

  void submit(std::span<const weights::WeightCommand> commands) override;
  std::vector<weights::WeightEvent> poll() override;
  void take_back(std::vector<weights::WeightEvent>&& events) override {
    events_ = std::move(events);
  }
  bool issued(ModelId) const override { return true; }
  const device::Semaphore* semaphore(ModelId, int) const override { return nullptr; }
  const device::Semaphore* streamed(ModelId model, int group) const override;
  device::Semaphore* consumed(ModelId model) const override;
  double granted_rate() const override {
    return options_.granted > 0 ? options_.granted : options_.bytes_per_second;
  }

  // The end of the next copy that has not ended by the clock's time.
  std::optional<Nanos> next_end() const;
  // Fast-forward. The ends of all copies on the link, in this order.
  void ends_of_copies(std::vector<Nanos>& ends) const;
  // From now on poll() reports the copies that end until then, and no others.
  void hear_until(Nanos until) { heard_until_ = until; }
  // The last copy of a group; copy_of() gives nullopt when there is none, or part of the group has
  // been taken away since.
  struct Copy {
    std::uint32_t arrival = 0;
    Nanos ends;  // in the past or in the future
    bool failed = false;
  };
  std::optional<Copy> copy_of(ModelId model, int group) const;
  // The last copies of all groups of the model.
  std::span<const std::optional<Copy>> copies_of(ModelId model) const {
    return models_.at(model).copies;
  }
  // Whether all groups of the model are there: no copy is under way, and none has failed.
  bool all_there(ModelId model) const {
    const Model& asked = models_.at(model);
    return asked.good == std::ssize(asked.copies) && asked.last_end <= clock_.now();
  }
  // How often groups of the model were taken away that had arrived or were arriving.
  std::int64_t taken(ModelId model) const { return models_.at(model).taken; }
  // When a group arrives that is on its way; nullopt: it is not on its way.
  std::optional<Nanos> arrives_at(ModelId model, int group) const;
  // The copy of a streamed group that is in the ring, or is coming there; its pass is `arrival`.
  // nullopt: there is none, or another group has been copied over it since.
  std::optional<Copy> copy_in_ring(ModelId model, int group) const;
  // The pass for which the group was last copied; 0: it never was.
  std::uint32_t last_pass(ModelId model, int group) const;
  // Whether a copy is under way at that time, as far as is known now.
  bool copies_at(Nanos at) const { return !link_.empty() && link_.back().ends > at; }

  // How often memory was put behind a frame; nullopt: it has no memory now.
  std::optional<std::int64_t> frame_memory(FrameId frame) const;

  std::int64_t failures() const { return failures_; }       // copies that have ended and failed
  Bytes streamed_bytes() const { return streamed_bytes_; }  // of copies that succeeded
  Bytes bytes_out() const { return bytes_out_; }            // copied to host memory
  // Bytes of copies to the device: what was submitted has arrived, has failed or is under way.
  struct Copied {
    Bytes submitted;
    Bytes arrived;
    Bytes failed;
  };
  const Copied& copied() const { return copied_; }
  Bytes under_way() const;
  // Extents that KV frames got, failed to get, and gave back.
  struct FrameMoves {
    std::int64_t got = 0;
    std::int64_t failed = 0;
    std::int64_t gave = 0;
  };
  const FrameMoves& frame_moves() const { return frame_moves_; }
  std::int64_t committed_extents() const { return committed_; }
  // What becomes of a step that reads at home from `at`, and would take `takes` alone; nullopt:
  // nothing may stand in the way of what is copied, as it goes through a ring.
  std::optional<HomeRead> home_read(Nanos at, Nanos takes) const;
  // Does the read: the mover's copies end later, and copies that are submitted before its end begin
  // after it.
  void read_at_home(Nanos at, const HomeRead& read);
  // The share of the link that a step has which reads at home now, beside those of other slices.
  double left_at_home() const {
    return shared_ != nullptr ? shared_->readers.granted(reader_, 1) : 1;
  }
  // From now on the slice's step reads with this share of the link.
  void use_at_home(double share) {
    if (shared_ != nullptr) shared_->readers.use(reader_, share);
  }
  // How long a copy takes.
  Nanos takes(Bytes bytes) const;
  // The first command that broke a rule; empty: none did.
  const std::string& violation() const { return violation_; }

 private:
  struct Streamed {
    std::optional<Copy> copy;
    std::uint32_t last_pass = 0;
    std::unique_ptr<SimulatedSemaphore> arrived;
  };
  struct Model {
    weights::CachedModel cached;
    std::vector<std::optional<Copy>> copies;  // by group: its last copy
    std::vector<weights::ExtentRun> extents;  // by group
    std::vector<bool> committed;              // by extent
    std::int64_t good = 0;                    // how many of `copies` have not failed
    std::int64_t taken = 0;
    Nanos last_end;  // the end of the last of `copies`, in the past or in the future
    // For a streamed model.
    std::optional<RingLayout> ring_layout;
    std::vector<Streamed> streamed;  // by streamed group
    std::unique_ptr<SimulatedSemaphore> consumed;
  };
  struct FrameExtent {
    bool committed = false;
    Nanos there;  // when its memory is there
    std::int64_t commits = 0;
  };
  struct Pending {
    weights::WeightCommand command;
    bool waits = false;  // for a group that a step can read at home, which the others overtake
    Bytes bytes = {};    // that cross the link
    Nanos takes = {};
    Nanos ends;
    bool failed = false;
  };

  void commit(Model& model, const weights::WeightCommand& command, bool wanted);
  void move_frames(const weights::WeightCommand& command);
  void check_committed();
  void drop_groups(Model& model, const weights::WeightCommand& command);
  void drop_streamed(Model& model, std::int64_t extent);
  void copy_out(Bytes bytes);
  void bring(Model& model, const weights::WeightCommand& command);
  void show_ring(Model& model, const weights::WeightCommand& command);
  void stream(Model& model, const weights::WeightCommand& command);
  void load_expert(const Model& model, const weights::WeightCommand& command);
  void queue(Pending pending);
  std::optional<Copy>& place_of(const weights::WeightCommand& command);
  // Sets the end of the copy that the command began.
  void set_end(const weights::WeightCommand& command, Nanos end);
  static void set_copy(Model& model, std::size_t group, const Copy& copy);
  static void take_copy(Model& model, std::size_t group);
  weights::WeightEvent event_of(const Pending& ended);
  // Takes those that have ended by `now` off the list, and tells each of them.
  template <typename Tell>
  static void take_ended(std::vector<Pending>& pending, Nanos now, Tell tell) {
    auto first = pending.begin();
    for (; first != pending.end() && first->ends <= now; ++first) tell(*first);
    pending.erase(pending.begin(), first);
  }
  void blame(const std::string& what);

  const SimulatedMoverOptions options_;
  const Clock& clock_;
  SharedLink* const shared_;
  const int reader_;  // among the slices of a shared link
  Random random_;
  IdMap<ModelId, Model> models_;
  std::vector<weights::WeightEvent> events_;  // that poll() returned; kept for its capacity
  std::vector<Pending> link_;                 // in the order of their ends
  std::vector<Pending> rings_;  // memory for rings that is coming, in the order of their ends
  Nanos heard_until_{INT64_MAX};
  Nanos idle_since_;  // the end of the last copy that has left the link
  Nanos out_until_;   // the end of the last copy to host memory
  Nanos read_until_;  // the end of the last step that read at home
  std::vector<FrameExtent> frames_;
  // Extents of frames that are coming, in the order of their ends.
  std::vector<Pending> frames_coming_;
  FrameMoves frame_moves_;
  std::int64_t committed_ = 0;  // extents of models
  std::int64_t committed_of_frames_ = 0;
  std::int64_t failures_ = 0;
  Bytes streamed_bytes_;
  Bytes bytes_out_;
  Copied copied_;
  std::string violation_;
};

}  // namespace causeway::simulate
