// What the chunk controller (chunk_controller.h) gets to know of the scheduler's sequences and of
// steps.
#include <algorithm>

#include "schedule/scheduler_state.h"

namespace causeway::schedule {
namespace {

// The number of waiting prompts that the controller looks at.
constexpr std::size_t kPromptsMax = 128;
// A request that is late by more than so many targets will hardly make up for it: from then on it
// asks for even gaps, not for shorter ones.
constexpr double kGivenUp = 10;
// The smallest gap, as a share of its target, that a late sequence asks for.
constexpr double kGapMin = 0.5;
constexpr double kAges = 1e9;  // seconds; later than that is not counted

PromptDue due_of(const SequenceFacts& facts, Tokens left, const ChunkOptions& options) {
  // It was preempted: its next token is late already, and those after it come later.
  if (facts.answered) return {.left = left, .aim = facts.arrival, .due = facts.arrival};
  const Nanos aim = nanos_from_seconds(to_seconds(facts.slo.ttft) * options.ttft_share);
  return {.left = left, .aim = facts.arrival + aim, .due = facts.arrival + facts.slo.ttft};
}

// The bounds that decoding sequences set for the end of a step.
class Gaps {
 public:
  Gaps(Nanos begins, const ChunkOptions& options) : begins_(begins), options_(options) {}

  // `before`: the time of its own step, if another model's is decided.
  void add(const Slot& slot, Nanos before);

  Nanos even_until = ChunkView::kNever;
  Nanos mean_until = ChunkView::kNever;

 private:
  const Nanos begins_;
  const ChunkOptions& options_;
};

void Gaps::add(const Slot& slot, Nanos before) {
  const SequenceFacts& facts = slot.facts;
  const Nanos last = slot.pending > 0 ? begins_ : facts.last_token;
  const Nanos first = facts.answered ? facts.first_token : begins_;
  const auto gaps = static_cast<double>((facts.output + Tokens(slot.pending)).count);
  const double target = to_seconds(facts.slo.tpot);
  const Nanos even = last + facts.slo.tpot;
  Nanos mean = first + nanos_from_seconds(std::min(gaps * target * options_.tpot_share, kAges));
  if (to_seconds(last - first) > (gaps - 1 + kGivenUp) * target) mean = even;
  mean = std::max(mean, last + nanos_from_seconds(kGapMin * target));
  even_until = std::min(even_until, even - before);
  mean_until = std::min(mean_until, mean - before);
}

bool decodes(const Slot& slot) {
  return (slot.facts.answered || slot.pending > 0) &&
         (slot.wanted() - slot.facts.computed).count == 1;
}

// A sequence of one token counts as one that decodes: the last of a prompt is as short.
StepLoad load_of(const Decision& decision) {
  StepLoad load;
  for (const Run& run : decision.runs) {
    (run.tokens == Tokens(1) ? load.decodes : load.prompt) += run.tokens;
  }
  return load;
}

StepLoad decoding(Tokens sequences) { return {.decodes = sequences}; }

Nanos least_step_of(const ModelQueue& queue) {
  return queue.chunk ? queue.chunk->predicted(decoding(Tokens(queue.running.size())))
                     : queue.step_took;
}

}  // namespace

void Scheduler::State::find_prompts(const ModelQueue& queue, std::int64_t frames, ChunkView& view) {
  prompts.clear();
  for (const SlotIndex index : queue.running.members()) {
    const Slot& slot = table[index];
    const Tokens left = slot.wanted() - slot.facts.computed;
    if (left.count == 0) continue;
    if (decodes(slot)) {
      view.decodes += Tokens(1);
    } else {
      prompts.push_back(due_of(slot.facts, left, options.chunk));
    }
  }
  const auto running = static_cast<std::ptrdiff_t>(prompts.size());
  const std::int64_t running_left = std::max<std::int64_t>(0, options.running_max - running_total);
  const std::size_t most =
      prompts.size() + std::min(kPromptsMax, static_cast<std::size_t>(running_left));
  if (prompts.size() < most) {
    queue.each_outside([&](SlotIndex index) {
      const SequenceFacts& facts = table[index].facts;
      if (!facts.rotary) prompts.push_back(due_of(facts, facts.known, options.chunk));
      return prompts.size() < most;
    });
  }
  std::sort(prompts.begin() + running, prompts.end(),
            [](const PromptDue& a, const PromptDue& b) { return a.due < b.due; });
  // Sequences without room do not come in, however large the chunk. One may, because what it finds
  // in the cache is not known here.
  for (auto at = static_cast<std::size_t>(running); at < prompts.size(); ++at) {
    frames -= queue.frames_for(prompts[at].left);
    if (frames >= 0 || at == 0) continue;
    prompts.resize(at);
  }
  view.prompts = prompts;
}

void Scheduler::State::find_gaps(const ModelQueue& queue, ChunkView& view) {
  Gaps gaps(view.begins, options.chunk);
  // The time of a token without any prompt.
  Nanos least = queue.chunk->predicted(decoding(view.decodes));
  Nanos target = ChunkView::kNever;
  for (const ModelQueue& other : queues) {
    const bool own = &other == &queue;
    // Parts of streamed steps run in between; what they take is little of their own time.
    if (other.running.empty() || other.streamed != queue.streamed) continue;
    const Nanos before = own ? Nanos(0) : least_step_of(other);
    if (!own) {
      least += before;
      view.others += other.step_took;
    }
    for (const SlotIndex index : other.running.members()) {
      const Slot& slot = table[index];
      if (!decodes(slot)) continue;
      target = std::min(target, slot.facts.slo.tpot);
      gaps.add(slot, before);
    }
  }
  // A target that is missed without any prompt is not kept by a small chunk either.
  if (least > target) return;
  view.even_until = gaps.even_until;
  view.mean_until = gaps.mean_until;
}

std::int64_t Scheduler::State::step_budget(const ModelQueue& queue, Nanos now,
                                           std::int64_t frames) {
  const std::int64_t most = options.tokens_per_step_max;
  if (!queue.chunk) return most;
  ChunkView view;
  view.begins = now;
  if (!queue.streamed && !expected.empty()) {
    view.begins = std::max(now, device_since + expected.front());
    for (std::size_t i = 1; i < expected.size(); ++i) view.begins += expected[i];
  }
  find_prompts(queue, frames, view);
  if (prompts.empty()) return most;
  find_gaps(queue, view);
  const std::int64_t least = std::min(queue.running.size() + 1, most);
  return std::clamp((view.decodes + queue.chunk->choose(view)).count, least, most);
}

void Scheduler::State::expect_step(const Decision& decision, Nanos now) {
  if (!options.chunk.automatic || !decision.model.valid()) return;
  const ModelQueue& queue = queue_of(decision.model);
  if (queue.streamed) return;
  if (expected.empty()) device_since = now;
  expected.push_back(queue.chunk ? queue.chunk->predicted(load_of(decision)) : queue.step_took);
}

void Scheduler::State::measure_step(const Decision& decision, Nanos now, Nanos took) {
  if (!options.chunk.automatic) return;
  ModelQueue& queue = queue_of(decision.model);
  if (!queue.streamed && !expected.empty()) {
    expected.erase(expected.begin());
    device_since = now;
  }
  if (took <= Nanos(0)) return;
  queue.step_took = took;
  if (queue.chunk) queue.chunk->measured(load_of(decision), took);
}

}  // namespace causeway::schedule
