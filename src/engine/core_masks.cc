// Sequences whose output must match a grammar (docs/design/structured.md). A token's mask needs the
// token before it, so that such a sequence is never in two steps at once: the scheduler holds it
// from the step that samples it until the mask of its next token is there. Masks are computed on
// other threads; the loop waits a little for them, since they mostly take microseconds, and passes
// over sequences whose masks are late.
#include <algorithm>
#include <utility>

#include "base/dcheck.h"
#include "engine/core_state.h"

namespace causeway::engine {
namespace {

// At a decision the loop waits so long for one mask, ...
constexpr Nanos kWait = millis(2);
// ... and so long for one sequence in all; then it is looked at without waiting.
constexpr Nanos kPatience = millis(20);
// Between two looks at masks that are late.
constexpr Nanos kLook = millis(1);
// A sequence whose mask takes longer ends.
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

void EngineCore::State::take_masks(Nanos now) {
  masks_look.reset();
  if (awaiting_masks.empty()) return;
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
    if (state == request::MaskState::kReady) {
      scheduler.hold(sequence.handle, false);
    } else if (state == request::MaskState::kImpossible) {
      end(sequence, request::FinishReason::kError,
          "no token of the model's vocabulary continues an answer of the form that was asked for");
      outputs.back().code = ErrorCode::kInvalidArgument;
    } else if (now - sequence.mask_since > kMaskMax) {
      end(sequence, request::FinishReason::kError,
          "the form that was asked for takes longer than " +
              std::to_string(kMaskMax.count / 1'000'000) + " ms for a token; make it simpler");
      outputs.back().code = ErrorCode::kInvalidArgument;
    } else {
      sequence.mask_patience = sequence.mask_patience - longest;
      wait = Nanos(0);  // the others were computed meanwhile
      awaiting_masks.push_back(id);
    }
  }
  if (!awaiting_masks.empty()) masks_look = now + kLook;
}

}  // namespace causeway::engine
