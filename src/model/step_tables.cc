#include "model/step_tables.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "kernels/attention/attention_cuda.h"

namespace causeway::model {
namespace {

constexpr std::int64_t kAlignment = 4;  // elements in 16 bytes

constexpr std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_decode(const request::BatchEntry& entry) { return entry.token_count == 1; }

// Fills the tables place by place.
class Writer {
 public:
  Writer(const request::Batch& batch, const StepShape& shape, std::span<std::int32_t> out)
      : batch_(batch), shape_(shape), at_(offsets_of(shape)), out_(out) {
    row_of_last_.resize(batch.entries.size());
  }

  std::int64_t write() {
    place_all(true);
    pad();
    place_all(false);
    CAUSEWAY_CHECK(row_ <= shape_.rows && slot_ <= shape_.slots, "the batch exceeds its shape");
    set(at_.query_begin, shape_.slots, row_);
    set(at_.frame_begin, shape_.slots, frames_);
    write_sampled();
    return at_.frames + frames_;
  }

 private:
  void set(std::int64_t table, std::int64_t index, std::int64_t value) {
    out_[static_cast<std::size_t>(table + index)] = static_cast<std::int32_t>(value);
  }

  void place_all(bool decode) {
    for (std::size_t i = 0; i < batch_.entries.size(); ++i) {
      if (is_decode(batch_.entries[i]) == decode) place(i);
    }
  }

  void place(std::size_t index) {
    const request::BatchEntry& entry = batch_.entries[index];
    begin_place(std::int64_t{entry.context} + entry.token_count);
    for (std::int32_t i = 0; i < entry.token_count; ++i) {
      const auto token = static_cast<std::size_t>(entry.token_begin + i);
      write_row(batch_.tokens[token], std::int64_t{entry.context} + i);
    }
    for (std::int32_t i = 0; i < entry.frame_count; ++i) {
      const auto frame = static_cast<std::size_t>(entry.frame_begin + i);
      set(at_.frames, frames_++, batch_.frames[frame].value);
    }
    row_of_last_[index] = row_ - 1;
    ++slot_;
  }

  // Slots of the bucket that no sequence has. They stand between decode and prompt chunks, though
  // a shape with both has none.
  void pad() {
    for (; slot_ < shape_.decode; ++slot_) {
      begin_place(0);
      write_row(0, -1);
    }
  }

  void begin_place(std::int64_t length) {
    set(at_.query_begin, slot_, row_);
    set(at_.frame_begin, slot_, frames_);
    set(at_.length, slot_, length);
  }

  void write_row(TokenId token, std::int64_t position) {
    set(at_.token, row_, token);
    set(at_.position, row_, position);
    set(at_.sequence, row_, slot_);
    ++row_;
  }

  void write_sampled() {
    std::int64_t sampled = 0;
    for (std::size_t i = 0; i < batch_.entries.size(); ++i) {
      const request::BatchEntry& entry = batch_.entries[i];
      const std::int64_t first = row_of_last_[i] + 1 - entry.token_count;
      for (std::int64_t row = 0; row < std::ssize(entry.scored); ++row) {
        set(at_.sampled, sampled++, first + row);
      }
      if (entry.samples) set(at_.sampled, sampled++, row_of_last_[i]);
    }
    CAUSEWAY_CHECK(sampled <= shape_.sampled, "more logits are needed than the shape has rows for");
    for (; sampled < shape_.sampled; ++sampled) set(at_.sampled, sampled, -1);
  }

