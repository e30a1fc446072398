// A WeightMover without a device: copies take the time that a link needs, in virtual time. The
// Residency and the WeightCache above it are the ones that serve.
//
//   submit() ─▶ one copy after the other: latency + bytes / rate ─▶ poll(), once the clock is there
//
// The ends of copies of groups that a step waits for are known when they are submitted, so that a
// simulated step can ask when its groups arrive. Groups that a step can read at home are overtaken
// as long as their copies have not begun. A copy that fails takes as long as one that succeeds.
//
// It keeps account of the memory behind the models and the KV frames, and says what commands break:
// a group brought to where no memory is, memory taken from a group that arrives, more of it than
// there is.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "weights/weight_cache.h"
#include "weights/weight_mover.h"

namespace causeway::simulate {

struct SimulatedMoverOptions {
  double bytes_per_second = 0;   // of the link; > 0
  double granted = 0;            // what it says that the link grants; 0: what that gives
  Nanos latency = micros(10);    // of each copy
  double error_rate = 0;         // of copies that fail
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

class SimulatedMover final : public weights::WeightMover {
 public:
  // The clock is borrowed.
  SimulatedMover(const SimulatedMoverOptions& options, const Clock& clock);

  void add_model(ModelId model, const weights::CachedModel& cached);
  // After WeightCache::remove_model().
  void remove_model(ModelId model);

  void submit(std::span<const weights::WeightCommand> commands) override;
  std::vector<weights::WeightEvent> poll() override;
  bool issued(ModelId) const override { return true; }
  const device::Semaphore* semaphore(ModelId, int) const override { return nullptr; }
  double granted_rate() const override {
    return options_.granted > 0 ? options_.granted : options_.bytes_per_second;
  }

  // When the next copy ends that has not ended by the clock.
  std::optional<Nanos> next_end() const;
  // The last copy of a group, of which nothing has been taken away since. nullopt: there is none.
  struct Copy {
    std::uint32_t arrival = 0;
    Nanos ends;  // or ended
    bool failed = false;
  };
  std::optional<Copy> copy_of(ModelId model, int group) const;
  // When a group arrives that is on its way; nullopt: it is not.
  std::optional<Nanos> arrives_at(ModelId model, int group) const;

  // How often memory was put behind a frame whose memory is there; nullopt: it is not.
  std::optional<std::int64_t> frame_memory(FrameId frame) const;

  std::int64_t failures() const { return failures_; }  // of copies that have ended
  // Extents that frames got, failed to get, and gave.
  struct FrameMoves {
    std::int64_t got = 0;
    std::int64_t failed = 0;
    std::int64_t gave = 0;
  };
  const FrameMoves& frame_moves() const { return frame_moves_; }
  std::int64_t committed_extents() const { return committed_; }
  // How long a copy takes.
  Nanos takes(Bytes bytes) const;
  // The first command that broke a rule; empty: none did.
  const std::string& violation() const { return violation_; }

 private:
  struct Model {
    weights::CachedModel cached;
    std::vector<std::optional<Copy>> copies;  // by group
    std::vector<bool> committed;              // by extent
  };
  struct FrameExtent {
    bool committed = false;
    Nanos there;  // from then on
    std::int64_t commits = 0;
  };
  struct Pending {
    weights::WeightCommand command;
    bool waits = false;  // for all that are not of its kind
    Nanos takes = {};
    Nanos ends;
    bool failed = false;
  };

  void commit(Model& model, const weights::WeightCommand& command, bool wanted);
  void move_frames(const weights::WeightCommand& command);
  void check_committed();
  void drop_groups(Model& model, std::int64_t extent);
  void bring(Model& model, const weights::WeightCommand& command);
  void queue(Pending pending);
  void blame(const std::string& what);

  const SimulatedMoverOptions options_;
  const Clock& clock_;
  Random random_;
  std::map<ModelId, Model> models_;
  std::deque<Pending> link_;  // in the order of their ends
  Nanos idle_since_;          // the end of the last copy that has left the link
  std::vector<FrameExtent> frames_;
  std::deque<Pending> frames_coming_;  // in the order of their ends
  FrameMoves frame_moves_;
  std::int64_t committed_ = 0;  // of models
  std::int64_t committed_of_frames_ = 0;
  std::int64_t failures_ = 0;
  std::string violation_;
};

}  // namespace causeway::simulate
