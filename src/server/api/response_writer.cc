#include "server/api/response_writer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/dcheck.h"
#include "server/api/answer_parts.h"
#include "server/api/json_write.h"

namespace causeway::server {
namespace {

// Writes the shortest digits that read back as the same value.
void append_float(std::string& out, float value) {
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// Nothing is counted as written to a cache.
void append_response_usage(std::string& out, const Usage& usage) {
  out += "{\"input_tokens\":";
  append_json_integer(out, usage.prompt_tokens);
  out += ",\"input_tokens_details\":{\"cached_tokens\":";
  append_json_integer(out, usage.cached_tokens);
  out += ",\"cache_write_tokens\":0},\"output_tokens\":";
  append_json_integer(out, usage.completion_tokens);
  out += ",\"output_tokens_details\":{\"reasoning_tokens\":";
  append_json_integer(out, std::max<std::int64_t>(0, usage.reasoning_tokens));
  out += "},\"total_tokens\":";
  append_json_integer(out, usage.prompt_tokens + usage.completion_tokens);
  out += '}';
}

// The API knows few codes here; the message says more.
void append_response_error(std::string& out, const ApiError& error) {
  std::string_view code = "server_error";
  if (error.status == 429) code = "rate_limit_exceeded";
  if (error.status == 400) code = "invalid_prompt";
  out += "{\"code\":\"";
  out += code;
  out += "\",\"message\":";
  append_json_string(out, error.message);
  out += '}';
}

}  // namespace

ResponseWriter::Head::Head(const GenerationRequest& asked, const request::SamplingParams& sampling)
    : echo(asked.response_echo),
      temperature(sampling.temperature),
      top_p(sampling.top_p),
      logprobs(asked.top_logprobs >= 0),
      kept(asked.store) {}

ResponseWriter::ResponseWriter(const Head& head, const text::Tokenizer& tokenizer)
    : logprobs_(head.logprobs),
      kept_(head.kept),
      call_ids_(head.call_ids),
      tool_calls_(head.tool_calls),
      tokenizer_(tokenizer),
      id_(head.id) {
  head_ = "{\"id\":";
  append_json_string(head_, "resp_" + head.id);
  head_ += ",\"object\":\"response\",\"created_at\":";
  append_json_integer(head_, head.created_unix_seconds);
  head_ += ",\"model\":";
  append_json_string(head_, head.model);
  head_ += ",\"temperature\":";
  append_float(head_, head.temperature);
  head_ += ",\"top_p\":";
  append_float(head_, head.top_p);
  head_ += ',';
  head_ += head.echo;
}

void ResponseWriter::append_news(std::string& out, const ChoiceText& news) {
  append_begin(out);
  if (logprobs_ && !news.tokens.empty()) {
    if (!held_logprobs_.empty()) held_logprobs_ += ',';
    append_scored_tokens(held_logprobs_, tokenizer_, false, news.tokens);
  }
  append_reasoning(out, news.reasoning);
  std::string_view rest = news.text;
  std::size_t told = 0;
  for (const text::ToolCallDelta& call : news.calls) {
    append_text(out, rest.substr(0, call.text_before - told));
    rest = news.text.substr(call.text_before);
    told = call.text_before;
    append_call(out, call);
  }
  append_text(out, rest);
  if (!news.finish_reason.empty()) finish_reason_ = news.finish_reason;
}

void ResponseWriter::append_end(std::string& out, const Usage& usage,
                                std::int64_t now_unix_seconds) {
  append_begin(out);
  const Outcome outcome = finish(out, usage, now_unix_seconds);
  append_response_event(out, "response." + std::string(outcome.status), outcome);
}

ResponseWriter::Outcome ResponseWriter::finish(std::string& out, const Usage& usage,
                                               std::int64_t now_unix_seconds) {
  const bool cut = finish_reason_ == "length";
  // An answer that says nothing is a message that says nothing, unless it was cut while it thought.
  if (!said_ && !(cut && open_)) open_text(out, Kind::kMessage);
  const std::string_view status = cut ? "incomplete" : "completed";
  close(out, status);
  const Outcome outcome = {
      .status = status, .usage = &usage, .completed_unix_seconds = cut ? -1 : now_unix_seconds};
  if (kept_) append_response(whole_, outcome);
  return outcome;
}

void ResponseWriter::append_failure(std::string& out, const ApiError& error) {
  append_begin(out);
  // The open item ends without events, so the sequence numbers of those that close() writes are
  // given back.
  std::string untold;
  const std::int64_t sequence = sequence_;
  if (open_) close(untold, "incomplete");
  sequence_ = sequence;
  append_response_event(out, "response.failed", {.status = "failed", .error = &error});
}

void ResponseWriter::append_answer(std::string& out, const ChoiceText& all, const Usage& usage,
                                   std::int64_t now_unix_seconds) {
  std::string untold;
  append_news(untold, all);
  append_response(out, finish(untold, usage, now_unix_seconds));
}

void ResponseWriter::append_begin(std::string& out) {
  if (std::exchange(begun_, true)) return;
  append_response_event(out, "response.created", {.status = "in_progress"});
  append_response_event(out, "response.in_progress", {.status = "in_progress"});
}

void ResponseWriter::append_text(std::string& out, std::string_view text) {
  if (text.empty()) return;
  if (!open_ || open_->kind != Kind::kMessage) open_text(out, Kind::kMessage);
  open_->text += text;
  begin_item_event(out, "response.output_text.delta");
  out += ",\"content_index\":0,\"delta\":";
  append_json_string(out, text);
  out += ",\"logprobs\":[";
  out += held_logprobs_;
  out += "]}\n\n";
  if (held_logprobs_.empty()) return;
  if (!open_->logprobs.empty()) open_->logprobs += ',';
  open_->logprobs += std::exchange(held_logprobs_, {});
}

void ResponseWriter::append_reasoning(std::string& out, std::string_view text) {
  if (text.empty()) return;
  if (!open_) open_text(out, Kind::kReasoning);
  CAUSEWAY_DCHECK(open_->kind == Kind::kReasoning, "no answer thinks behind what it says");
  open_->text += text;
  begin_item_event(out, "response.reasoning_text.delta");
  out += ",\"content_index\":0,\"delta\":";
  append_json_string(out, text);
  out += "}\n\n";
}

void ResponseWriter::append_call(std::string& out, const text::ToolCallDelta& call) {
  if (!call.name.empty()) {
    Item item{.kind = Kind::kCall, .id = item_id("fc_")};
    item.begin = "{\"id\":\"" + item.id + "\",\"type\":\"function_call\",\"call_id\":";
    append_json_string(item.begin, call_id(call_ids_, call.index, tool_calls_));
    item.begin += ",\"name\":";
    append_json_string(item.begin, call.name);
    open(out, std::move(item));
  }
  if (call.arguments.empty()) return;
  open_->text += call.arguments;
  begin_item_event(out, "response.function_call_arguments.delta");
  out += ",\"delta\":";
  append_json_string(out, call.arguments);
  out += "}\n\n";
}

void ResponseWriter::open_text(std::string& out, Kind kind) {
  const bool reasoning = kind == Kind::kReasoning;
  Item item{.kind = kind, .id = item_id(reasoning ? "rs_" : "msg_")};
  item.begin = "{\"id\":\"" + item.id + "\",\"type\":";
  item.begin += reasoning ? R"("reasoning","summary":[])" : R"("message","role":"assistant")";
  open(out, std::move(item));
  begin_item_event(out, "response.content_part.added");
  out += ",\"content_index\":0,\"part\":";
  append_part(out);
  out += "}\n\n";
}

void ResponseWriter::open(std::string& out, Item item) {
  if (open_) close(out, "completed");
  open_ = std::move(item);
  ++items_;
  said_ = said_ || open_->kind != Kind::kReasoning;
  begin_event(out, "response.output_item.added");
  out += ",\"output_index\":";
  append_json_integer(out, items_ - 1);
  out += ",\"item\":";
  out += open_->begin;
  out += open_->kind == Kind::kCall ? R"(,"arguments":"")" : R"(,"content":[])";
  out += ",\"status\":\"in_progress\"}}\n\n";
}

void ResponseWriter::close(std::string& out, std::string_view status) {
  CAUSEWAY_DCHECK(open_.has_value());
  if (open_->kind == Kind::kCall) {
    begin_item_event(out, "response.function_call_arguments.done");
    out += ",\"arguments\":";
    append_json_string(out, open_->text);
    out += "}\n\n";
  } else {
    close_text(out);
  }
  begin_event(out, "response.output_item.done");
  out += ",\"output_index\":";
  append_json_integer(out, items_ - 1);
  out += ",\"item\":";
  append_item(out, status);
  out += "}\n\n";
  if (!closed_.empty()) closed_ += ',';
  append_item(closed_, status);
  open_.reset();
}

// Its text, and the part that is all of it.
void ResponseWriter::close_text(std::string& out) {
  const bool message = open_->kind == Kind::kMessage;
  if (message) {
    // Log-probabilities of a stop string's tokens, whose text is not told.
    if (!open_->logprobs.empty() && !held_logprobs_.empty()) open_->logprobs += ',';
    open_->logprobs += std::exchange(held_logprobs_, {});
  }
  begin_item_event(out, message ? "response.output_text.done" : "response.reasoning_text.done");
  out += ",\"content_index\":0,\"text\":";
  append_json_string(out, open_->text);
  if (message) {
    out += ",\"logprobs\":[";
    out += open_->logprobs;
    out += ']';
  }
  out += "}\n\n";
  begin_item_event(out, "response.content_part.done");
  out += ",\"content_index\":0,\"part\":";
  append_part(out);
  out += "}\n\n";
}

void ResponseWriter::append_part(std::string& out) const {
  const bool message = open_->kind == Kind::kMessage;
  out += message ? R"({"type":"output_text","text":)" : R"({"type":"reasoning_text","text":)";
  append_json_string(out, open_->text);
  if (!message) {
    out += '}';
    return;
  }
  out += ",\"annotations\":[],\"logprobs\":[";
  out += open_->logprobs;
  out += "]}";
}

void ResponseWriter::append_item(std::string& out, std::string_view status) const {
  out += open_->begin;
  if (open_->kind == Kind::kCall) {
    out += ",\"arguments\":";
    append_json_string(out, open_->text);
  } else {
    out += ",\"content\":[";
    append_part(out);
    out += ']';
  }
  out += ",\"status\":\"";
  out += status;
  out += "\"}";
}

void ResponseWriter::append_response(std::string& out, const Outcome& outcome) const {
  out += head_;
  out += ",\"status\":\"";
  out += outcome.status;
  out += "\",\"error\":";
  if (outcome.error == nullptr) {
    out += "null";
  } else {
    append_response_error(out, *outcome.error);
  }
  out += ",\"incomplete_details\":";
  out += outcome.status == "incomplete" ? R"({"reason":"max_output_tokens"})" : "null";
  out += ",\"completed_at\":";
  if (outcome.completed_unix_seconds < 0) {
    out += "null";
  } else {
    append_json_integer(out, outcome.completed_unix_seconds);
  }
  out += ",\"output\":[";
  out += closed_;
  out += "],\"usage\":";
  if (outcome.usage == nullptr) {
    out += "null";
  } else {
    append_response_usage(out, *outcome.usage);
  }
  out += '}';
}

void ResponseWriter::append_response_event(std::string& out, std::string_view type,
                                           const Outcome& outcome) {
  begin_event(out, type);
  out += ",\"response\":";
  append_response(out, outcome);
  out += "}\n\n";
}

void ResponseWriter::begin_event(std::string& out, std::string_view type) {
  out += "event: ";
  out += type;
  out += "\ndata: {\"type\":\"";
  out += type;
  out += "\",\"sequence_number\":";
  append_json_integer(out, sequence_++);
}

void ResponseWriter::begin_item_event(std::string& out, std::string_view type) {
  begin_event(out, type);
  out += ",\"item_id\":\"";
  out += open_->id;
  out += "\",\"output_index\":";
  append_json_integer(out, items_ - 1);
}

// The id of the next item to be opened.
std::string ResponseWriter::item_id(std::string_view prefix) const {
  return std::string(prefix) + id_ + "_" + std::to_string(items_);
}

}  // namespace causeway::server
