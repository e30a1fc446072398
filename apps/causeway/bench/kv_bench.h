// How fast KV rotates between HBM and host memory: ways to move the same bytes, beside the raw
// limit of the link in the same run (SuperInfer's evaluation of DuplexKV).
//
//   per-layer loop     a layout with a tensor a layer, 2 × layers copies a block: a call each
//   per-layer batches  the same, many copies a call; out, then in
//   merged loop        blocks that are whole: a call each, both ways at once
//   batched            many blocks a call; out, then in
//   ours               the mover of slices: only in, only out, both ways at once
//   raw                one plain copy each way, of as many bytes
//
// Each round times every way once. Rates are of the bytes that were moved, both ways summed.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/figure.h"
#include "bench/kv_layers.h"
#include "bench/kv_rotator.h"
#include "bench/kv_stage.h"

namespace causeway::bench {

struct KvBenchSettings {
  KvStageSettings stage;
  KvPace pace;
  std::vector<NamedKvShape> shapes;  // of blocks in a layout by layers
  std::int64_t runs = 5;
  std::function<void(const std::string& what)> progress;
};

// What blocks of a shape are like in both layouts.
struct KvShapeFacts {
  std::string name;
  Tokens frame_tokens;    // of the block in a frame
  double frame_used = 0;  // of the frame's bytes
  LayeredLayout layered;  // of each way
};

struct KvBenchReport {
  std::int64_t blocks = 0;  // that moved each way
  std::vector<KvShapeFacts> shapes;
  std::vector<Figure> rows;
};

// kCorrupt when blocks do not hold what they should after they have moved; errors as
// KvStage::open(), plan_layers() and kv::plan_block().
Result<KvBenchReport> bench_kv(const KvBenchSettings& settings, const Clock& clock);

nlohmann::ordered_json report_json(const KvBenchSettings& settings, const KvBenchReport& report);

}  // namespace causeway::bench
