// The commands that measure, simulate and replay.
#include "bench/commands/measuring.h"

namespace causeway::app {

void add_measuring(Options& program, Options& bench, const Clock& clock, Commands& commands) {
  commands.push_back(make_bench_kernels(bench, clock));
  commands.push_back(make_bench_model(bench, clock));
  commands.push_back(make_bench_engine(bench, clock));
  commands.push_back(make_bench_switch(bench, clock));
  commands.push_back(make_bench_stream(bench, clock));
  commands.push_back(make_bench_catalogue(bench, clock));
  commands.push_back(make_bench_slo(bench, clock));
  commands.push_back(make_bench_load(bench, clock));
  commands.push_back(make_bench_kv(bench, clock));
  commands.push_back(make_bench_prefix(bench, clock));
  commands.push_back(make_bench_gemm(bench, clock));
  commands.push_back(make_bench_tuner(bench));
  commands.push_back(make_bench_server(bench, clock));
  commands.push_back(make_bench_transfer(bench, clock));
  commands.push_back(make_profile(program, clock));
  commands.push_back(make_simulate(program));
  commands.push_back(make_replay(program, clock));
}

}  // namespace causeway::app
