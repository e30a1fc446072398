// Many streaming clients on one thread, cheap enough to measure a server on the same machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/result.h"

namespace causeway::server {

struct LoadOptions {
  std::uint16_t port = 0;
  int streams = 64;  // connections, each with one stream at a time
  int requests_per_stream = 10;
  int tokens = 32;             // of each answer
  Nanos spread = millis(500);  // starts, and pauses between requests, are uniform in [0, spread]
  std::uint64_t seed = 1;
  Nanos patience = seconds(120);  // for the whole
};

struct LoadResult {
  std::int64_t complete = 0;  // streams that ended by [DONE] with all their tokens
  std::int64_t failed = 0;
  Histogram first_byte_ns;  // from sending a request to the first byte of its answer
  Nanos elapsed;
};

// Drives the server at 127.0.0.1 until all is answered. Blocks. Errors: kIo when the system refuses
// sockets, kDeadlineExceeded after `patience`.
Result<LoadResult> run_load(const LoadOptions& options, const Clock& clock);

}  // namespace causeway::server
