// Copies as a program makes them that has streams and nothing else: one stream each way of a
// device, one call a copy or batches.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "transfer/transfer.h"

namespace causeway::bench {

struct CopiesBothWays {
  std::vector<device::Copy> in, out;

  Bytes bytes() const;
};

// One thread.
class CopyLanes {
 public:
  // The device outlives the lanes.
  static Result<CopyLanes> open(device::Device& device);

  // One call a copy, both ways at once, one call each way in turn. Returns when all have arrived;
  // the first failure of a stream is its last.
  Status loop(const CopiesBothWays& copies);
  // As many copies a call as the device takes; first those out, then those in.
  Status batches(const CopiesBothWays& copies);

 private:
  using Copies = std::span<const device::Copy>;

  // A stream with a bound on what is queued in it: a mark now and then, and a wait for the mark
  // before the last.
  class Lane {
   public:
    Status open(device::Device& device, const char* name);
    Status issue(Copies copies);
    Status finish() { return stream_->synchronize(kLaneWait); }

   private:
    static constexpr Nanos kLaneWait = seconds(300);
    static constexpr std::int64_t kCallsBetweenMarks = 8192;
    std::unique_ptr<device::Stream> stream_;
    std::array<std::unique_ptr<device::Event>, 2> marks_;
    std::int64_t calls_ = 0;
  };

  static Status issue_batches(Lane& lane, Copies copies, std::int64_t copies_max);

  std::int64_t copies_max_ = 1;
  Lane in_, out_;
};

}  // namespace causeway::bench
