// A WeightMover without a device: copies take the time that a link needs, in virtual time. The
// Residency and the WeightCache above it are the ones that serve.
//
//   submit() ─▶ one copy after the other: latency + bytes / rate ─▶ poll(), once the clock is there
//
// The ends of copies of groups that a step waits for are known when they are submitted, so that a
// simulated step can ask when its groups arrive. Groups that a step can read at home are overtaken
// as long as their copies have not begun; those of streamed groups take turns with the others, in
// the order of their submission. A copy that fails takes as long as one that succeeds.
//
// It keeps account of the memory behind models and KV frames, and of what lies in rings, and says
// what commands break: a group copied to where no memory is, or over one that arrives, memory taken
// from a group that arrives, more of it than there is. A copy into a ring takes what lay there when
// it is submitted: a step that has not read it finds it gone.
//
// A step may read at home what has not arrived (home_read.h): copies beside that are later.
//
// With `copies_out` weights are copied to host memory before their memory is taken, at the link's
// rate in its other direction; this mover's copies to the device begin after that.
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
#include "simulate/simulated_semaphore.h"
#include "weights/command_order.h"
#include "weights/weight_cache.h"
#include "weights/weight_mover.h"

namespace causeway::simulate {

struct SimulatedMoverOptions {
  double bytes_per_second = 0;   // of the link; > 0
  double granted = 0;            // what it says that the link grants; 0: what that gives
  Nanos latency = micros(10);    // of each copy
  double error_rate = 0;         // of copies that fail
  bool copies_out = false;       // what is dropped is copied to host memory first
  Bytes extent = mib(32);        // as the Residency has it
  std::int64_t extents_max = 0;  // committed at once, with those of KV frames if memory moves
  // Where memory moves between weights and KV frames: what these have at the start, and may have.
  std::int64_t frames_per_extent = 1;
  std::int64_t frame_extents = 0;
  std::int64_t frame_extents_max = 0;
  Nanos frame_latency = micros(50);  // of putting memory behind an extent of frames
  double frame_error_rate = 0;       // of extents for which there is none
  std::uint64_t seed = 1;
};

// A link over which several movers copy: theirs go one after the other, in the order in which they
// were submitted.
struct SharedLink {
  Nanos free;                // when all that was submitted has ended
  Nanos read_until;          // when steps have ended that read at home
  std::deque<LinkUse> uses;  // by copies that had not ended when the last was submitted
  Nanos free_out;            // likewise of copies to host memory
  std::int64_t sharers = 1;  // each is granted its share of the rate
  LinkRates rates = {};      // shares of that of the movers, over time
  Bytes submitted = {};      // of all copies to devices so far
};

class SimulatedMover final : public weights::WeightMover {
 public:
  // Clock and link are borrowed. Over a shared link nothing overtakes; null: it is the mover's own.
  SimulatedMover(const SimulatedMoverOptions& options, const Clock& clock,
                 SharedLink* link = nullptr);

  void add_model(ModelId model, const weights::CachedModel& cached);
  // After WeightCache::remove_model().
  void remove_model(ModelId model);

  void submit(std::span<const weights::WeightCommand> commands) override;
  std::vector<weights::WeightEvent> poll() override;
  bool issued(ModelId) const override { return true; }
  const device::Semaphore* semaphore(ModelId, int) const override { return nullptr; }
  const device::Semaphore* streamed(ModelId model, int group) const override;
  device::Semaphore* consumed(ModelId model) const override;
  double granted_rate() const override {
    return options_.granted > 0 ? options_.granted : options_.bytes_per_second;
  }

