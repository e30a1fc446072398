#include "bench/server/measure.h"

#include <fmt/format.h>
#include <malloc.h>

#include <fstream>

#include "base/open_files.h"
#include "bench/server/null_fleet.h"
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
  const std::int64_t needed = 2 * std::int64_t{streams} + 256;
  CAUSEWAY_ASSIGN(const std::int64_t allowed, allow_open_files(needed));
  if (allowed >= needed) return {};
  return exhausted(std::to_string(needed) + " open files are needed, " + std::to_string(allowed) +
                   " allowed; raise `ulimit -n`");
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
  const LoadResult& first = report.first_byte.load;
  const LoadResult& many = report.concurrency.load;
  return fmt::format(
      "time to first byte  p50 {:.0f} us  p99 {:.0f} us  max {:.0f} us  ({} requests, {} failed)\n"
      "concurrent streams  {} complete, {} failed, memory +{:.1f} MB\n",
      micros_of(first.first_byte_ns, 0.5), micros_of(first.first_byte_ns, 0.99),
      micros_of(first.first_byte_ns, 1), first.complete + first.failed, first.failed, many.complete,
      many.failed, static_cast<double>(report.concurrency.memory_growth.count) / 1e6);
}

std::string to_json(const ServerReport& report) {
  const LoadResult& first = report.first_byte.load;
  const LoadResult& many = report.concurrency.load;
  return fmt::format(
      R"({{"first_byte_us_p50":{:.1f},"first_byte_us_p99":{:.1f},"first_byte_us_max":{:.1f},)"
      R"("first_byte_requests":{},"first_byte_failed":{},"streams_complete":{},)"
      R"("streams_failed":{},"streams_memory_bytes":{}}})",
      micros_of(first.first_byte_ns, 0.5), micros_of(first.first_byte_ns, 0.99),
      micros_of(first.first_byte_ns, 1), first.complete + first.failed, first.failed, many.complete,
      many.failed, report.concurrency.memory_growth.count);
}

}  // namespace causeway::server
