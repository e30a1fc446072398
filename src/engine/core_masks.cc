// Sequences whose output must match a grammar (docs/design/structured.md). The mask of a token
// depends on the token before it. Where the executor takes masks late, such a sequence is decided
// ahead: it is in the step after the one that samples its last token, and the mask is supplied
// while that step computes. Otherwise, and when its grammar has turned out to be slow, the
// scheduler holds it from the step that samples it until the mask of its next token is there, so it
// is never in two steps at once. Other threads compute masks. The loop waits a little for them,
// because most take microseconds, and passes over late ones.
#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "engine/core_state.h"

namespace causeway::engine {
namespace {

// At a decision the loop waits for one mask for so long, ...
constexpr Nanos kWait = millis(2);
// ... and for one sequence for so long in total. After that the sequence is polled without waiting,
// and is no longer decided ahead, because a step that awaits a mask delays the others in it.
constexpr Nanos kPatience = millis(20);
// The pause between two polls of late masks.
constexpr Nanos kLook = millis(1);
// A sequence whose mask takes longer is ended.
constexpr Nanos kMaskMax = seconds(1);

}  // namespace

void EngineCore::State::begin_matching(Sequence& sequence, Nanos now) {
  request::Request& request = sequence.request;
  if (request.constraint == nullptr) return;
  CAUSEWAY_DCHECK(sequence.matcher == nullptr, "a sequence is matched by two grammars");
  const auto output = sequence.tokens.begin() + sequence.prompt.count;
  sequence.matcher = request.constraint->begin({output, sequence.tokens.end()});
  sequence.mask_since = now;
  sequence.mask_patience = kPatience;
  if (sequence.matcher->wait(Nanos(0)) == request::MaskState::kReady) return;
  scheduler.hold(sequence.handle, true);
  awaiting_masks.push_back(request.id);
}

void EngineCore::State::follow(Sequence& sequence, TokenId token, Nanos now) {
  CAUSEWAY_DCHECK(sequence.matcher != nullptr, "a sequence without a grammar follows one");
  sequence.matcher->advance(token);
  sequence.mask_since = now;
  awaiting_masks.push_back(sequence.request.id);
}

bool EngineCore::State::goes_ahead(const Sequence& sequence) const {
  return executor.capabilities().late_masks && sequence.mask_patience > Nanos(0) &&
         !streams(sequence.request.model);
}

request::LogitEdits EngineCore::State::edits_of(const Sequence& sequence, Tokens end) const {
  const request::Request& request = sequence.request;
  request::LogitEdits edits{
      .mask = {}, .allowed = request.allowed_tokens, .bias = request.logit_bias, .banned = {}};
  // Counted by places, which are known even while the tokens before them are pending.
  if (end - sequence.prompt < request.min_tokens) edits.banned = request.stop_tokens;
  if (sequence.matcher == nullptr) return edits;
  edits.mask_follows = end.count > std::ssize(sequence.tokens);
  if (edits.mask_follows) {
    CAUSEWAY_CHECK(goes_ahead(sequence), "a sequence goes ahead whose mask cannot follow");
    return edits;
  }
  CAUSEWAY_CHECK(sequence.matcher->wait(Nanos(0)) == request::MaskState::kReady,
                 "a sequence with a grammar runs before it is known what may follow");
  const auto mask = sequence.matcher->mask();
  edits.mask.assign(mask.begin(), mask.end());
  return edits;
}

void EngineCore::State::take_masks(Nanos now) {
  masks_look.reset();
  if (!awaiting_masks.empty()) look_at_masks(now);
  supply_masks();
}

void EngineCore::State::look_at_masks(Nanos now) {
  std::vector<RequestId> waiting;
  waiting.swap(awaiting_masks);
  Nanos wait = kWait;
  for (const RequestId id : waiting) {
    const auto at = sequences.find(id);
    if (at == sequences.end()) continue;
    Sequence& sequence = *at->second;
    CAUSEWAY_DCHECK(sequence.matcher != nullptr, "a sequence without a grammar awaits a mask");
    const Nanos longest = std::min(wait, sequence.mask_patience);
    const request::MaskState state = sequence.matcher->wait(longest);
    if (take_mask(sequence, state, now)) continue;
    if (state == request::MaskState::kComputing) {
      sequence.mask_patience = sequence.mask_patience - longest;
      wait = Nanos(0);  // the others were computed meanwhile
      wait_for_mask(sequence, now);
    }
    awaiting_masks.push_back(id);
  }
  if (!awaiting_masks.empty()) masks_look = now + kLook;
}

bool EngineCore::State::take_mask(Sequence& sequence, request::MaskState state, Nanos now) {
  if (state == request::MaskState::kReady) {
    if (lane_of(sequence.request.model).ended < sequence.void_until) return false;
    scheduler.hold(sequence.handle, false);
    return true;
  }
  const bool impossible = state == request::MaskState::kImpossible;
  if (!impossible && now - sequence.mask_since <= kMaskMax) return false;
  const std::string why =
      impossible
          ? "no token of the model's vocabulary continues an answer of the form that was asked for"
          : "the form that was asked for takes longer than " +
                std::to_string(kMaskMax.count / 1'000'000) + " ms for a token; make it simpler";
  end(sequence, request::FinishReason::kError, why);
  outputs.back().code = ErrorCode::kInvalidArgument;
  return true;
}

void EngineCore::State::wait_for_mask(Sequence& sequence, Nanos now) {
  const StepLane& lane = lane_of(sequence.request.model);
  const bool ahead = lane.in_flight() > 0 && lane.newest().awaits_masks &&
                     sequence.runs[StepLane::slot_of(lane.started - 1)] >= 0;
  if (!ahead) scheduler.hold(sequence.handle, true);
  if (ahead && !goes_ahead(sequence)) step_back(sequence, now);
}

// Its last token is known, so the next step that computes it has its mask. Most of its KV is found
// in the prefix cache.
void EngineCore::State::step_back(Sequence& sequence, Nanos now) {
  const StepLane& lane = lane_of(sequence.request.model);
  const bool voided = scheduler.restart(sequence.handle);
  CAUSEWAY_CHECK(voided, "a step in flight computes the sequence");
  release_frames(sequence);
  end_rotation(sequence, now);
  disown_steps(sequence);
  scheduler.hold(sequence.handle, true);
  sequence.void_until = lane.started;
  sequence.preemptions += 1;
  models.at(sequence.request.model).counters.preemptions += 1;
}

// Supplies them when the step before has ended, and each sequence in the step that awaits masks has
// ended, stepped back, or has its mask.
void EngineCore::State::supply_masks() {
  StepLane& lane = resident();
  if (lane.in_flight() != 1 || !lane.newest().awaits_masks) return;
  StepInFlight& step = lane.newest();
  if (!step.refused.empty()) return;
  std::vector<request::LateMask> masks;
  for (const Sequence* sequence : step.sequences) {
    if (sequence == nullptr || sequence->matcher == nullptr) continue;
    if (sequence->matcher->wait(Nanos(0)) != request::MaskState::kReady) return;
    const auto mask = sequence->matcher->mask();
    masks.push_back({sequence->request.id, {mask.begin(), mask.end()}});
  }
  step.awaits_masks = false;
  // The step's result will have the error.
  (void)executor.supply_masks(step.id, std::move(masks)).ok();
}

}  // namespace causeway::engine
