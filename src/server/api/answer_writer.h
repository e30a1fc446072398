// Writes answers of chats and completions, whole or as server-sent events, straight into strings.
// The part that all events of a stream share is written once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/choice.h"

namespace causeway::server {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  // The part of the completion tokens that is reasoning; -1: not reported.
  std::int64_t reasoning_tokens = -1;
};

// A part of one choice for the answer: all of it, or what is new.
struct ChoiceText {
  std::size_t index = 0;
  std::string_view text;
  std::span<const PlacedToken> tokens;  // for log-probabilities and ids
  std::string_view finish_reason;       // "": null, because more follows
  std::span<const text::ToolCallDelta> calls;
  // The prompt's part of the answer's start: the ids of its tokens, and their log-probabilities.
  std::span<const TokenId> prompt_tokens;
  std::span<const PlacedToken> prompt_scores;
  std::string_view reasoning = {};
};

class AnswerWriter {
 public:
  struct Head {
    // What the request decides. The id, the time, the model and the ids of calls are the caller's,
    // and so is `reasoning` of a model that does none.
    explicit Head(const GenerationRequest& asked);

    Endpoint endpoint = Endpoint::kChat;
    std::string id;  // without its prefix
    std::int64_t created_unix_seconds = 0;
    std::string_view model;
    bool logprobs = false;
    bool echoed_logprobs = false;       // with logprobs: those of the prompt come first
    std::int32_t top_logprobs = 0;      // the most that are written for a token of a completion
    std::int32_t prompt_logprobs = -1;  // of the prompt, in vLLM's form; -1: none
    bool token_ids = false;             // of prompt and answer, as vLLM has them
    bool tokens_as_ids = false;         // log-probabilities spell tokens as "token_id:5"
    std::uint64_t call_ids = 0;         // determines the ids of tool calls
    text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;
    bool reasoning = false;      // messages have `reasoning_content`, which may be null
    bool include_usage = false;  // events have "usage": null, and the last one has the numbers
  };
  // The tokenizer spells tokens for log-probabilities; it must outlive this.
  AnswerWriter(const Head& head, const text::Tokenizer& tokenizer);

  // The chat event that opens a choice: delta.role. `so_far` is told when it is given.
  void append_role_event(std::string& out, std::size_t index,
                         std::span<const TokenId> prompt_tokens,
                         const Usage* so_far = nullptr) const;
  void append_event(std::string& out, const ChoiceText& choice,
                    const Usage* so_far = nullptr) const;
  void append_usage_event(std::string& out, const Usage& usage) const;
  // The whole answer to a request without a stream.
  void append_answer(std::string& out, std::span<const ChoiceText> choices,
                     const Usage& usage) const;

 private:
  void append_logprobs(std::string& out, const ChoiceText& choice) const;
  void append_completion_logprobs(std::string& out, const ChoiceText& choice) const;
  void append_completion_top(std::string& out, const PlacedToken& placed, std::size_t most) const;
  void append_completion_token(std::string& out, TokenId id) const;
  void append_calls(std::string& out, const ChoiceText& choice, bool event) const;
  void append_delta(std::string& out, const ChoiceText& choice) const;
  void append_message(std::string& out, const ChoiceText& choice) const;
  void append_tail(std::string& out, const ChoiceText& choice) const;
  void append_event_end(std::string& out, const Usage* so_far) const;
  // A chat has one prompt, told beside its choices; each choice of a completion tells its own.
  void append_prompt_ids(std::string& out, std::span<const TokenId> tokens) const;
  void append_prompt_scores(std::string& out, std::span<const PlacedToken> prompt) const;

  bool chat_;
  bool logprobs_;
  bool echoed_logprobs_;
  std::int32_t top_logprobs_;
  std::int32_t prompt_logprobs_;
  bool token_ids_;
  bool tokens_as_ids_;
  bool reasoning_;
  bool include_usage_;
  std::uint64_t call_ids_;
  text::ToolCallFormat tool_calls_;
  std::string whole_head_;  // {"id":…,"object":…,"created":…,"model":…,"choices":[
  std::string event_head_;
  const text::Tokenizer& tokenizer_;
};

inline constexpr std::string_view kEventDone = "data: [DONE]\n\n";
inline constexpr std::string_view kEventKeepAlive = ": keep-alive\n\n";
void append_error_event(std::string& out, const ApiError& error);

}  // namespace causeway::server
