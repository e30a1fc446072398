// How many prompt tokens the next step of a model computes: the chunk controller (C2CServe §6.3).
// A large chunk ends prompts sooner and wastes less of the device; every sequence that decodes on
// the slice waits for its end. The controller takes the smallest chunk with which the prompts at
// hand keep their targets for the first token, among those with which no decoding sequence misses
// its target for the time between tokens; where no sequence decodes, the largest.
//
// The table that the paper makes offline (chunk × slice × model → seconds) follows from two figures
// that an engine knows of each model on its slice (StepCost); what it leaves out, attention above
// all, and what contention adds is learnt from measured steps, for each chunk size apart.
//
// Pure: no clock, no I/O, no threads; the same calls give the same chunks. docs/design/chunks.md.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::schedule {

struct ChunkOptions {
  bool automatic = false;  // false: as many tokens as a step may have (the baseline)
  // The share of S_F within which the controller wants the first token: what comes later may get in
  // between.
  double ttft_share = 0.7;  // (0, 1]
  // The share of S_B that the mean gap between a request's tokens may take.
  double tpot_share = 0.97;  // (0, 1]
  // Tokens a second that a chunk reaches at least, of what the best would reach: smaller ones waste
  // the device. A chunk with which a target for the time between tokens would be missed is not
  // taken for that.
  double efficiency_min = 0.8;  // [0, 1]
  Tokens least{64};             // the smallest chunk that is thought of, ≥ 1
};

// kInvalidArgument names the range.
Status check_chunk(const ChunkOptions& options);

// "fixed": a step computes as many tokens as it may. "fixed:N": N at the most. "auto": the
// controller's choice. Writes into both; kInvalidArgument says what is wanted.
Status parse_chunk(std::string_view text, ChunkOptions& options, std::int64_t& tokens_per_step_max);

// How long a step of the model is expected to take when it has its slice to itself: the longer of
// the two (engine::ModelFacts).
struct StepCost {
  Nanos min;
  double seconds_per_token = 0;

  Nanos of(Tokens tokens) const;
  bool known() const { return seconds_per_token > 0 && of(Tokens(1)) > Nanos(0); }
};

// How many tokens of a prompt are left, and when its first token should be out.
struct PromptDue {
  Tokens left;
  Nanos aim;  // with what the options keep in reserve
  Nanos due;  // its target
};

// The facts that a choice depends on. Instants are by the scheduler's clock.
struct ChunkView {
  static constexpr Nanos kNever = Nanos(std::numeric_limits<std::int64_t>::max());

  Nanos begins;       // when the step would begin
  Tokens decodes{0};  // tokens that it computes for those that decode
  Nanos others;       // what other models' steps take between two of this one
  // The prompts at hand, in the order in which they are computed.
  std::span<const PromptDue> prompts;
  // Bounds for the sequences of all models that decode: a step that has ended by then lets no gap
  // exceed its target, and no mean gap exceed what the options allow.
  Nanos even_until = kNever;
  Nanos mean_until = kNever;

  bool none_decodes() const { return even_until == kNever && mean_until == kNever; }
};

// Controls the chunks of one model on one slice.
class ChunkController {
 public:
  // `most`: tokens of a step at the most, ≥ 1. The costs are known.
  ChunkController(const ChunkOptions& options, const StepCost& cost, Tokens most);

  // Prompt tokens for the next step, ≥ 1; with `decodes` at most `most`, if these leave room for
  // one. Without prompts: as many as there is room for.
  Tokens choose(const ChunkView& view) const;

  // How long a step of this many tokens is expected to take, by what was measured; a day at most.
  Nanos predicted(Tokens tokens) const;
  // A step of so many tokens has taken so long.
  void measured(Tokens tokens, Nanos took);

 private:
  // A chunk size: steps up to so many tokens, beyond the one before.
  struct Class {
    Tokens tokens;
    double ratio = 1;              // of measured to expected time, averaged
    std::int64_t measured_at = 0;  // in steps; 0: never
  };

  std::size_t class_of(Tokens tokens) const;
  bool is_recent(const Class& one) const;
  // The class nearest to this one that was measured lately; nullptr: none was.
  const Class* nearest_recent(std::size_t index) const;

  ChunkOptions options_;
  StepCost cost_;
  Tokens most_;
  std::vector<Class> classes_;  // by size
  std::int64_t steps_ = 0;      // measured
};

}  // namespace causeway::schedule
