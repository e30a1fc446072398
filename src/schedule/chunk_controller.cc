#include "schedule/chunk_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>

#include "base/check.h"

namespace causeway::schedule {
namespace {

constexpr Tokens kMost(std::int64_t{1} << 40);
// Two sizes for each power of two below the largest, and the largest.
constexpr std::size_t kCandidatesMax = 2 * 40 + 1;

// The weight of a new measurement in the average. Steps are alike from one to the next, and their
// loads change within some tens of them.
constexpr double kWeight = 0.25;
// A step that took so much longer than the average waited for something, and says little about the
// next one.
constexpr double kOutlier = 4;
constexpr double kRatioMin = 0.01, kRatioMax = 10'000;
// After so many measured steps a class's ratio counts as out of date.
constexpr std::int64_t kRecentSteps = 100;
constexpr double kStepMax = 86'400;  // seconds

}  // namespace

Status check_chunk(const ChunkOptions& options) {
  const auto share = [](double value) { return value > 0 && value <= 1; };  // false for NaN
  if (!share(options.ttft_share) || !share(options.tpot_share)) {
    return invalid_argument("the chunk controller's shares of targets are above 0, and 1 at most");
  }
  if (!(options.efficiency_min >= 0 && options.efficiency_min <= 1)) {
    return invalid_argument("the efficiency that chunks reach at the least is from 0 to 1");
  }
  if (options.least.count < 1) return invalid_argument("a chunk has a token at least");
  for (std::size_t i = 0; i < options.profile.tables.size(); ++i) {
    const Status good = check_table(options.profile.tables[i].table);
    if (!good.ok()) return good.error().with_context(fmt::format("tables[{}]", i));
  }
  return {};
}

Status parse_chunk(std::string_view text, ChunkOptions& options,
                   std::int64_t& tokens_per_step_max) {
  constexpr std::string_view kFixed = "fixed:";
  if (text == "auto" || text == "fixed") {
    options.automatic = text == "auto";
    return {};
  }
  std::int64_t tokens = 0;
  if (text.starts_with(kFixed)) {
    const std::string_view number = text.substr(kFixed.size());
    const char* const end = number.data() + number.size();
    const auto [stop, failure] = std::from_chars(number.data(), end, tokens);
    if (failure != std::errc() || stop != end) tokens = 0;
  }
  if (tokens < 1) {
    return invalid_argument(fmt::format(
        "chunk '{}': wanted is auto, fixed, or fixed:N with N tokens of a step, 1 at the least",
        text));
  }
  options.automatic = false;
  tokens_per_step_max = tokens;
  return {};
}

Nanos StepCost::of(const StepLoad& load) const {
  if (!table.empty()) return table.of(load);
  const auto tokens = static_cast<double>(load.all().count);
  return std::max(min, nanos_from_seconds(seconds_per_token * tokens));
}

ChunkController::ChunkController(const ChunkOptions& options, const StepCost& cost, Tokens most)
    : options_(options), cost_(cost), most_(std::min(most, kMost)) {
  CAUSEWAY_CHECK(check_chunk(options).ok(), "the chunk controller's options are out of range");
  CAUSEWAY_CHECK(cost.known() && cost.of(Tokens(1)) > Nanos(0), "steps that take no time");
  CAUSEWAY_CHECK(most.count >= 1, "a step without room for a token");
  for (const Tokens size : chunk_sizes(options.least, most_)) classes_.push_back({.tokens = size});
}

std::size_t ChunkController::class_of(Tokens tokens) const {
  const auto at = std::lower_bound(classes_.begin(), classes_.end(), tokens,
                                   [](const Class& one, Tokens t) { return one.tokens < t; });
  return at == classes_.end() ? classes_.size() - 1
                              : static_cast<std::size_t>(at - classes_.begin());
}

bool ChunkController::is_recent(const Class& one) const {
  return one.measured_at > 0 && steps_ - one.measured_at < kRecentSteps;
}

const ChunkController::Class* ChunkController::nearest_recent(std::size_t index) const {
  for (std::size_t distance = 0; distance < classes_.size(); ++distance) {
    if (distance <= index && is_recent(classes_[index - distance])) {
      return &classes_[index - distance];
    }
    if (index + distance < classes_.size() && is_recent(classes_[index + distance])) {
      return &classes_[index + distance];
    }
  }
  return nullptr;
}

Nanos ChunkController::predicted(const StepLoad& load) const {
  const std::size_t index = class_of(load.all());
  const Class* const known = nearest_recent(index);
  const double expected = to_seconds(cost_.of(load));
  if (known == nullptr) return nanos_from_seconds(std::min(expected, kStepMax));
  double seconds = expected * known->ratio;
  // The ratio of another chunk size: what steps take beside their products (attention of decodes,
  // weights on their way) does not grow with the chunk.
  if (known != &classes_[index] && known->ratio > 1) {
    seconds = expected + (known->ratio - 1) * to_seconds(cost_.of(known->tokens));
  }
  return nanos_from_seconds(std::min(seconds, kStepMax));
}

void ChunkController::measured(const StepLoad& load, Nanos took) {
  if (load.all().count < 1 || took <= Nanos(0)) return;
  Class& one = classes_[class_of(load.all())];
  double ratio = to_seconds(took) / to_seconds(cost_.of(load));
  const bool recent = is_recent(one);
  if (recent) ratio = std::min(ratio, kOutlier * one.ratio);
  ratio = std::clamp(ratio, kRatioMin, kRatioMax);
  one.ratio = recent ? one.ratio + kWeight * (ratio - one.ratio) : ratio;
  one.measured_at = ++steps_;
}

namespace {

// A choice in progress. Seconds count from when the step would begin.
class Choice {
 public:
  Choice(const ChunkView& view, const ChunkOptions& options) : view_(view), options_(options) {
    for (const PromptDue& prompt : view.prompts) all_ += prompt.left;
  }

