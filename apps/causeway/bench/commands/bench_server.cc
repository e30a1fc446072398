#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/server/measure.h"
#include "commands/json_file.h"

namespace causeway::app {
namespace {

class BenchServer final : public Command {
 public:
  BenchServer(Options& parent, const Clock& clock)
      : Command(parent, "server",
                "Measure the HTTP server alone: real sockets, a fleet that answers at once"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--streams", streams_, "streams for the time to first byte")
        .range(1, 10'000)
        .show_default();
    app.add_option("--concurrent", concurrent_, "streams open at once for the memory figure")
        .range(1, 10'000)
        .show_default();
    app.add_option("--rounds", rounds_, "requests of each stream").range(1, 10'000).show_default();
    app.add_option("--threads", threads_, "URL of the server").range(1, 64).show_default();
    app.add_option("--json", json_file_,
                   "also write the figures to this file ('-': standard output)");
  }

  Status run() override {
    constexpr int kTokens = 32;
    server::ServerReport report;
    fmt::print(stderr, "time to first byte, {} streams …\n", streams_);
    CAUSEWAY_ASSIGN(report.first_byte,
                    server::measure_first_byte(streams_, kTokens, rounds_, threads_, clock_));
    fmt::print(stderr, "memory, {} concurrent streams …\n", concurrent_);
    CAUSEWAY_ASSIGN(report.concurrency,
                    server::measure_concurrency(concurrent_, kTokens, threads_, clock_));
    fmt::print("{}", server::to_text(report));
    return write_json(json_file_, nlohmann::ordered_json::parse(server::to_json(report)));
  }

 private:
  const Clock& clock_;
  int streams_ = 64;
  int concurrent_ = 2000;
  int rounds_ = 20;
  int threads_ = 2;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_server(Options& parent, const Clock& clock) {
  return std::make_unique<BenchServer>(parent, clock);
}

}  // namespace causeway::app