  const request::Batch& batch_;
  const StepShape& shape_;
  const TableOffsets at_;
  std::span<std::int32_t> out_;
  std::vector<std::int64_t> row_of_last_;  // by entry
  std::int64_t row_ = 0;
  std::int64_t slot_ = 0;
  std::int64_t frames_ = 0;
};

std::int64_t frames_of(const request::Batch& batch) {
  std::int64_t frames = 0;
  for (const request::BatchEntry& entry : batch.entries) frames += entry.frame_count;
  return frames;
}

void check(const request::Batch& batch) {
  const auto tokens = static_cast<std::int64_t>(batch.tokens.size());
  const auto frames = static_cast<std::int64_t>(batch.frames.size());
  for (const request::BatchEntry& entry : batch.entries) {
    CAUSEWAY_CHECK(entry.token_begin >= 0 && entry.token_count > 0 &&
                       std::int64_t{entry.token_begin} + entry.token_count <= tokens,
                   "an entry's tokens are not in the batch");
    CAUSEWAY_CHECK(entry.frame_begin >= 0 && entry.frame_count > 0 && entry.context >= 0 &&
                       std::int64_t{entry.frame_begin} + entry.frame_count <= frames,
                   "an entry's frames are not in the batch");
    CAUSEWAY_CHECK(entry.logit_rows() <= entry.token_count, "an entry has no such rows of logits");
  }
}

}  // namespace

TableOffsets offsets_of(const StepShape& shape) {
  TableOffsets at;
  at.position = at.token + aligned(shape.rows);
  at.sequence = at.position + aligned(shape.rows);
  at.query_begin = at.sequence + aligned(shape.rows);
  at.length = at.query_begin + aligned(shape.slots + 1);
  at.sampled = at.length + aligned(shape.slots);
  at.frame_begin = at.sampled + aligned(shape.sampled);
  at.frames = at.frame_begin + aligned(shape.slots + 1);
  return at;
}

std::int64_t table_elements_max(std::int64_t rows, std::int64_t slots, std::int64_t frames) {
  const StepShape largest{.rows = rows, .slots = slots, .decode = slots, .sampled = slots};
  return offsets_of(largest).frames + aligned(frames);
}

std::vector<std::int64_t> decode_buckets(std::int64_t slots) {
  constexpr std::array<std::int64_t, 20> kSizes = {1,  2,  4,  8,  12, 16, 20,  24,  28,  32,
                                                   40, 48, 56, 64, 80, 96, 128, 160, 192, 256};
  std::vector<std::int64_t> buckets;
  std::copy_if(kSizes.begin(), kSizes.end(), std::back_inserter(buckets),
               [&](std::int64_t size) { return size < slots; });
  // Without one for the most there are, each count beyond the last would have a graph of its own.
  if (slots <= kSizes.back()) buckets.push_back(slots);
  return buckets;
}

StepShape shape_of(const request::Batch& batch, std::span<const std::int64_t> buckets,
                   std::int64_t plain_context) {
  using kernels::attention::small_batch_context_max, kernels::attention::kSmallBatchSequences;
  StepShape shape;
  std::int64_t longest = 0;
  shape.slots = static_cast<std::int64_t>(batch.entries.size());
  for (const request::BatchEntry& entry : batch.entries) {
    shape.rows += entry.token_count;
    shape.decode += is_decode(entry) ? 1 : 0;
    if (is_decode(entry)) longest = std::max<std::int64_t>(longest, entry.context + 1);
    shape.sampled += entry.logit_rows();
    shape.long_context |= std::int64_t{entry.context} + entry.token_count > plain_context;
  }
  if (shape.decode_only()) {
    const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), shape.slots);
    if (bucket != buckets.end()) {
      shape.rows = shape.slots = shape.decode = shape.sampled = *bucket;
    }
  }
  // Attention's kernel for small batches knows no window.
  shape.small_batch = !shape.long_context && shape.decode > 0 &&
                      shape.decode <= kSmallBatchSequences &&
                      longest <= small_batch_context_max(shape.decode);
  return shape;
}

std::int64_t write_tables(const request::Batch& batch, const StepShape& shape,
                          std::span<std::int32_t> out) {
  check(batch);
  CAUSEWAY_CHECK(offsets_of(shape).frames + frames_of(batch) <= std::ssize(out),
                 "no room for the step's tables");
  return Writer(batch, shape, out).write();
}

}  // namespace causeway::model
