// One choice of an answer while it is generated: tokens in, text out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "request/request.h"
#include "server/api/generation_request.h"
#include "server/api/stop_matcher.h"
#include "text/detokenizer.h"

namespace causeway::server {

// A token with its place in the text, for log-probabilities.
struct PlacedToken {
  request::OutputToken token;
  std::int64_t text_offset = 0;  // in characters, of the choice's text
};

// One thread at a time. The tokenizer must outlive it.
class Choice {
 public:
  Choice(const text::Tokenizer& tokenizer, const GenerationRequest& asked);

  // Takes tokens up to the one that completes a stop string; later ones are dropped. Appends the
  // text that became certain, and the tokens taken when log-probabilities were asked for.
  void push(std::vector<request::OutputToken> tokens);
  // The engine's last word. kCancelled after a stop string is a stop.
  void finish(request::FinishReason reason);

  // What came since the last call.
  std::string take_text() { return std::exchange(text_, {}); }
  std::vector<PlacedToken> take_tokens() { return std::exchange(tokens_, {}); }
  bool has_news() const { return !text_.empty() || !tokens_.empty(); }

  // A stop string was found: the engine's request is no longer needed.
  bool stopped() const { return matcher_.stopped(); }
  bool finished() const { return finished_; }
  std::int64_t generated() const { return generated_; }
  // "stop", "length", or "" when it ended otherwise.
  std::string_view finish_reason() const { return finish_reason_; }

 private:
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool skip_special_;
  bool logprobs_;
  bool finished_ = false;
  std::int64_t generated_ = 0;
  std::int64_t characters_ = 0;
  std::string_view finish_reason_;
  std::string text_;
  std::vector<PlacedToken> tokens_;
};

}  // namespace causeway::server
