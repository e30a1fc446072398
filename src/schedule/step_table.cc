#include "schedule/step_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace causeway::schedule {
namespace {

constexpr double kSecondsMin = 1e-9, kSecondsMax = 86'400;
constexpr std::int64_t kDecodesMax = 1 << 20;
constexpr Tokens kTokensMax(std::int64_t{1} << 20);

double on_a_line(double a, double b, double share) { return a + (b - a) * share; }

}  // namespace

Nanos StepTable::of(const StepLoad& load) const {
  CAUSEWAY_CHECK(!times.empty() && decodes >= 1, "a table of nothing");
  const Tokens prompt = std::max(load.prompt, Tokens(1));
  const auto above = std::lower_bound(times.begin(), times.end(), prompt,
                                      [](const StepTime& one, Tokens t) { return one.tokens < t; });
  StepTime at;
  if (above == times.end()) {
    const StepTime& last = times.back();
    const double scale = static_cast<double>(prompt.count) / static_cast<double>(last.tokens.count);
    at = {.tokens = prompt, .alone = last.alone * scale, .beside = last.beside * scale};
  } else if (above == times.begin()) {
    at = times.front();
  } else {
    const StepTime& below = *(above - 1);
    const double share = static_cast<double>((prompt - below.tokens).count) /
                         static_cast<double>((above->tokens - below.tokens).count);
    at = {.tokens = prompt,
          .alone = on_a_line(below.alone, above->alone, share),
          .beside = on_a_line(below.beside, above->beside, share)};
  }
  const double beside = static_cast<double>(load.decodes.count) / static_cast<double>(decodes);
  return std::max(
      Nanos(1), nanos_from_seconds(std::min(on_a_line(at.alone, at.beside, beside), kSecondsMax)));
}

const StepTable* ChunkProfile::find(std::string_view shape, int processors) const {
  CAUSEWAY_CHECK(!shape.empty() && processors >= 1, "a slice without processors");
  for (const ShapeTable& one : tables) {
    if (one.processors == processors && one.shape == shape) return &one.table;
  }
  return nullptr;
}

const StepTable* ChunkProfile::find_largest(std::string_view shape) const {
  const ShapeTable* largest = nullptr;
  for (const ShapeTable& one : tables) {
    const bool larger = largest == nullptr || one.processors > largest->processors;
    if (larger && one.shape == shape) largest = &one;
  }
  return largest == nullptr ? nullptr : &largest->table;
}

std::vector<Tokens> chunk_sizes(Tokens least, Tokens most) {
  CAUSEWAY_CHECK(least.count >= 1 && most.count >= 1, "a chunk without a token");
  std::vector<Tokens> sizes;
  for (Tokens size = least; size < most; size = size * 2) {
    sizes.push_back(size);
    if (size.count > 1 && size + size / 2 < most) sizes.push_back(size + size / 2);
  }
  sizes.push_back(most);
  return sizes;
}

std::vector<Tokens> table_sizes(Tokens most) {
  std::vector<Tokens> sizes = chunk_sizes(kChunkLeast, most);
  if (sizes.front() > Tokens(1)) sizes.insert(sizes.begin(), Tokens(1));
  return sizes;
}

Status check_table(const StepTable& table) {
  if (table.decodes < 1 || table.decodes > kDecodesMax) {
    return invalid_argument(
        fmt::format("decodes is {}, and not from 1 to {}", table.decodes, kDecodesMax));
  }
  if (table.times.empty()) return invalid_argument("steps are none");
  const Tokens most = table.times.back().tokens;
  if (most < Tokens(1) || most > kTokensMax) {
    return invalid_argument(fmt::format("steps: the last has tokens {}, and not from 1 to {}",
                                        most.count, kTokensMax.count));
  }
  const std::vector<Tokens> sizes = table_sizes(most);
  for (std::size_t i = 0; i < std::max(sizes.size(), table.times.size()); ++i) {
    const Tokens wanted = i < sizes.size() ? sizes[i] : most;
    if (i < table.times.size() && i < sizes.size() && table.times[i].tokens == wanted) continue;
    return invalid_argument(fmt::format("steps[{}] has not tokens {}: wanted is each size up to {}",
                                        i, wanted.count, most.count));
  }
  const auto possible = [](double seconds) {  // false for NaN
    return seconds >= kSecondsMin && seconds <= kSecondsMax;
  };
  for (std::size_t i = 0; i < table.times.size(); ++i) {
    const StepTime& time = table.times[i];
    if (possible(time.alone) && possible(time.beside)) continue;
    return invalid_argument(fmt::format("steps[{}].{} is no time: from a nanosecond to a day", i,
                                        possible(time.alone) ? "tpot_ms" : "ttft_ms"));
  }
  return {};
}

StepTable rising(StepTable table) {
  CAUSEWAY_CHECK(check_table(table).ok(), "a table that was not checked");
  double alone = 0, beside = 0;
  for (StepTime& time : table.times) {
    alone = time.alone = std::max(time.alone, alone);
    beside = time.beside = std::max({time.beside, time.alone, beside});
  }
  return table;
}

}  // namespace causeway::schedule
