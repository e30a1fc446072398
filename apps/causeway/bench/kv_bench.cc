#include "bench/kv_bench.h"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "bench/kv_contents.h"
#include "bench/kv_figures.h"

namespace causeway::bench {
namespace {

using transfer::Direction;

constexpr double kDuplexWanted = 0.97;  // of the raw limit
constexpr std::uint64_t kSeed = 1;      // of which blocks lie where

Result<KvShapeFacts> facts_of(const NamedKvShape& named, const KvStage& stage) {
  CAUSEWAY_ASSIGN(const kv::BlockLayout block, kv::plan_block(named.shape, stage.block()));
  CAUSEWAY_ASSIGN(const LayeredLayout layered, plan_layers(named.shape, stage.half()));
  const Bytes used = block.layer_stride * named.shape.layers;
  return KvShapeFacts{
      .name = named.name,
      .frame_tokens = block.tokens,
      .frame_used = static_cast<double>(used.count) / static_cast<double>(stage.block().count),
      .layered = layered};
}

// What moves one way and nothing the other.
CopiesBothWays only(Direction direction, std::vector<device::Copy> copies) {
  if (direction == Direction::kIn) return {.in = std::move(copies), .out = {}};
  return {.in = {}, .out = std::move(copies)};
}

class KvBench {
 public:
  KvBench(const KvBenchSettings& settings, KvStage& stage, CopyLanes lanes)
      : settings_(settings),
        stage_(stage),
        lanes_(std::move(lanes)),
        rotator_(stage.mover(), settings.pace, stage.clock()),
        random_(kSeed) {
    choose_blocks();
  }

  Result<KvBenchReport> run();

 private:
  // A way to move, which says how long it took.
  struct Way {
    KvWayRates rates;
    Bytes moved;
    std::function<Result<Nanos>()> time;
  };

  void choose_blocks();
  Status add_layered(KvBenchReport& report);
  void add_merged();
  void add_ours();
  void add_raw();
  void add_native(KvWayRates rates, CopiesBothWays copies, bool batches);
  void add_rotation(KvWayRates rates, BlockMoves moves);
  Result<Nanos> time_native(const CopiesBothWays& copies, bool batches);
  std::vector<device::Copy> blocks(Direction direction) const;
  device::Copy plain(Direction direction) const;
  Status measure();
  Status check_contents();

