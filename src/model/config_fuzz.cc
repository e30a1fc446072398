// Any bytes as a config.json. What is accepted has dimensions that later code may multiply, a load
// plan, and a config.json of its own that means the same.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/config.h"

namespace causeway::model {
namespace {

void check(const ModelConfig& config) {
  CAUSEWAY_CHECK(config.hidden > 0 && config.layers > 0 && config.vocab > 0);
  CAUSEWAY_CHECK(config.heads > 0 && config.kv_heads > 0 && config.heads % config.kv_heads == 0);
  CAUSEWAY_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0);
  CAUSEWAY_CHECK(config.rotated_dim() > 0 && config.rotated_dim() <= config.head_dim);
  CAUSEWAY_CHECK(config.max_position > Tokens(0) && config.sliding_window > 0);
  CAUSEWAY_CHECK(parameter_count(config) > 0);
  if (config.bos) CAUSEWAY_CHECK(*config.bos >= 0 && *config.bos < config.vocab);
  for (const TokenId id : config.eos) CAUSEWAY_CHECK(id >= 0 && id < config.vocab);
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(config.layers, 64); ++layer) {
    CAUSEWAY_CHECK(config.window_of(layer) > 0);
    CAUSEWAY_CHECK(config.is_sparse(layer) || config.intermediate > 0);
  }
  CAUSEWAY_CHECK(kv_shape(config, DType::kBF16).layers == config.layers);
}

// A plan lists every tensor: of thousands of layers and experts that takes its time.
void plan(const ModelConfig& config) {
  const std::int64_t experts = config.moe ? config.moe->experts : 1;
  if (config.layers * experts > 2000) return;
  const weights::LoadPlan plan = plan_weights(config, config.dtype);
  CAUSEWAY_CHECK(!plan.groups.empty());
}

}  // namespace
}  // namespace causeway::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::model;  // NOLINT: the fuzzer's entry must be global
  const auto config = parse_config({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) {
    CAUSEWAY_CHECK(!config.error().message.empty() && config.error().message.size() < 2000);
    return 0;
  }
  check(*config);
  plan(*config);
  const std::string written = config_json(*config);
  const auto again = parse_config(written);
  CAUSEWAY_CHECK(again.ok(), "what was accepted is not accepted again");
  CAUSEWAY_CHECK(config_json(*again) == written, "what was accepted is something else");
  return 0;
}
