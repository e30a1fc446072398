// Chunk size × depth at 512 MiB (MMA figure 13).
#include <array>

#include "bench/transfer/parts.h"

namespace causeway::transfer::bench {
namespace {

constexpr Bytes kTransfer = mib(512);
constexpr std::array<Bytes, 7> kChunks = {mib(1),     mib(2), kib(2'816), mib(4),
                                          kib(5'504), mib(8), mib(16)};
constexpr std::array<int, 4> kDepths = {1, 2, 3, 4};

}  // namespace

Status run_chunks(Rig& rig, Report& report) {
  const Bytes bytes = std::min(kTransfer, rig.large());
  for (const int depth : kDepths) {
    for (const Bytes chunk : kChunks) {
      if (rig.setup().quick && (depth == 1 || depth == 4)) continue;
      TransferEngineOptions options = rig.setup().engine;
      options.dispatch.depth = depth;
      options.dispatch.chunk_bytes = {chunk, chunk};
      options.dispatch.chunk_bytes_min = std::min(options.dispatch.chunk_bytes_min, chunk);
      const Bytes staging = chunk * (kDirections * depth);
      const bool allowed = staging <= options.staging_bytes_max;
      options.staging_bytes_max = std::max(options.staging_bytes_max, staging);
      CAUSEWAY_ASSIGN(const auto engine, rig.make_engine(options));
      BenchRow row{"chunks", size_text(chunk) + " × " + std::to_string(depth), {}, {}};
      for (const Direction direction : kBothDirections) {
        const auto measure = [&] { return rig.rate(*engine, rig.target(), direction, bytes); };
        CAUSEWAY_ASSIGN(const Spread rate, rig.repeat(measure));
        row.figures.push_back({std::string(name_of(direction)) + " GB/s", in_gb(rate.median)});
      }
      row.figures.push_back({"staging MiB", static_cast<double>(staging.count >> 20)});
      row.figures.push_back({"within 64 MiB", allowed ? 1.0 : 0.0});
      report.add(std::move(row));
    }
  }
  return {};
}

}  // namespace causeway::transfer::bench
