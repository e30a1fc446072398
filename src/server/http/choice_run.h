// One choice of an answer while the engine generates it: its text, its times and its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/fleet.h"
#include "server/api/answer_writer.h"
#include "server/api/choice.h"
#include "server/api/prepare.h"
#include "server/metrics.h"
#include "server/tracing/request_trace.h"

namespace causeway::server {

// Where the request of an open choice is.
enum class RunPlace : std::uint8_t {
  kFleet,
  kLeaving,  // cancelled, to go on later; its last outputs are yet to come
  kHeld,     // it waits until it may go on
};

struct ChoiceRun {
  // The new part of a choice's text; owns it.
  struct News {
    std::string text;
    std::vector<PlacedToken> tokens;
    std::string_view finish_reason;
    std::vector<text::ToolCallDelta> calls;
    std::vector<TokenId> prompt_ids;
    std::vector<PlacedToken> prompt_scores;
    std::string reasoning;
    ChoiceText as_text(std::size_t index) const {
      return {index, text, tokens, finish_reason, calls, prompt_ids, prompt_scores, reasoning};
    }
  };
  // What the answer repeats of the prompt.
  struct ToldPrompt {
    std::vector<TokenId> ids;
    std::string_view echo;  // the prompt's text, which Prepared owns
    // The prompt's first token, then the others as their scores come.
    std::vector<request::OutputToken> scores;
  };

  // `request` is one of `prepared`.
  ChoiceRun(const Prepared& prepared, const GenerationRequest& asked,
            const request::Request& request, Nanos arrived)
      : choice(*prepared.model->tokenizer, asked, prepared.formats()),
        model(prepared.model),
        prompt_tokens(static_cast<std::int64_t>(request.prompt.size())),
        max_tokens(request.max_tokens.count),
        slo(request.slo),
        arrival(arrived) {
    if (asked.return_token_ids) prompt_to_tell().ids = request.prompt;
    if (request.sampling.prompt_logprobs >= 0) {
      prompt_to_tell().scores.push_back({.token = request.prompt.front(), .top = {}});
    }
  }

  std::span<const TokenId> prompt_ids() const {
    return told_prompt ? std::span<const TokenId>(told_prompt->ids) : std::span<const TokenId>();
  }
  ToldPrompt& prompt_to_tell() {
    if (!told_prompt) told_prompt = std::make_unique<ToldPrompt>();
    return *told_prompt;
  }

  // Before `output` is absorbed: keeps what the request needs to go on behind it. One that has left
  // the fleet by it has not ended.
  void keep_for_later(request::Output& output);
  // The request of a choice that is held, behind the output so far. nullopt: the output is all.
  std::optional<request::Request> request_again() const;

  // Has the prompt's text repeated at the start of the answer. `text` must outlive this object.
  void set_echo(std::string_view text);

  // Takes an output that came at `at`. The choice closes at its end or at a stop string. An error:
  // the engine could not finish it.
  MaybeError absorb(request::Output output, Nanos at, Metrics& metrics);
  void tell_switch(const request::ModelSwitch& switched, Metrics& metrics) const;
  void take_times(request::Output& output);
  void close(Ending ending, Nanos at, Metrics& metrics);

  // The trace of the choice, which must be closed or never have been open.
  ChoiceTrace trace() const;

  bool has_news() const { return choice.has_news() || (choice.finished() && !end_told); }
  News take();

  Choice choice;
  const fleet::CatalogueEntry* model;
  std::int64_t prompt_tokens;
  std::int64_t max_tokens;
  std::unique_ptr<ToldPrompt> told_prompt;  // null: the prompt is not repeated, or was already
  request::Slo slo;
  Nanos arrival;
  Nanos submitted{-1};
  std::unique_ptr<request::Request> again;  // to go on with; null: it cannot be held
  Nanos held, weights;  // from the engine's outputs
  Nanos queued{-1};
  Nanos first_token{-1};
  Nanos last_token{-1};
  Nanos ended{-1};
  std::vector<request::RotationTimes> rotations;  // the first kChoiceRotationsMax
  std::int32_t preemptions = 0;
  std::int32_t resumes = 0;
  bool open = false;        // submitted, not ended
  RunPlace place = RunPlace::kFleet;
  bool introduced = false;  // its role has been sent
  bool end_told = false;
};
// Thousands of these exist at the same time, so members that few of them need are behind pointers.
static_assert(sizeof(ChoiceRun) <= 448);

}  // namespace causeway::server
