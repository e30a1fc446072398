// Writes answers of /v1/responses, whole or as server-sent events: items, in the order in which the
// model wrote them.
//
//   what a thinking model thinks → item 0, reasoning: one part that is its text
//   "Let me see. "               → item 1, a message: likewise
//   a call of get_weather        → item 2, a function_call: its arguments
//
//   response.created, response.in_progress
//   of reasoning: response.output_item.added, response.content_part.added,
//                 response.reasoning_text.delta …, response.reasoning_text.done,
//                 response.content_part.done, response.output_item.done
//   of a message: response.output_item.added, response.content_part.added,
//                 response.output_text.delta …, response.output_text.done,
//                 response.content_part.done, response.output_item.done
//   of a call:    response.output_item.added, response.function_call_arguments.delta …,
//                 response.function_call_arguments.done, response.output_item.done
//   response.completed, response.incomplete (too long) or response.failed
//
// What comes out in the end does not depend on how the text was cut. The API has the text of an
// item once more at its end, and all items in the last event: so they are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/answer_writer.h"

namespace causeway::server {

// One thread at a time.
class ResponseWriter {
 public:
  struct Head {
    // What the request decides; `echo` is a view of it. The rest is the caller's.
    Head(const GenerationRequest& asked, const request::SamplingParams& sampling);

    std::string id;  // without its prefix
    std::int64_t created_unix_seconds = 0;
    std::string_view model;
    std::string_view echo;  // GenerationRequest::response_echo
    float temperature = 1.0f;
    float top_p = 1.0f;
    bool logprobs = false;
    bool kept = false;           // take_whole() will be called
    std::uint64_t call_ids = 0;  // determines the ids of calls
    text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;
  };
  // The tokenizer spells tokens for log-probabilities; it must outlive this.
  ResponseWriter(const Head& head, const text::Tokenizer& tokenizer);

  // The events for new text; the first call begins with the events that open the answer.
  void append_news(std::string& out, const ChoiceText& news);
  // The events at the end of the answer: those that close its last item, and one with the whole
  // answer.
  void append_end(std::string& out, const Usage& usage, std::int64_t now_unix_seconds);
  // The event that ends a failed answer.
  void append_failure(std::string& out, const ApiError& error);
  // The whole answer instead of events; `all` is the only choice.
  void append_answer(std::string& out, const ChoiceText& all, const Usage& usage,
                     std::int64_t now_unix_seconds);
  // The whole answer, as append_answer() writes it. Call it once, after the end; needs Head::kept.
  std::string take_whole() { return std::exchange(whole_, {}); }

 private:
  enum class Kind { kReasoning, kMessage, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id = {};
    std::string begin = {};     // JSON of what is known at its start; its status follows at the end
    std::string text = {};      // the text, or the arguments
    std::string logprobs = {};  // JSON of the text's log-probabilities, without brackets
  };
  struct Outcome {
    std::string_view status;
    const Usage* usage = nullptr;
    const ApiError* error = nullptr;
    std::int64_t completed_unix_seconds = -1;  // -1: null
  };

  void append_begin(std::string& out);
  // Closes the last item and the answer.
  Outcome finish(std::string& out, const Usage& usage, std::int64_t now_unix_seconds);
  void append_text(std::string& out, std::string_view text);
  void append_reasoning(std::string& out, std::string_view text);
  void append_call(std::string& out, const text::ToolCallDelta& call);
  // A message or reasoning.
  void open_text(std::string& out, Kind kind);
  void open(std::string& out, Item item);
  // Closes the open item.
  void close(std::string& out, std::string_view status);
  void close_text(std::string& out);
  void append_part(std::string& out) const;
  void append_item(std::string& out, std::string_view status) const;
  void append_response(std::string& out, const Outcome& outcome) const;
  void append_response_event(std::string& out, std::string_view type, const Outcome& outcome);
  // "event: TYPE\ndata: {"type":TYPE,"sequence_number":N"; item: with its id and index.
  void begin_event(std::string& out, std::string_view type);
  void begin_item_event(std::string& out, std::string_view type);
  std::string item_id(std::string_view prefix) const;

  bool logprobs_;
  bool kept_;
  std::uint64_t call_ids_;
  text::ToolCallFormat tool_calls_;
  const text::Tokenizer& tokenizer_;
  std::string id_;
  std::string head_;  // {"id":…, …, the members that are the same in all events
  std::string whole_;
  std::string_view finish_reason_;
  bool begun_ = false;
  bool said_ = false;          // a message or a call was opened
  std::int64_t sequence_ = 0;  // of the next event
  std::int64_t items_ = 0;     // items that were opened
  std::string closed_;         // JSON of the closed items, separated by commas
  std::optional<Item> open_;   // the last item
  std::string held_logprobs_;  // of tokens whose text has not come yet
};

}  // namespace causeway::server
