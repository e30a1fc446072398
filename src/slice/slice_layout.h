// Which slices a machine's GPUs are divided into: what --slices says, against what there is. Pure.
//
//   all                      one slice, the whole GPU
//   2x56                     two of 56 SMs; 1x64,2x32 three
//   0:2x64;1:all             of GPU 0 two, GPU 1 whole; "+" is as good as ","
//   *:4x32                   of every GPU four
//   auto                     see choose_slices.h; not for parse_slices()
//
//   GPU 0, 132 SMs │ 56 (share 1/2) │ 32 (2/7) │ 24 (3/14) │ 20 in no slice │
//
// A part of a GPU has whole units of SMs, and the slices of a GPU divide what its memory has for
// them in proportion to their SMs. Of the finest units, 8 SMs that lie together, an H200 has 15.
// Where these do not suffice a coarser split may, of which all slices of the GPU are multiples:
// 4x32, 2x64 and 8x16 are 128 SMs. On the CPU sizes are threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::slice {

// A GPU's processors in sets of so many.
struct SliceSplit {
  int unit = 1;
  int units = 0;
};

// Processors of a GPU (its SMs), or of a modelled device of the CPU backend (its threads).
struct SliceGpu {
  int processors = 0;
  // The finest split: a part has a multiple of `unit`, and all parts together at most `units`.
  int unit = 1;
  int units = 0;
  // The rates of one processor; zero: unknown.
  double flops_per_second_each = 0;
  double bytes_per_second_each = 0;
  Bytes memory = {};
  std::vector<SliceSplit> coarser = {};  // by size: with more processors than the finest
};

struct SliceFacts {
  std::vector<SliceGpu> gpus = {};  // by ordinal
  int gpu = 0;                      // the GPU that a text means when it names none
  bool threads = false;             // the entries of `gpus` are devices of the CPU backend
};

// A slice to be opened.
struct SlicePart {
  int gpu = 0;
  int processors = 0;
  int unit = 0;       // of the split that all parts of the GPU come from; zero: the finest
  bool whole = true;  // all processors of the GPU: its primary context
  double share = 1;   // of the GPU's memory for slices
};

struct SliceLayout {
  std::vector<SlicePart> parts;    // parts of the same GPU follow each other, in the text's order
  std::vector<std::string> notes;  // for the log: where the layout differs from the text
};

// kInvalidArgument: the text has another form, or names a GPU that does not exist or is named
// twice; or slices exceed their GPU, or are smaller than a unit. The message lists what there is.
Result<SliceLayout> parse_slices(std::string_view text, const SliceFacts& facts);

}  // namespace causeway::slice
