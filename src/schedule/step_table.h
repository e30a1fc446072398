// How long steps of a model take on a slice, as measured offline: the table of C2CServe §6.3, chunk
// × slice × shape → seconds. What is between two sizes lies on a line between their times.
//
//   tokens of prompts     1     64     96    128   …   8192
//   alone                 ·      ·      ·      ·          ·    the first token of such a prompt
//   beside                ·      ·      ·      ·          ·    with `decodes` sequences that decode
//
// Plain data and pure. Files of it: engine/chunk_profile.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::schedule {

// What a step computes: tokens of prompts, and one token of each sequence that decodes.
struct StepLoad {
  Tokens prompt{0};
  Tokens decodes{0};

  Tokens all() const { return prompt + decodes; }
};

struct StepTime {
  Tokens tokens{0};   // of prompts
  double alone = 0;   // seconds
  double beside = 0;  // seconds, with StepTable::decodes sequences that decode
};

struct StepTable {
  std::int64_t decodes = 0;
  std::vector<StepTime> times = {};  // by tokens, the first of 1; empty: nothing was measured

  bool empty() const { return times.empty(); }
  // Not of an empty table. A step has a token at least; a day at most.
  Nanos of(const StepLoad& load) const;
};

// A table of a model's shape (model::shape_text()) on a slice of so many processors.
struct ShapeTable {
  std::string shape = {};
  int processors = 0;
  StepTable table = {};
};

// All tables of a machine.
struct ChunkProfile {
  std::string file = {};     // where they were read, for messages
  std::string machine = {};  // on which they were measured
  std::vector<ShapeTable> tables = {};

  bool empty() const { return tables.empty(); }
  // nullptr: it is not among them.
  const StepTable* find(std::string_view shape, int processors) const;
  // The table of the slice with most processors.
  const StepTable* find_largest(std::string_view shape) const;
};

// The sizes of chunks that are told apart: two for each power of two from `least` (64, 96, 128,
// 192, …) below `most`, and `most`. Both are 1 at least, `most` 2^40 at most.
std::vector<Tokens> chunk_sizes(Tokens least, Tokens most);

// The smallest chunk that is considered, where options do not say otherwise.
inline constexpr Tokens kChunkLeast{64};

// The sizes that a table has whose largest step has `most` tokens: 1, and chunk_sizes() of them.
std::vector<Tokens> table_sizes(Tokens most);

// kInvalidArgument names what is wrong as a file's field: no or too many sequences beside, sizes
// that are not table_sizes() of the last, a time below a nanosecond or above a day.
Status check_table(const StepTable& table);

// The same where no time is less than that of a smaller step, nor than that without what is beside.
StepTable rising(StepTable table);

}  // namespace causeway::schedule
