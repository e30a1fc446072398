#include "transfer/segment_table.h"

#include <algorithm>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

constexpr Bytes kTotalMax = Bytes(std::int64_t{1} << 62);

bool continues(const device::MemoryAddress& address, const device::MemoryAddress& before,
               Bytes bytes) {
  return address.device == before.device && address.region == before.region &&
         address.offset == before.offset + bytes;
}

}  // namespace

Result<SegmentTable> SegmentTable::make(std::vector<Segment> segments) {
  SegmentTable table;
  Bytes total;
  for (const Segment& segment : segments) {
    if (segment.bytes < Bytes(0) || segment.bytes > kTotalMax - total) {
      return invalid_argument("a segment of " + std::to_string(segment.bytes.count) +
                              " bytes is no part of a transfer");
    }
    if (segment.bytes == Bytes(0)) continue;
    total += segment.bytes;
    Segment* last = table.segments_.empty() ? nullptr : &table.segments_.back();
    if (last != nullptr && continues(segment.host, last->host, last->bytes) &&
        continues(segment.device, last->device, last->bytes)) {
      last->bytes += segment.bytes;
      continue;
    }
    table.starts_.push_back(total - segment.bytes);
    table.segments_.push_back(segment);
  }
  table.starts_.push_back(total);
  CAUSEWAY_DCHECK(table.starts_.size() == table.segments_.size() + 1,
                  "a start a segment, and the end");
  return table;
}

std::size_t SegmentTable::segment_at(Bytes at) const {
  CAUSEWAY_CHECK(at >= Bytes(0) && at < total(), "no byte of the transfer");
  return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), at) -
                                  starts_.begin()) -
         1;
}

Bytes SegmentTable::cut(Bytes begin, Bytes bytes, std::int64_t segments) const {
  CAUSEWAY_CHECK(bytes > Bytes(0) && segments > 0);
  const auto last = std::min(static_cast<std::size_t>(size()),
                             segment_at(begin) + static_cast<std::size_t>(segments));
  return std::min(starts_[last], begin + std::min(bytes, total() - begin));
}

std::vector<SegmentTable::Part> SegmentTable::parts(ByteRange range) const {
  CAUSEWAY_CHECK(range.begin < range.end && range.end <= total());
  std::vector<Part> parts;
  for (std::size_t s = segment_at(range.begin); starts_[s] < range.end; ++s) {
    const Segment& segment = segments_[s];
    const Bytes from = std::max(range.begin, starts_[s]);
    const Bytes to = std::min(range.end, starts_[s] + segment.bytes);
    CAUSEWAY_DCHECK(from < to, "a part without bytes");
    Part part{segment.host, segment.device, from - range.begin, to - from};
    part.host.offset += from - starts_[s];
    part.device.offset += from - starts_[s];
    parts.push_back(part);
    if (s + 1 == static_cast<std::size_t>(size())) break;
  }
  return parts;
}

}  // namespace causeway::transfer