  Tokens all() const { return all_; }
  // Candidates come by size.
  void offer(Tokens chunk, Nanos step);
  Tokens choose() const;

 private:
  struct Candidate {
    Tokens chunk;
    double step = 0;
    double rate = 0;  // of prompt tokens, a second
  };

  double seconds_to(Nanos instant) const {
    return instant == ChunkView::kNever ? std::numeric_limits<double>::infinity()
                                        : to_seconds(instant - view_.begins);
  }
  // The last candidate whose step has ended by then; the first one if there is none.
  std::size_t last_until(Nanos instant) const;
  // When the first `ahead` tokens of the prompts have been computed.
  double ends(const Candidate& candidate, Tokens ahead) const;
  // Whether every prompt that can be in time is, with `best` at least; false if none can be.
  bool keeps_targets(const Candidate& candidate, const Candidate& best) const;

  const ChunkView& view_;
  const ChunkOptions& options_;
  Tokens all_{0};
  std::array<Candidate, kCandidatesMax> candidates_;
  std::size_t count_ = 0;
};

void Choice::offer(Tokens chunk, Nanos step) {
  const double round = to_seconds(std::max(step + view_.others, Nanos(1)));
  candidates_[count_++] = {.chunk = chunk,
                           .step = to_seconds(step),
                           .rate = static_cast<double>(std::min(chunk, all_).count) / round};
}

std::size_t Choice::last_until(Nanos instant) const {
  const double seconds = seconds_to(instant);
  std::size_t last = 0;
  for (std::size_t i = 1; i < count_; ++i) {
    if (candidates_[i].step <= seconds) last = i;
  }
  return last;
}

double Choice::ends(const Candidate& candidate, Tokens ahead) const {
  const auto steps = static_cast<double>(ceil_div(ahead.count, candidate.chunk.count));
  const double others = to_seconds(view_.others);
  return steps * (candidate.step + others) - others;
}

bool Choice::keeps_targets(const Candidate& candidate, const Candidate& best) const {
  bool any = false;
  Tokens ahead(0);
  for (const PromptDue& prompt : view_.prompts) {
    ahead += prompt.left;
    if (ends(best, ahead) > seconds_to(prompt.due)) continue;
    if (ends(candidate, ahead) > seconds_to(prompt.aim)) return false;
    any = true;
  }
  return any;
}

Tokens Choice::choose() const {
  // Only the requests whose prompts the step computes wait for its end, so fewer steps are better.
  if (view_.none_decodes()) return candidates_[count_ - 1].chunk;
  // A step that ends after `even` makes some gap exceed its target; after `last`, some mean gap.
  const std::size_t last = last_until(view_.mean_until);
  const std::size_t even = std::min(last, last_until(view_.even_until));
  double best_rate = 0;
  for (std::size_t i = 0; i < count_; ++i) best_rate = std::max(best_rate, candidates_[i].rate);
  for (std::size_t i = 0; i < last; ++i) {
    const Candidate& one = candidates_[i];
    if (i < even && one.rate < options_.efficiency_min * best_rate) continue;
    if (keeps_targets(one, candidates_[last])) return one.chunk;
  }
  return candidates_[last].chunk;
}

}  // namespace

Tokens ChunkController::choose(const ChunkView& view) const {
  const Tokens room(std::max<std::int64_t>(1, (most_ - view.decodes).count));
  if (view.prompts.empty()) return room;
  Choice choice(view, options_);
  const auto offer = [&](Tokens chunk) {
    const Tokens prompt = std::min(chunk, choice.all());
    choice.offer(chunk, predicted({.prompt = prompt, .decodes = view.decodes}));
  };
  // The candidate that computes all that is left is the last; a larger one computes no more.
  const Tokens last = std::min(room, choice.all());
  for (const Class& one : classes_) {
    if (one.tokens >= last) break;
    offer(one.tokens);
  }
  offer(last);
  return choice.choose();
}

}  // namespace causeway::schedule
