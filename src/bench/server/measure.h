// What the server itself costs: its time to first byte, and its memory under many streams. The
// server is the real one, over loopback; only the fleet behind it is null.
#pragma once

#include <string>

#include "bench/server/load_client.h"

namespace causeway::server {

struct ServerMeasurement {
  LoadResult load;
  Bytes memory_growth;  // resident set of this process, its highest while loaded less before
};

// `streams` streams of `tokens` tokens, 20 ms apart, each `rounds` times, starting at random
// moments. The clients run on the same machine, in this process.
Result<ServerMeasurement> measure_first_byte(int streams, int tokens, int rounds, int threads,
                                             const Clock& clock);

// `streams` streams that are all open at one time before any goes on.
Result<ServerMeasurement> measure_concurrency(int streams, int tokens, int threads,
                                              const Clock& clock);

// Both as a few lines of text, or as one JSON object.
struct ServerReport {
  ServerMeasurement first_byte;
  ServerMeasurement concurrency;
};
std::string to_text(const ServerReport& report);
std::string to_json(const ServerReport& report);

}  // namespace causeway::server
