#include "bench/model/bench_batch.h"

#include <utility>

namespace causeway::model {
namespace {

constexpr Bytes kBenchFrame = mib(4);

std::int64_t frames_of_one(const BatchPart& part, const kv::BlockLayout& layout) {
  return ceil_div(part.context + part.tokens, layout.tokens.count);
}

}  // namespace

Result<kv::BlockLayout> bench_layout(const ModelConfig& config) {
  return kv::plan_block(kv_shape(config, DType::kBF16), kBenchFrame);
}

std::int64_t frames_of(std::span<const BatchPart> parts, const kv::BlockLayout& layout) {
  std::int64_t frames = 0;
  for (const BatchPart& part : parts) frames += part.sequences * frames_of_one(part, layout);
  return frames;
}

request::Batch make_bench_batch(std::span<const BatchPart> parts, const kv::BlockLayout& layout,
                                std::int64_t vocab) {
  request::Batch made;
  for (const BatchPart& part : parts) {
    for (std::int64_t i = 0; i < part.sequences; ++i) {
      request::BatchEntry entry;
      entry.token_begin = static_cast<std::int32_t>(made.tokens.size());
      entry.token_count = static_cast<std::int32_t>(part.tokens);
      entry.frame_begin = static_cast<std::int32_t>(made.frames.size());
      entry.frame_count = static_cast<std::int32_t>(frames_of_one(part, layout));
      entry.context = static_cast<std::int32_t>(part.context);
      entry.samples = true;
      for (std::int64_t t = 0; t < part.tokens; ++t) {
        made.tokens.push_back(static_cast<TokenId>((i * 31 + t * 97) % vocab));
      }
      for (std::int32_t f = 0; f < entry.frame_count; ++f) {
        made.frames.emplace_back(std::ssize(made.frames));
      }
      made.entries.push_back(std::move(entry));
    }
  }
  return made;
}

}  // namespace causeway::model
