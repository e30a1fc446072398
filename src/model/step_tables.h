// A step as the GPU's kernels read it: one block of int32 tables, made on the host and copied to
// the device before the step, so that a captured graph serves every step of its shape.
//
//   token │ position │ sequence │ query_begin │ length │ sampled │ frame_begin │ frames
//   ╰──── per row of x ────────╯ ╰ per slot ──────────╯           ╰ slots + 1 ─╯
//
// Rows and slots: entries of one token come first (decode), then prompt chunks, each in the
// batch's order. A step of single tokens only may be padded to a bucket: its last slots have
// length 0, and its last rows position -1. Every table begins at a multiple of 16 bytes; `frames`,
// whose length changes from step to step, is the last.
//
// Pure. The meaning of each table is that of attention_cuda.h and rms_norm_cuda.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "request/batch.h"

namespace causeway::model {

// What a captured graph is made for.
struct StepShape {
  std::int64_t rows = 0;     // of x, padding included
  std::int64_t slots = 0;    // sequences, padding included
  std::int64_t decode = 0;   // slots of one row each, which are the first
  std::int64_t sampled = 0;  // rows of logits, padding included
  // The decoding sequences are as few and as short as attention has a kernel of its own for.
  bool small_batch = false;
  // A sequence is longer than ModelConfig::plain_context(): attention has to look at the window, or
  // queries are scaled.
  bool long_context = false;

  // Steps of single tokens only have a shape that comes again.
  bool decode_only() const { return decode == slots; }
  bool operator==(const StepShape&) const = default;
};

// Where each table begins, in elements.
struct TableOffsets {
  std::int64_t token = 0;
  std::int64_t position = 0;
  std::int64_t sequence = 0;
  std::int64_t query_begin = 0;
  std::int64_t length = 0;
  std::int64_t sampled = 0;
  std::int64_t frame_begin = 0;
  std::int64_t frames = 0;
};
TableOffsets offsets_of(const StepShape& shape);

// Elements of the tables of any step of at most so many rows, slots and frames.
std::int64_t table_elements_max(std::int64_t rows, std::int64_t slots, std::int64_t frames);

// Sizes of steps of single tokens, ascending, for which there is a graph each where steps have at
// most so many slots: one costs some megabytes, and padding to the next costs less than a tenth.
// Larger steps than the last come seldom and have none.
std::vector<std::int64_t> decode_buckets(std::int64_t slots);

// The shape of a batch: padded to the smallest of `buckets` (ascending) that holds it when it is of
// single tokens only; exact when none does, or when it has prompt chunks. `plain_context`:
// ModelConfig::plain_context().
StepShape shape_of(const request::Batch& batch, std::span<const std::int64_t> buckets,
                   std::int64_t plain_context);

// Writes the tables of `batch` in `shape` into `out` and returns how many elements they take. The
// rows of logits are Batch::logit_rows(), in the batch's order. CHECKs that the batch is consistent
// and `out` large enough.
std::int64_t write_tables(const request::Batch& batch, const StepShape& shape,
                          std::span<std::int32_t> out);

}  // namespace causeway::model
