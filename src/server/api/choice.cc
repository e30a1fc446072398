#include "server/api/choice.h"

#include <utility>

#include "server/api/json_write.h"

namespace causeway::server {

Choice::Choice(const text::Tokenizer& tokenizer, const GenerationRequest& asked)
    : detokenizer_(tokenizer, asked.endpoint == Endpoint::kChat
                                  ? text::Detokenizer::Begin::kStart
                                  : text::Detokenizer::Begin::kContinuation),
      matcher_(asked.stop, asked.include_stop_in_output),
      skip_special_(asked.skip_special_tokens),
      logprobs_(asked.top_logprobs >= 0) {}

void Choice::push(std::vector<request::OutputToken> tokens) {
  for (request::OutputToken& token : tokens) {
    if (finished_ || stopped()) return;
    ++generated_;
    const std::string piece = detokenizer_.push(token.token, skip_special_);
    if (logprobs_) tokens_.push_back({std::move(token), characters_});
    characters_ += utf8_characters(piece);
    text_ += matcher_.push(piece);
  }
}

void Choice::finish(request::FinishReason reason) {
  if (finished_) return;
  finished_ = true;
  text_ += matcher_.push(detokenizer_.finish());
  text_ += matcher_.finish();
  if (stopped() || reason == request::FinishReason::kStop) {
    finish_reason_ = "stop";
  } else if (reason == request::FinishReason::kLength) {
    finish_reason_ = "length";
  }
}

}  // namespace causeway::server
