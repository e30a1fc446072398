#include "server/bench/measure.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "server/bench/null_fleet.h"
#include "server/server.h"

namespace causeway::server {
namespace {

// VmRSS, or (`peak`) VmHWM, of this process; 0 when it cannot be read.
Bytes resident(bool peak) {
  std::ifstream status("/proc/self/status");
  std::string line;
  const std::string key = peak ? "VmHWM:" : "VmRSS:";
  while (std::getline(status, line)) {
    if (line.starts_with(key)) return kib(std::atol(line.c_str() + key.size()));
  }
  return {};
}

// Starts the highest-so-far anew; where the system refuses, peaks of before count too.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

// Two descriptors a stream: ours and the server's.
Status allow_descriptors(int streams) {
  const auto needed = static_cast<rlim_t>(2 * streams + 256);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return io_error("getrlimit", errno);
  if (limit.rlim_cur >= needed) return {};
  if (limit.rlim_max < needed) {
    return exhausted(std::to_string(needed) + " open files are needed; raise `ulimit -n`");
  }
  limit.rlim_cur = needed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return io_error("setrlimit", errno);
  return {};
}

Result<ServerMeasurement> measure(LoadOptions load, const NullFleet::Options& fleet_options,
                                  int threads, const Clock& clock) {
  CAUSEWAY_TRY(allow_descriptors(load.streams));
  ServerOptions options;
  options.port = 0;
  options.threads = threads;
  options.limits.connections_max = load.streams + 16;
  Server server(options, clock);
  NullFleet fleet(fleet_options, server.sink(), clock);
  malloc_trim(0);
  const Bytes before = resident(false);
  reset_peak();
  CAUSEWAY_TRY(server.start(fleet));
  load.port = server.port();
  auto result = run_load(load, clock);
  ServerMeasurement measured;
  measured.memory_growth = resident(true) - before;
  server.stop();
  if (!result.ok()) return result.error();
  measured.load = std::move(result).value();
  return measured;
}

double micros_of(const Histogram& histogram, double fraction) {
  return static_cast<double>(histogram.percentile(fraction)) * 1e-3;
}

}  // namespace

Result<ServerMeasurement> measure_first_byte(int streams, int tokens, int rounds, int threads,
                                             const Clock& clock) {
  LoadOptions load;
  load.streams = streams;
  load.tokens = tokens;
  load.requests_per_stream = rounds;
  return measure(load, {}, threads, clock);
}

Result<ServerMeasurement> measure_concurrency(int streams, int tokens, int threads,
                                              const Clock& clock) {
  LoadOptions load;
  load.streams = streams;
  load.tokens = tokens;
  load.requests_per_stream = 1;
  NullFleet::Options fleet;
  fleet.gather = streams;
  return measure(load, fleet, threads, clock);
}

std::string to_text(const ServerReport& report) {
  char text[512];
  const LoadResult& first = report.first_byte.load;
  const LoadResult& many = report.concurrency.load;
  std::snprintf(text, sizeof text,
                "time to first byte  p50 %.0f us  p99 %.0f us  max %.0f us  (%ld requests, %ld "
                "failed)\n"
                "concurrent streams  %ld complete, %ld failed, memory +%.1f MB\n",
                micros_of(first.first_byte_ns, 0.5), micros_of(first.first_byte_ns, 0.99),
                micros_of(first.first_byte_ns, 1), first.complete + first.failed, first.failed,
                many.complete, many.failed,
                static_cast<double>(report.concurrency.memory_growth.count) / 1e6);
  return text;
}

std::string to_json(const ServerReport& report) {
  char text[512];
  const LoadResult& first = report.first_byte.load;
  const LoadResult& many = report.concurrency.load;
  std::snprintf(text, sizeof text,
                "{\"first_byte_us_p50\":%.1f,\"first_byte_us_p99\":%.1f,\"first_byte_us_max\":%.1f,"
                "\"first_byte_requests\":%ld,\"first_byte_failed\":%ld,\"streams_complete\":%ld,"
                "\"streams_failed\":%ld,\"streams_memory_bytes\":%ld}",
                micros_of(first.first_byte_ns, 0.5), micros_of(first.first_byte_ns, 0.99),
                micros_of(first.first_byte_ns, 1), first.complete + first.failed, first.failed,
                many.complete, many.failed, report.concurrency.memory_growth.count);
  return text;
}

}  // namespace causeway::server
