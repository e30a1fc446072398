// How many prompt tokens the next step of a model computes: the chunk controller (C2CServe §6.3). A
// large chunk finishes prompts sooner and wastes less of the device, but every sequence that
// decodes on the slice waits for its end. Among the chunks with which no decoding sequence misses
// its target for the time between tokens, the controller takes the smallest with which the prompts
// at hand keep their targets for the first token. Where no sequence decodes it takes the largest.
//
// The paper's table, made offline (chunk × slice × model → seconds), is step_table.h's; where none
// was measured it follows from two figures that an engine knows of each model on its slice
// (StepCost). What they leave out, attention above all, and what contention adds is learnt from
// measured steps, for each chunk size separately.
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
#include "schedule/step_table.h"

namespace causeway::schedule {

struct ChunkOptions {
  bool automatic = false;  // false: as many tokens as a step may have (the baseline)
  // The share of S_F within which the controller wants the first token, because requests that
  // arrive later may delay it.
  double ttft_share = 0.7;  // (0, 1]
  // The share of S_B that the mean gap between a request's tokens may reach.
  double tpot_share = 0.97;  // (0, 1]
  // The token rate that a chunk must reach, as a share of the best rate: smaller chunks waste the
  // device. A chunk that would make a sequence miss its target for the time between tokens is not
  // taken for the sake of this rate.
  double efficiency_min = 0.8;  // [0, 1]
  Tokens least = kChunkLeast;   // the smallest chunk that is considered, ≥ 1
  // Measured offline; empty: steps are expected to take what StepCost's two figures say. A slice
  // finds the table of each of its models in it.
  ChunkProfile profile = {};
};

// kInvalidArgument names the range, or the table and the field.
Status check_chunk(const ChunkOptions& options);

// Parses "fixed" (a step computes as many tokens as it may), "fixed:N" (N at most) or "auto" (the
// controller's choice) into both arguments; kInvalidArgument tells what is accepted.
Status parse_chunk(std::string_view text, ChunkOptions& options, std::int64_t& tokens_per_step_max);

// How long a step of the model is expected to take when it has its slice to itself: what was
// measured, else the longer of the two times (engine::ModelFacts).
struct StepCost {
  Nanos min = Nanos(0);
  double seconds_per_token = 0;
  StepTable table = {};

  Nanos of(const StepLoad& load) const;
  Nanos of(Tokens prompt) const { return of(StepLoad{.prompt = prompt}); }
  bool known() const {
    return !table.empty() || (seconds_per_token > 0 && of(Tokens(1)) > Nanos(0));
  }
};

// How many tokens of a prompt are left, and when its first token should be out.
struct PromptDue {
  Tokens left;
  Nanos aim;  // its target less the options' reserve
  Nanos due;  // its target
};

// The facts that a choice depends on. Instants are by the scheduler's clock.
struct ChunkView {
  static constexpr Nanos kNever = Nanos(std::numeric_limits<std::int64_t>::max());

  Nanos begins;       // when the step would begin
  Tokens decodes{0};  // tokens of the step that are decodes
  Nanos others;       // other models' steps between two of this model's
  // The prompts at hand, in the order in which they are computed.
  std::span<const PromptDue> prompts;
  // Bounds for the decoding sequences of all models: when the step has ended by `even`, no gap
  // exceeds its target; by `last`, no mean gap exceeds what the options allow.
  Nanos even_until = kNever;
  Nanos mean_until = kNever;

  bool none_decodes() const { return even_until == kNever && mean_until == kNever; }
};

// Controls the chunks of one model on one slice.
class ChunkController {
 public:
  // `most`: the most tokens of a step, ≥ 1. The costs must be known.
  ChunkController(const ChunkOptions& options, const StepCost& cost, Tokens most);

  // Prompt tokens for the next step, ≥ 1; together with `decodes` at most `most`, if there is room
  // for one. Without prompts: as many as there is room for.
  Tokens choose(const ChunkView& view) const;

  // How long such a step is expected to take, by measurements; a day at most.
  Nanos predicted(const StepLoad& load) const;
  Nanos predicted(Tokens prompt) const { return predicted(StepLoad{.prompt = prompt}); }
  // Records that such a step has taken so long.
  void measured(const StepLoad& load, Nanos took);
  void measured(Tokens prompt, Nanos took) { measured(StepLoad{.prompt = prompt}, took); }

 private:
  // A class of chunk sizes: steps of up to so many tokens, and more than the class before.
  struct Class {
    Tokens tokens;
    double ratio = 1;              // of measured to expected time, averaged
    std::int64_t measured_at = 0;  // in steps; 0: never
  };

  std::size_t class_of(Tokens tokens) const;
  bool is_recent(const Class& one) const;
  // The nearest class that was measured lately; nullptr: none was.
  const Class* nearest_recent(std::size_t index) const;

  ChunkOptions options_;
  StepCost cost_;
  Tokens most_;
  std::vector<Class> classes_;  // by size
  std::int64_t steps_ = 0;      // measured
};

}  // namespace causeway::schedule
