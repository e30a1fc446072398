// Runs the CPU's forward pass over scripted steps (steps_script.h) and writes the logits: the C++
// side of reference_test.py.
//
//   forward_dump MODEL_DIR STEPS LOGITS
//
// LOGITS receives, in order, a row of f32 for every entry that samples. The frames' memory is full
// of NaN, so that reading what was never written shows.
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
#include "model/forward.h"
#include "steps_script.h"
#include "weights/model_pool.h"

namespace causeway::tests {
namespace {

constexpr std::int64_t kFrames = 4096;

struct Loaded {
  device::HostMemory memory;
  RealClock clock;
  weights::ModelPool pool{memory, clock, gib(16)};
  std::unique_ptr<weights::PinnedModel> model;
};

Result<std::unique_ptr<model::HostForward>> load(Loaded& loaded, const char* directory) {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(directory));
  const auto plan = model::plan_weights(config, model::host_dtype(config.dtype));
  CAUSEWAY_ASSIGN(const auto layout, weights::lay_out(plan));
  const ModelId id(0);
  CAUSEWAY_TRY(loaded.pool.load(id, {directory, plan, layout}, {}));
  CAUSEWAY_ASSIGN(loaded.model, loaded.pool.pin(id));
  return std::make_unique<model::HostForward>(std::move(config), loaded.model->weights());
}

Status run(const char* directory, const char* steps, const char* out) {
  CAUSEWAY_ASSIGN(const StepsScript script, read_steps_script(steps));
  Loaded loaded;
  CAUSEWAY_ASSIGN(auto forward, load(loaded, directory));
  CAUSEWAY_ASSIGN(const auto layout, kv::plan_block(model::kv_shape(forward->config(), script.kv),
                                                    script.frame_bytes));
  std::vector<std::byte> memory(to_size(layout.frame) * kFrames, std::byte{0xFF});
  const model::KvMemory kv{.base = memory.data(), .layout = layout, .dtype = script.kv};
  SequenceFrames sequences(kFrames, layout.tokens.count);
  return write_logits(script, out, [&](const ScriptStep& step) -> Result<std::vector<float>> {
    CAUSEWAY_ASSIGN(const request::Batch batch, sequences.batch(step));
    std::vector<float> logits(static_cast<std::size_t>(sampled_rows(step)) *
                              static_cast<std::size_t>(forward->config().vocab));
    std::memset(logits.data(), 0xFF, logits.size() * sizeof(float));
    CAUSEWAY_TRY(forward->run(batch, kv, logits));
    return logits;
  });
}

}  // namespace
}  // namespace causeway::tests

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: forward_dump MODEL_DIR STEPS LOGITS\n";
    return 2;
  }
  const causeway::Status status = causeway::tests::run(argv[1], argv[2], argv[3]);
  if (!status.ok()) {
    std::cerr << "forward_dump: " << status.error().message << "\n";
    return 1;
  }
  return 0;
}
