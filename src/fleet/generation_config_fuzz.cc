// Any bytes as a generation_config.json, and changes of published ones (edited_file.h). What is
// accepted are defaults that a request may have, and token ids.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "fleet/generation_config.h"

namespace causeway::fleet {
namespace {

const std::vector<std::string> kFiles = {
    R"({"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008, 128009],
 "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.43.0.dev0"})",
    R"({"eos_token_id": 151645, "pad_token_id": 151643, "repetition_penalty": 1.05, "top_k": 20,
 "top_p": 0.8, "temperature": 0.7, "min_p": 0})",
    R"({"chat_format": "chatml", "eos_token_id": 151643, "max_new_tokens": 512, "top_k": 0})"};
constexpr std::string_view kWords[] = {"eos_token_id", "temperature", "top_k",
                                       "top_p",        "min_p",       "repetition_penalty"};

template <typename T>
void check_within(const std::optional<T>& value, double low, double high) {
  // Written so that NaN fails.
  CAUSEWAY_CHECK(!value || (*value >= static_cast<T>(low) && *value <= static_cast<T>(high)));
}

}  // namespace
}  // namespace causeway::fleet

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::fleet;  // NOLINT: the fuzzer's entry must be global
  const auto file =
      causeway::testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data), size});
  const auto config = parse_generation_config(file.text);
  if (!config.ok()) {
    CAUSEWAY_CHECK(!file.whole, config.error().message);
    CAUSEWAY_CHECK(!config.error().message.empty() && config.error().message.size() < 1000);
    return 0;
  }
  for (const causeway::TokenId id : config->eos) CAUSEWAY_CHECK(id >= 0);
  const auto& defaults = config->defaults;
  check_within(defaults.temperature, 0, 100);
  check_within(defaults.top_p, 0, 1);
  check_within(defaults.min_p, 0, 1);
  check_within(defaults.top_k, -1, 1e9);
  check_within(defaults.repetition_penalty, 0, 1e6);
  return 0;
}
