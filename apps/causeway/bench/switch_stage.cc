#include "bench/switch_stage.h"

#include <algorithm>
#include <utility>

#include "bench/link_rate.h"
#include "model/model_card.h"

namespace causeway::bench {
namespace {

constexpr std::size_t kCached = 2;  // of the models have room at the same time
constexpr Bytes kLinkBytes = gib(1);

// Bytes of what a step needs in the cache.
Bytes needed_bytes(const model::ModelCard& card) {
  Bytes needed;
  for (const weights::ReadingStep& step : card.reading) {
    if (step.readable_at_home) continue;
    needed += card.layout.groups[static_cast<std::size_t>(step.group)].bytes;
  }
  return needed;
}

// Room for the largest kCached, but not for a bit of another: every switch moves a whole model.
Bytes cache_bytes(std::vector<Bytes> needed, Bytes extent) {
  std::sort(needed.begin(), needed.end(), std::greater<>());
  Bytes room;
  for (std::size_t i = 0; i < std::min(kCached, needed.size()); ++i) {
    room += round_up(needed[i], extent) + extent;
  }
  return room;
}

}  // namespace

void SwitchSamples::add(const Asked& asked) {
  first.add(asked.first);
  there.add(asked.there);
  if (asked.second > 0) second.add(asked.second);
  gaps.add(asked.gaps);
  gigabytes.add(static_cast<double>(asked.crossed.count) / 1e9);
}

std::string SwitchStage::name_of(std::int64_t shape) const {
  return shapes() > 1 ? settings_.configs[static_cast<std::size_t>(shape)].name : std::string();
}

Status SwitchStage::open() {
  SliceSettings slice = settings_.slice;
  slice.engine.core.prefix_caching = false;
  slice.engine.core.step_start = start_;
  const std::int64_t longest = std::max(settings_.prompt + settings_.output,
                                        settings_.neighbour.context + settings_.neighbour.output);
  std::vector<BenchModel> models;
  for (std::int64_t m = 0; m < std::max(settings_.models, shapes()); ++m) {
    const NamedConfig& named = settings_.configs[static_cast<std::size_t>(shape_of(m))];
    CAUSEWAY_ASSIGN(const model::ModelCard card, slice.card(named.config));
    needed_.push_back(needed_bytes(card));
    models.push_back({ModelId(m), named.config, Tokens(longest)});
  }
  slice.weights = cache_bytes(needed_, slice.extent());
  // One more that comes from its files.
  if (settings_.from_disk) {
    models.push_back({ModelId(this->models()), settings_.configs.front().config, Tokens(longest)});
  }
  CAUSEWAY_TRY(local_.open(slice, std::move(models)));
  for (std::int64_t m = 0; m < this->models(); ++m) {
    say("model " + std::to_string(m + 1) + " of " + std::to_string(this->models()));
    CAUSEWAY_TRY(status_of(local_.add(ModelId(m))));
    CAUSEWAY_TRY(status_of(ask(m, settings_.output)));
  }
  return {};
}

Result<double> SwitchStage::measure_link() {
  say("the link alone");
  CAUSEWAY_ASSIGN(const auto home, home_.pool.pin(ModelId(0)));
  return measure_link_rate(local_, *home, settings_.rounds);
}

Result<BestLinks> SwitchStage::measure_links() {
  slice::Slice& slice = local_.slice();
  if (slice.links()->links < 2) return BestLinks();
  say("sets of links");
  CAUSEWAY_ASSIGN(const auto home, home_.pool.pin(ModelId(0)));
  return measure_best_links(slice,
                            {.home = home->address(),
                             .bytes = std::min(kLinkBytes, home->bytes()),
                             .rounds = settings_.rounds},
                            local_.clock());
}

Result<Asked> SwitchStage::ask(std::int64_t model, std::int64_t output) {
  constexpr Nanos kLook = micros(200);
  const Clock& clock = local_.clock();
  const Bytes before = local_.slice().link_bytes();
  const Nanos begin = clock.now();
  CAUSEWAY_ASSIGN(const RequestId id, local_.submit(ModelId(model), settings_.prompt, output));
  Asked asked;
  for (bool begun = false; !begun && clock.now() - begin < kPatience;) {
    begun = local_.sink().begun(id, kLook);
    const Bytes crossed = local_.slice().link_bytes() - before;
    if (crossed > asked.crossed) asked.there = to_millis(clock.now() - begin);
    asked.crossed = crossed;
  }
  CAUSEWAY_ASSIGN(const TokenTimes times, local_.sink().wait_for_end(id, kPatience));
  if (times.at.empty()) return unavailable("a request ended without a token");
  asked.first = to_millis(times.at.front() - begin);
  for (std::size_t i = 1; i < times.at.size(); ++i) {
    const double gap = to_millis(times.at[i] - times.at[i - 1]);
    if (i == 1) asked.second = gap;
    if (i > 1) asked.gaps.add(gap);
  }
  return asked;
}

}  // namespace causeway::bench
