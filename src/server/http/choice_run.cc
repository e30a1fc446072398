#include "server/http/choice_run.h"

#include <iterator>
#include <utility>

#include "base/log.h"
#include "server/api/json_write.h"
#include "server/api/prompt_scores.h"

namespace causeway::server {
namespace {

ApiError failure_of(const request::Output& output) {
  if (output.reason == request::FinishReason::kError) {
    return from_error({output.code, output.error});
  }
  return cancelled_by_server();
}

bool failed(request::FinishReason reason) {
  return reason == request::FinishReason::kError || reason == request::FinishReason::kCancelled;
}

}  // namespace

void ChoiceRun::tell_switch(const request::ModelSwitch& switched, Metrics& metrics) const {
  metrics.switched(*model, switched.took);
  spdlog::info(
      "switched to {}: {:.2f} GB from host memory, first token after {:.3f} s, "
      "{:.3f} s predicted",
      model->name, static_cast<double>(switched.missing.count) / 1e9, to_seconds(switched.took),
      to_seconds(switched.predicted));
}

MaybeError ChoiceRun::absorb(request::Output output, Nanos at, Metrics& metrics) {
  if (!output.prompt.empty()) {
    std::move(output.prompt.begin(), output.prompt.end(),
              std::back_inserter(prompt_to_tell().scores));
  }
  if (output.switched) tell_switch(*output.switched, metrics);
  take_times(output);
  if (!output.tokens.empty()) {
    const bool first = first_token.count < 0;
    first ? metrics.first_token(*model, at - arrival) : metrics.next_token(*model, at - last_token);
    if (first) first_token = at;
    last_token = at;
    const std::int64_t before = choice.generated();
    choice.push(std::move(output.tokens));
    metrics.tokens(*model, first ? prompt_tokens : 0, choice.generated() - before);
  }
  if (choice.stopped()) {
    choice.finish(request::FinishReason::kStop);
    close(Ending::kStop, at, metrics);
  } else if (output.finished && failed(output.reason)) {
    close(output.reason == request::FinishReason::kError ? Ending::kError : Ending::kAbort, at,
          metrics);
    return failure_of(output);
  } else if (output.finished) {
    choice.finish(output.reason);
    close(output.reason == request::FinishReason::kLength ? Ending::kLength : Ending::kStop, at,
          metrics);
  }
  return {};
}

void ChoiceRun::keep_for_later(request::Output& output) {
  if (!again) return;
  for (const request::OutputToken& token : output.tokens) again->output.push_back(token.token);
  // They are told once.
  if (!output.prompt.empty()) again->sampling.prompt_logprobs = -1;
  const bool left = place == RunPlace::kLeaving && output.finished &&
                    output.reason == request::FinishReason::kCancelled;
  if (!left) return;
  output.finished = false;
  place = RunPlace::kHeld;
}

std::optional<request::Request> ChoiceRun::request_again() const {
  if (std::ssize(again->output) >= max_tokens) return std::nullopt;
  request::Request request = *again;
  request.attempt = resumes + 1;
  return request;
}

void ChoiceRun::take_times(request::Output& output) {
  queued = output.queued;
  held = output.held;
  weights = output.weights;
  preemptions = output.preemptions;
  resumes = output.attempt;
  for (const request::RotationTimes& one : output.rotations) {
    if (std::ssize(rotations) < kChoiceRotationsMax) rotations.push_back(one);
  }
}

ChoiceTrace ChoiceRun::trace() const {
  return {.submitted = submitted,
          .held = held,
          .weights = weights,
          .queued = queued,
          .first_token = first_token,
          .ended = ended,
          .rotations = rotations,
          .generated_tokens = choice.generated(),
          .preemptions = preemptions,
          .resumes = resumes};
}

void ChoiceRun::close(Ending ending, Nanos at, Metrics& metrics) {
  open = false;
  ended = at;
  Finished measured;
  measured.ending = ending;
  measured.prompt_tokens = prompt_tokens;
  measured.generated_tokens = choice.generated();
  measured.e2e = at - arrival;
  measured.slo = slo;
  measured.queued = queued;
  if (first_token.count >= 0) measured.ttft = first_token - arrival;
  if (choice.generated() > 1) {
    measured.tpot = (last_token - first_token) / (choice.generated() - 1);
  }
  metrics.finished(*model, measured);
}

void ChoiceRun::set_echo(std::string_view text) {
  prompt_to_tell().echo = text;
  choice.begin_behind(utf8_characters(text));
}

ChoiceRun::News ChoiceRun::take() {
  News news{.text = choice.take_text(),
            .tokens = choice.take_tokens(),
            .finish_reason = {},
            .calls = choice.take_calls(),
            .prompt_ids = {},
            .prompt_scores = {},
            .reasoning = choice.take_reasoning()};
  if (const auto prompt = std::exchange(told_prompt, nullptr)) {
    news.text.insert(0, prompt->echo);
    news.prompt_ids = std::move(prompt->ids);
    news.prompt_scores = place_prompt(choice.tokenizer(), std::move(prompt->scores), prompt->echo);
  }
  if (choice.finished()) {
    end_told = true;
    news.finish_reason = choice.finish_reason();
  }
  return news;
}

}  // namespace causeway::server