  // When the next copy ends that has not ended by the clock.
  std::optional<Nanos> next_end() const;
  // Fast-forward. When all copies on the link end, in this order.
  void ends_of_copies(std::vector<Nanos>& ends) const;
  // From now on poll() tells of those that end until then, and no other.
  void hear_until(Nanos until) { heard_until_ = until; }
  // The last copy of a group, of which nothing has been taken away since. nullopt: there is none.
  struct Copy {
    std::uint32_t arrival = 0;
    Nanos ends;  // or ended
    bool failed = false;
  };
  std::optional<Copy> copy_of(ModelId model, int group) const;
  // Those of all its groups.
  std::span<const std::optional<Copy>> copies_of(ModelId model) const {
    return models_.at(model).copies;
  }
  // All its groups are there, and well: none is to come, nor did a copy of one fail.
  bool all_there(ModelId model) const {
    const Model& asked = models_.at(model);
    return asked.good == std::ssize(asked.copies) && asked.last_end <= clock_.now();
  }
  // How often something was taken away of what had come, or was on its way.
  std::int64_t taken(ModelId model) const { return models_.at(model).taken; }
  // When a group arrives that is on its way; nullopt: it is not.
  std::optional<Nanos> arrives_at(ModelId model, int group) const;
  // The copy of a streamed group that lies in the ring, or comes there: its pass is `arrival`.
  // nullopt: none does, or another group has been copied over it since.
  std::optional<Copy> copy_in_ring(ModelId model, int group) const;
  // The pass for which it was last copied; 0: never.
  std::uint32_t last_pass(ModelId model, int group) const;
  // Whether a copy is under way then, as far as is known now.
  bool copies_at(Nanos at) const { return !link_.empty() && link_.back().ends > at; }

  // How often memory was put behind a frame whose memory is there; nullopt: it is not.
  std::optional<std::int64_t> frame_memory(FrameId frame) const;

  std::int64_t failures() const { return failures_; }       // of copies that have ended
  Bytes streamed_bytes() const { return streamed_bytes_; }  // of those that ended well
  Bytes bytes_out() const { return bytes_out_; }            // to host memory
  // Of copies to the device: what is submitted arrives, fails or is under way.
  struct Copied {
    Bytes submitted;
    Bytes arrived;
    Bytes failed;
  };
  const Copied& copied() const { return copied_; }
  Bytes under_way() const;
  // Extents that frames got, failed to get, and gave.
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
  // It does: copies of this mover are later; what is submitted before it ends begins behind it.
  void read_at_home(Nanos at, const HomeRead& read);
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
    std::vector<std::optional<Copy>> copies;  // by group
    std::vector<weights::ExtentRun> extents;  // of each group
    std::vector<bool> committed;              // by extent
    std::int64_t good = 0;                    // of the copies, those that have not failed
    std::int64_t taken = 0;
    Nanos last_end;  // of the copies, the last that has ended or will
    // Of a streamed model.
    std::optional<RingLayout> ring_layout;
    std::vector<Streamed> streamed;  // by streamed group
    std::unique_ptr<SimulatedSemaphore> consumed;
  };
  struct FrameExtent {
    bool committed = false;
    Nanos there;  // from then on
    std::int64_t commits = 0;
  };
  struct Pending {
    weights::WeightCommand command;
    bool waits = false;  // for all that are not of its kind
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
  void queue(Pending pending);
  std::optional<Copy>& place_of(const weights::WeightCommand& command);
  // The copy on its way will have ended then.
  void set_end(const weights::WeightCommand& command, Nanos end);
  static void set_copy(Model& model, std::size_t group, const Copy& copy);
  static void take_copy(Model& model, std::size_t group);
  weights::WeightEvent event_of(const Pending& ended);
  void blame(const std::string& what);

  const SimulatedMoverOptions options_;
  const Clock& clock_;
  SharedLink* const shared_;
  Random random_;
  IdMap<ModelId, Model> models_;
  std::deque<Pending> link_;   // in the order of their ends
  std::deque<Pending> rings_;  // whose memory comes, likewise
  Nanos heard_until_{INT64_MAX};
  Nanos idle_since_;  // the end of the last copy that has left the link
  Nanos out_until_;   // the end of the last copy to host memory
  Nanos read_until_;  // the end of the last step that read at home
  std::vector<FrameExtent> frames_;
  std::deque<Pending> frames_coming_;  // in the order of their ends
  FrameMoves frame_moves_;
  std::int64_t committed_ = 0;  // of models
  std::int64_t committed_of_frames_ = 0;
  std::int64_t failures_ = 0;
  Bytes streamed_bytes_;
  Bytes bytes_out_;
  Copied copied_;
  std::string violation_;
};

}  // namespace causeway::simulate