  const KvBenchSettings& settings_;
  KvStage& stage_;
  CopyLanes lanes_;
  KvRotator rotator_;
  Random random_;
  BlockMoves moves_;
  std::vector<Way> ways_;  // the last one is the limit
};

// Twins as they are taken from a pool that is empty; frames lie anywhere.
void KvBench::choose_blocks() {
  const auto frames = shuffled(stage_.blocks() * 2, random_);
  for (std::int64_t i = 0; i < stage_.blocks() * 2; ++i) {
    auto& moves = i < stage_.blocks() ? moves_.out : moves_.in;
    moves.push_back({FrameId(frames[static_cast<std::size_t>(i)]), TwinId(i)});
  }
}

std::vector<device::Copy> KvBench::blocks(Direction direction) const {
  std::vector<device::Copy> copies;
  for (const BlockMove& move : direction == Direction::kIn ? moves_.in : moves_.out) {
    copies.push_back(stage_.block_copy(direction, move.frame, move.twin));
  }
  return copies;
}

device::Copy KvBench::plain(Direction direction) const {
  const LayeredBases bases = stage_.plain(direction);
  const bool in = direction == Direction::kIn;
  return {in ? bases.device : bases.host, in ? bases.host : bases.device, stage_.half()};
}

Result<Nanos> KvBench::time_native(const CopiesBothWays& copies, bool batches) {
  const Nanos begin = stage_.clock().now();
  CAUSEWAY_TRY(batches ? lanes_.batches(copies) : lanes_.loop(copies));
  return stage_.clock().now() - begin;
}

void KvBench::add_native(KvWayRates rates, CopiesBothWays copies, bool batches) {
  const Bytes moved = copies.bytes();
  ways_.push_back({.rates = std::move(rates),
                   .moved = moved,
                   .time = [this, batches, copies = std::move(copies)] {
                     return time_native(copies, batches);
                   }});
}

Status KvBench::add_layered(KvBenchReport& report) {
  for (const NamedKvShape& named : settings_.shapes) {
    CAUSEWAY_ASSIGN(const KvShapeFacts facts, facts_of(named, stage_));
    const auto scattered = [&](Direction direction) {
      return layered_copies(facts.layered, stage_.plain(direction), direction,
                            shuffled(facts.layered.blocks, random_));
    };
    const CopiesBothWays copies{.in = scattered(Direction::kIn), .out = scattered(Direction::kOut)};
    add_native({.what = "per-layer loop", .model = named.name}, copies, false);
    add_native({.what = "per-layer batches, one way at a time", .model = named.name}, copies, true);
    report.shapes.push_back(facts);
  }
  return {};
}

void KvBench::add_merged() {
  const CopiesBothWays copies{.in = blocks(Direction::kIn), .out = blocks(Direction::kOut)};
  add_native({.what = "merged loop"}, copies, false);
  add_native({.what = "batched, one way at a time"}, copies, true);
}

void KvBench::add_rotation(KvWayRates rates, BlockMoves moves) {
  const std::int64_t blocks = std::ssize(moves.in) + std::ssize(moves.out);
  ways_.push_back({.rates = std::move(rates),
                   .moved = stage_.block() * blocks,
                   .time = [this, moves = std::move(moves)] { return rotator_.move(moves); }});
}

void KvBench::add_ours() {
  add_rotation({.what = "ours, only in"}, {.in = moves_.in, .out = {}});
  add_rotation({.what = "ours, only out"}, {.in = {}, .out = moves_.out});
  add_rotation({.what = "ours, duplex", .wanted = kDuplexWanted}, moves_);
}

void KvBench::add_raw() {
  const device::Copy in = plain(Direction::kIn), out = plain(Direction::kOut);
  add_native({.what = "raw, only in"}, only(Direction::kIn, {in}), false);
  add_native({.what = "raw, only out"}, only(Direction::kOut, {out}), false);
  add_native({.what = "raw limit, both ways"}, {.in = {in}, .out = {out}}, false);
}

// The first round warms up. All ways in each, so that what changes over the run changes for all.
Status KvBench::measure() {
  for (std::int64_t round = 0; round <= settings_.runs; ++round) {
    settings_.progress(round == 0 ? "warming up"
                                  : "run " + std::to_string(round) + " of " +
                                        std::to_string(settings_.runs));
    for (Way& way : ways_) {
      auto took = way.time();
      if (!took.ok()) return took.error().with_context(way.rates.what);
      if (round > 0) way.rates.add(way.moved, *took);
    }
  }
  return {};
}

Status KvBench::check_contents() {
  settings_.progress("checking what blocks hold");
  KvContents contents(stage_, lanes_, moves_);
  CAUSEWAY_TRY(contents.prepare());
  CAUSEWAY_ASSIGN(const Nanos took, rotator_.move(moves_));
  (void)took;
  return contents.check();
}

Result<KvBenchReport> KvBench::run() {
  KvBenchReport report{.blocks = stage_.blocks(), .shapes = {}, .rows = {}};
  CAUSEWAY_TRY(add_layered(report));
  add_merged();
  add_ours();
  add_raw();
  CAUSEWAY_TRY(measure());
  CAUSEWAY_TRY(check_contents());
  std::vector<KvWayRates> rates;
  for (const Way& way : ways_) rates.push_back(way.rates);
  report.rows = kv_figures(rates, rates.back().gb_per_s.median());
  return report;
}

}  // namespace

Result<KvBenchReport> bench_kv(const KvBenchSettings& settings, const Clock& clock) {
  settings.progress("taking memory");
  CAUSEWAY_ASSIGN(const auto stage, KvStage::open(settings.stage, clock));
  CAUSEWAY_ASSIGN(CopyLanes lanes, CopyLanes::open(stage->device()));
  KvBench bench(settings, *stage, std::move(lanes));
  return bench.run();
}

nlohmann::ordered_json report_json(const KvBenchSettings& settings, const KvBenchReport& report) {
  auto shapes = nlohmann::ordered_json::array();
  for (const KvShapeFacts& facts : report.shapes) {
    shapes.push_back({{"name", facts.name},
                      {"frame_tokens", facts.frame_tokens.count},
                      {"frame_used", facts.frame_used},
                      {"layered_tokens", kLayeredTokens},
                      {"layered_segments", facts.layered.parts},
                      {"layered_segment_bytes", facts.layered.segment.count},
                      {"layered_bytes_each_way", facts.layered.bytes().count}});
  }
  const Bytes each_way = settings.stage.block * report.blocks;
  return {{"bench", "kv"},
          {"device", settings.stage.on_gpu ? "cuda" : "cpu"},
          {"block_bytes", settings.stage.block.count},
          {"bytes_each_way", each_way.count},
          {"blocks_per_step", settings.pace.blocks_per_step},
          {"steps_in_flight", settings.pace.steps_in_flight},
          {"runs", settings.runs},
          {"shapes", shapes},
          {"rows", figures_json(report.rows)}};
}

}  // namespace causeway::bench
