// The bytes of a transfer as one range [0, total): segments one after the other. Chunks are
// sub-ranges, cut on demand and turned into copy descriptors when they are launched.
#pragma once

#include <vector>

#include "transfer/transfer.h"

namespace causeway::transfer {

struct ByteRange {
  Bytes begin;
  Bytes end;
  Bytes bytes() const { return end - begin; }
};

class SegmentTable {
 public:
  SegmentTable() = default;
  // Segments of 0 bytes are left out; neighbours in both memories become one. kInvalidArgument for
  // a negative size or more than 2^62 bytes in all.
  static Result<SegmentTable> make(std::vector<Segment> segments);

  Bytes total() const { return starts_.empty() ? Bytes(0) : starts_.back(); }
  std::int64_t size() const { return std::ssize(segments_); }

  // The end of the chunk that begins at `begin` < total(); the chunk has at most `bytes` bytes and
  // `segments` segments.
  Bytes cut(Bytes begin, Bytes bytes, std::int64_t segments) const;
  // The parts of segments within a range, each with its place in the range.
  struct Part {
    device::MemoryAddress host;
    device::MemoryAddress device;
    Bytes at;  // from the range's begin
    Bytes bytes;
  };
  std::vector<Part> parts(ByteRange range) const;

 private:
  std::size_t segment_at(Bytes at) const;

  std::vector<Segment> segments_;
  std::vector<Bytes> starts_;  // of each segment, and the total at the end
};

}  // namespace causeway::transfer
