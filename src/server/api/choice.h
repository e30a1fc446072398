// One choice of an answer while it is generated: tokens in, text out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "request/request.h"
#include "server/api/generation_request.h"
#include "server/api/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/reasoning/reasoning_parser.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::server {

// A token and its offset in the text, for log-probabilities.
struct PlacedToken {
  request::OutputToken token;
  std::int64_t text_offset = 0;  // in characters of the choice's text
};

// How the model marks tool calls and reasoning in its text.
struct AnswerFormats {
  text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;  // for requests with tools
  text::ReasoningParser::Options reasoning = {};                  // for chats
};

// One thread at a time. The tokenizer must outlive it.
class Choice {
 public:
  Choice(const text::Tokenizer& tokenizer, const GenerationRequest& asked,
         const AnswerFormats& formats = {});

  // The choice's text follows this many characters of other text: text offsets count from there.
  void begin_behind(std::int64_t characters) { characters_ = characters; }
  // Takes tokens up to the one that completes a stop string; later ones are dropped. Appends text
  // that cannot change any more, and the tokens, if their log-probabilities or ids are wanted.
  void push(std::vector<request::OutputToken> tokens);
  // The engine has ended the choice. kCancelled after a stop string counts as a stop.
  void finish(request::FinishReason reason);

  // The text since the last call. ToolCallDelta::text_before counts bytes of the text that is taken
  // together with the calls.
  std::string take_text() { return std::exchange(text_, {}); }
  std::string take_reasoning();
  std::vector<PlacedToken> take_tokens() { return std::exchange(tokens_, {}); }
  std::vector<text::ToolCallDelta> take_calls();
  bool has_news() const {
    return !text_.empty() || !tokens_.empty() || (thinking_ && !thinking_->text.empty()) ||
           (tools_ && !tools_->calls.empty());
  }

  // A stop string was found: the engine's request is no longer needed.
  bool stopped() const { return matcher_.stopped(); }
  bool finished() const { return finished_; }
  std::int64_t generated() const { return generated_; }
  // How many of the tokens are reasoning, up to the one that ends the closing mark. A token whose
  // text is held back is not counted yet.
  std::int64_t reasoning_tokens() const { return thinking_ ? thinking_->tokens : 0; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  // "stop", "length", "tool_calls" (a stop after calls), or "" for any other end.
  std::string_view finish_reason() const { return finish_reason_; }

 private:
  // For a model that reasons: the parser of its text, and the tokens of which it is not known yet
  // whether they are reasoning.
  struct Thinking {
    struct Unsure {
      std::int64_t start = 0;  // where its text begins, in bytes of the whole text
      std::optional<PlacedToken> token;
    };
    text::ReasoningParser parser;
    TokenId open = -1, close = -1;  // the marks, if they are tokens
    bool told = true;               // false: reasoning is left out of the answer, with its tokens
    bool tells_tokens = true;       // false: a response has the tokens of its text alone
    std::int64_t pushed = 0;        // bytes of text
    std::deque<Unsure> unsure = {};
    std::int64_t tokens = 0;
    std::string text = {};  // text for the answer
  };
  // For a request with tools: the parser that takes calls out of the text.
  struct Tools {
    text::ToolCallParser parser;
    std::vector<TokenId> marks = {};  // of calls: part of the text even if they are special tokens
    std::vector<text::ToolCallDelta> calls = {};  // calls for the answer
  };

  void add_text(std::string text);
  void take_parted();
  void add_content(std::string text);
  void take_parsed();
  bool is_mark(TokenId token) const;
  // Adds a token and its text. Its log-probability is kept until it may be sent.
  void place(request::OutputToken token, std::string_view piece);
  void settle(bool finished);

  const text::Tokenizer& tokenizer_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool skip_special_;
  std::unique_ptr<Tools> tools_;        // null: the request has no tools
  std::unique_ptr<Thinking> thinking_;  // null: all text is content
  bool keeps_tokens_;                   // log-probabilities or ids are wanted
  bool echo_only_;                      // nothing that is generated is sent
  std::int64_t min_tokens_;
  bool finished_ = false;
  std::int64_t generated_ = 0;
  std::int64_t characters_ = 0;
  std::string_view finish_reason_;
  std::string text_;
  std::vector<PlacedToken> tokens_;
};

}  // namespace causeway::server
