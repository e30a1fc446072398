// Any bytes as a model.safetensors.index.json, and changes of such files (edited_file.h). What is
// accepted names files that can only lie in the model's directory.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "weights/weight_map.h"

namespace {

const std::vector<std::string> kFiles = {
    R"({"metadata": {"total_size": 6425499648}, "weight_map": {"lm_head.weight":
 "model-00002-of-00002.safetensors", "model.embed_tokens.weight":
 "model-00001-of-00002.safetensors", "model.norm.weight": "model-00002-of-00002.safetensors"}})",
    R"({"weight_map": {"a": "b"}})"};
constexpr std::string_view kWords[] = {"weight_map", "../b",    "/etc/passwd", "..", ".",
                                       "a\\\\b",     "\\u0000", "a/b",         "a"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::weights;  // NOLINT: the fuzzer's entry must be global
  const auto file =
      causeway::testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data), size});
  const auto shards = parse_weight_map(file.text);
  if (!shards.ok()) {
    CAUSEWAY_CHECK(!file.whole, shards.error().message);
    CAUSEWAY_CHECK(!shards.error().message.empty() && shards.error().message.size() < 2000);
    return 0;
  }
  CAUSEWAY_CHECK(!shards->empty() && shards->size() <= kShardsMax);
  const std::filesystem::path directory = "/models/m";
  for (const auto& [shard, tensors] : *shards) {
    CAUSEWAY_CHECK(!tensors.empty());
    const auto path = (directory / shard).lexically_normal();
    CAUSEWAY_CHECK(path.parent_path() == directory && path.filename() == shard, shard);
    CAUSEWAY_CHECK(shard.find('\0') == std::string::npos);
  }
  return 0;
}
