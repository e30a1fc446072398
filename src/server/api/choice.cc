#include "server/api/choice.h"

#include <algorithm>
#include <utility>

#include "server/api/json_write.h"

namespace causeway::server {

Choice::Choice(const text::Tokenizer& tokenizer, const GenerationRequest& asked,
               const AnswerFormats& formats)
    : tokenizer_(tokenizer),
      detokenizer_(tokenizer, asked.chats() && !asked.continue_final_message
                                  ? text::Detokenizer::Begin::kStart
                                  : text::Detokenizer::Begin::kContinuation),
      matcher_(asked.stop, asked.include_stop_in_output),
      skip_special_(asked.skip_special_tokens),
      keeps_tokens_(asked.top_logprobs >= 0 || asked.return_token_ids),
      echo_only_(asked.echo_only()),
      min_tokens_(asked.min_tokens) {
  if (asked.chats() && formats.reasoning.format != text::ReasoningFormat::kNone) {
    const auto [open, close] = text::reasoning_marks(formats.reasoning.format);
    thinking_ = std::make_unique<Thinking>(
        Thinking{.parser = text::ReasoningParser(formats.reasoning),
                 .open = tokenizer.find(open).value_or(-1),
                 .close = tokenizer.find(close).value_or(-1),
                 .told = asked.include_reasoning,
                 .tells_tokens = asked.include_reasoning && asked.endpoint == Endpoint::kChat});
  }
  if (!asked.calls_tools) return;
  text::ToolCallParser::Options options{.format = formats.tool_calls,
                                        .name_first = asked.fences_calls()};
  if (asked.stream) options.pieces = text::ToolCallParser::Pieces::kAsTheyCome;
  if (!asked.parallel_tool_calls) options.calls_max = 1;
  tools_ = std::make_unique<Tools>(Tools{.parser = text::ToolCallParser(options)});
  for (const std::string_view mark : text::tool_call_marks(formats.tool_calls)) {
    if (const auto token = tokenizer.find(mark)) tools_->marks.push_back(*token);
  }
}

std::string Choice::take_reasoning() {
  return thinking_ ? std::exchange(thinking_->text, {}) : std::string();
}

std::vector<text::ToolCallDelta> Choice::take_calls() {
  return tools_ ? std::exchange(tools_->calls, {}) : std::vector<text::ToolCallDelta>();
}

void Choice::add_text(std::string text) {
  if (!thinking_) return add_content(std::move(text));
  thinking_->parser.push(text);
  take_parted();
}

void Choice::take_parted() {
  std::string reasoning = thinking_->parser.take_reasoning();
  if (thinking_->told) thinking_->text += reasoning;
  add_content(thinking_->parser.take_content());
}

void Choice::add_content(std::string text) {
  if (!tools_) {
    text_ += text;
    return;
  }
  tools_->parser.push(text);
  take_parsed();
}

void Choice::take_parsed() {
  const std::size_t before = text_.size();
  text_ += tools_->parser.take_content();
  for (text::ToolCallDelta& delta : tools_->parser.take_calls()) {
    delta.text_before += before;
    tools_->calls.push_back(std::move(delta));
  }
}

bool Choice::is_mark(TokenId token) const {
  return (tools_ &&
          std::find(tools_->marks.begin(), tools_->marks.end(), token) != tools_->marks.end()) ||
         (thinking_ && (token == thinking_->open || token == thinking_->close));
}

void Choice::place(request::OutputToken token, std::string_view piece) {
  std::optional<PlacedToken> placed;
  if (keeps_tokens_) placed = PlacedToken{std::move(token), characters_};
  characters_ += utf8_characters(piece);
  if (placed && (!thinking_ || thinking_->tells_tokens)) {
    tokens_.push_back(*std::move(placed));
    placed.reset();
  }
  if (!thinking_) return;
  thinking_->unsure.push_back({thinking_->pushed, std::move(placed)});
  thinking_->pushed += static_cast<std::int64_t>(piece.size());
}

// Decides of the first waiting tokens whether they are reasoning or content. They wait because stop
// strings and marks hold text back: the parser sees a token's text later than push() does.
void Choice::settle(bool finished) {
  if (!thinking_) return;
  const text::ReasoningParser& parser = thinking_->parser;
  while (!thinking_->unsure.empty()) {
    Thinking::Unsure& first = thinking_->unsure.front();
    const bool thought =
        first.start < parser.reasoning_bytes() || (finished && !parser.in_content());
    if (!thought && !parser.in_content()) return;
    if (thought) {
      ++thinking_->tokens;
    } else if (first.token) {
      tokens_.push_back(*std::move(first.token));
    }
    thinking_->unsure.pop_front();
  }
}

void Choice::push(std::vector<request::OutputToken> tokens) {
  if (echo_only_) return;
  for (request::OutputToken& token : tokens) {
    if (finished_ || stopped()) return;
    ++generated_;
    const bool skip = skip_special_ && !is_mark(token.token);
    std::string piece = detokenizer_.push(token.token, skip);
    place(std::move(token), piece);
    // The first min_tokens tokens come in any case, so no stop string is looked for in them.
    add_text(generated_ <= min_tokens_ ? std::move(piece) : matcher_.push(piece));
    settle(/*finished=*/false);
  }
}

void Choice::finish(request::FinishReason reason) {
  if (finished_) return;
  finished_ = true;
  add_text(matcher_.push(detokenizer_.finish()));
  add_text(matcher_.finish());
  if (thinking_) {
    thinking_->parser.finish();
    take_parted();
    settle(/*finished=*/true);
  }
  if (tools_) {
    tools_->parser.finish();
    take_parsed();
  }
  if (echo_only_) {
    finish_reason_ = "length";
  } else if (stopped() || reason == request::FinishReason::kStop) {
    finish_reason_ = tools_ && tools_->parser.told() > 0 ? "tool_calls" : "stop";
  } else if (reason == request::FinishReason::kLength) {
    finish_reason_ = "length";
  }
}

}  // namespace causeway::server
