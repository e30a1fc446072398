#include "server/api/choice.h"

#include <utility>

#include "server/api/json_write.h"

namespace causeway::server {

Choice::Choice(const text::Tokenizer& tokenizer, const GenerationRequest& asked,
               text::ToolCallFormat format)
    : tokenizer_(tokenizer),
      detokenizer_(tokenizer, asked.chats() && !asked.continue_final_message
                                  ? text::Detokenizer::Begin::kStart
                                  : text::Detokenizer::Begin::kContinuation),
      matcher_(asked.stop, asked.include_stop_in_output),
      skip_special_(asked.skip_special_tokens),
      keeps_tokens_(asked.top_logprobs >= 0 || asked.return_token_ids),
      echo_only_(asked.echo_only()),
      min_tokens_(asked.min_tokens) {
  if (!asked.calls_tools) return;
  text::ToolCallParser::Options options{.format = format};
  if (asked.stream) options.pieces = text::ToolCallParser::Pieces::kAsTheyCome;
  if (!asked.parallel_tool_calls) options.calls_max = 1;
  parser_.emplace(options);
  mark_ = tokenizer.find(text::tool_call_mark(format)).value_or(-1);
}

void Choice::add_text(std::string text) {
  if (!parser_) {
    text_ += text;
    return;
  }
  parser_->push(text);
  take_parsed();
}

void Choice::take_parsed() {
  const std::size_t before = text_.size();
  text_ += parser_->take_content();
  for (text::ToolCallDelta& delta : parser_->take_calls()) {
    delta.text_before += before;
    calls_.push_back(std::move(delta));
  }
}

void Choice::push(std::vector<request::OutputToken> tokens) {
  if (echo_only_) return;
  for (request::OutputToken& token : tokens) {
    if (finished_ || stopped()) return;
    ++generated_;
    const bool skip = skip_special_ && token.token != mark_;
    std::string piece = detokenizer_.push(token.token, skip);
    if (keeps_tokens_) tokens_.push_back({std::move(token), characters_});
    characters_ += utf8_characters(piece);
    // No stop string begins in the tokens that are due in any case.
    add_text(generated_ <= min_tokens_ ? std::move(piece) : matcher_.push(piece));
  }
}

void Choice::finish(request::FinishReason reason) {
  if (finished_) return;
  finished_ = true;
  add_text(matcher_.push(detokenizer_.finish()));
  add_text(matcher_.finish());
  if (parser_) {
    parser_->finish();
    take_parsed();
  }
  if (echo_only_) {
    finish_reason_ = "length";
  } else if (stopped() || reason == request::FinishReason::kStop) {
    finish_reason_ = parser_ && parser_->told() > 0 ? "tool_calls" : "stop";
  } else if (reason == request::FinishReason::kLength) {
    finish_reason_ = "length";
  }
}

}  // namespace causeway::server
