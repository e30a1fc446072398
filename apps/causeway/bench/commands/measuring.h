// The commands of this library. Each declares its options below `parent` when it is made.
#pragma once

#include <memory>

#include "base/clock.h"
#include "commands/command.h"

namespace causeway::app {

// `clock` outlives the command.
std::unique_ptr<Command> make_bench_kernels(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_model(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_engine(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_switch(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_stream(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_catalogue(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_slo(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_load(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_kv(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_prefix(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_gemm(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_tuner(Options& parent);
std::unique_ptr<Command> make_bench_server(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_bench_transfer(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_profile(Options& parent, const Clock& clock);
std::unique_ptr<Command> make_simulate(Options& parent);
std::unique_ptr<Command> make_replay(Options& parent, const Clock& clock);

}  // namespace causeway::app
