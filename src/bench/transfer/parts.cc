#include "bench/transfer/parts.h"

#include <array>

namespace causeway::transfer::bench {

std::span<const Part> parts() {
  static constexpr std::array<Part, 12> kParts = {{
      {"sizes", "sizes beside the native copy, each way and both at once", run_sizes},
      {"break-even", "the size from which many links pay", run_break_even},
      {"sets", "every set of links, and what the engine makes of them", run_sets},
      {"gpus", "the best set of 1 … N links", run_gpus},
      {"chunks", "chunk size × depth", run_chunks},
      {"segments", "scattered segments: loop, batch, ours", run_segments},
      {"direct-first", "all GPUs at once, with and without direct work first", run_direct_first},
      {"background", "beside native copies that keep one link busy", run_background},
      {"static", "dynamic against static splits over two links", run_static},
      {"processes", "two processes at once", run_processes},
      {"cpu", "processor time of the process, copying and idle", run_cpu},
      {"memory", "GPU memory that relaying takes", run_memory},
  }};
  return kParts;
}

Result<double> steady_rate_of(Rig& rig, TransferEngine& engine, int gpu, Direction direction,
                              Nanos length) {
  const Nanos begin = rig.now();
  double bytes = 0;
  while (rig.now() - begin < length) {
    CAUSEWAY_TRY(rig.time(engine, rig.request(gpu, direction, rig.large())));
    bytes += static_cast<double>(rig.large().count);
  }
  return bytes / to_seconds(rig.now() - begin);
}

}  // namespace causeway::transfer::bench
