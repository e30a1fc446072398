// Any bytes as a chunk profile, and changes of some (edited_file.h). What is accepted has tables
// that a controller may ask for any step, and a file of its own that means the same.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "engine/chunk_profile.h"
#include "schedule/chunk_controller.h"

namespace causeway::engine {
namespace {

const std::vector<std::string> kFiles = {
    R"({"format": "causeway-chunk-profile", "version": 1, "device": "cuda",
 "machine": "NVIDIA H200", "driver": "CUDA 13.0", "commit": "35361b83", "tables": [
 {"model": "a", "shape": "s", "processors": 132, "decodes": 32, "context": 1024, "runs": 5,
  "steps": [{"tokens": 1, "ttft_ms": 5, "tpot_ms": 6, "gamma_x": 1, "gamma_o": 1.4},
            {"tokens": 64, "ttft_ms": 5.5, "tpot_ms": 6.5, "gamma_x": 1, "gamma_o": 3}]}]})",
    R"({"format":"causeway-chunk-profile","version":1,"device":"cpu","machine":"cpu: plain",
"driver":"none","commit":"unknown","tables":[{"model":"m","shape":"x","processors":2,"decodes":1,
"context":1,"runs":1,"steps":[{"tokens":1,"ttft_ms":1e-5,"tpot_ms":86400000,"gamma_x":0,
"gamma_o":1e6}]},{"model":"m","shape":"x","processors":1,"decodes":1,"context":1,"runs":1,"steps":[
{"tokens":1,"ttft_ms":2,"tpot_ms":1,"gamma_x":1,"gamma_o":1},{"tokens":64,"ttft_ms":1,"tpot_ms":9,
"gamma_x":1,"gamma_o":1},{"tokens":70,"ttft_ms":3,"tpot_ms":2,"gamma_x":1,"gamma_o":1}]}]})"};

constexpr std::string_view kWords[] = {"decodes", "context", "runs",    "steps",   "tokens",
                                       "ttft_ms", "tpot_ms", "gamma_x", "gamma_o", "processors"};

void ask(const schedule::StepTable& table) {
  using schedule::StepLoad;
  const Nanos day = seconds(86'400);
  Nanos before;
  for (const std::int64_t tokens : {0, 1, 7, 64, 65, 4096, 1 << 30}) {
    const Nanos alone = table.of({.prompt = Tokens(tokens)});
    const Nanos beside = table.of({.prompt = Tokens(tokens), .decodes = Tokens(1 << 20)});
    // Points on a line are rounded.
    CAUSEWAY_CHECK(alone + Nanos(1) >= before && beside + Nanos(1) >= alone);
    CAUSEWAY_CHECK(alone > Nanos(0) && beside <= day);
    before = alone;
  }
  schedule::ChunkController chunks({}, {.min = Nanos(0), .table = table}, Tokens(8192));
  CAUSEWAY_CHECK(chunks.predicted(Tokens(512)) > Nanos(0));
  chunks.measured(Tokens(512), seconds(1));
}

}  // namespace
}  // namespace causeway::engine

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::engine;  // NOLINT: the fuzzer's entry must be global
  const auto file =
      causeway::testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data), size});
  const auto read = parse_chunk_profile(file.text);
  if (!read.ok()) {
    CAUSEWAY_CHECK(!file.whole, read.error().message);
    CAUSEWAY_CHECK(!read.error().message.empty() && read.error().message.size() < 2000);
    return 0;
  }
  for (const auto& one : profile_of(*read, "f").tables) ask(one.table);
  const std::string written = chunk_profile_json(*read);
  const auto again = parse_chunk_profile(written);
  CAUSEWAY_CHECK(again.ok(), "what was accepted is not accepted again");
  CAUSEWAY_CHECK(chunk_profile_json(*again) == written, "what was accepted is something else");
  return 0;
}
