// A request's way as spans: from what was measured of it to what OTLP tells. Pure.
//
//  arrival                                                                      last byte written
//  ├────────────────────────────────── llm_request ──────────────────────────────────────────┤
//  ├ prepare ┼ load_model ┼ bring_weights ┼ queue ┼─── prefill ───┼──────── decode ─────┤
//            │ in host    │ weights on    │       │               ├ rotation ┤
//            submitted    on a slice      enough  first step      first token           last token
//
// One row of stages for each choice; a stage that took no time has no span, but for prefill and
// decode. What did not happen before the request ended is as long as the rest of it was.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "request/request.h"
#include "server/tracing/trace_context.h"

namespace causeway::server {

// The times of a choice by the server's clock; below zero: it did not happen.
struct ChoiceTrace {
  Nanos submitted{-1};
  Nanos held = {};  // this and the next two as in request::Output
  Nanos weights = {};
  Nanos queued{-1};
  Nanos first_token{-1};
  Nanos ended{-1};
  std::vector<request::RotationTimes> rotations = {};  // kChoiceRotationsMax at most
  std::int64_t generated_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t resumes = 0;  // times that it continued on another slice because its slice was lost
};

// The most rotations of a choice in a trace.
inline constexpr std::int64_t kChoiceRotationsMax = 64;
inline constexpr std::size_t kChoicesTracedMax = 8;  // the most choices of a request in a trace

struct RequestTrace {
  TraceContext context;    // `parent`: the caller's span
  // The id of the request's own span, from which the ids of the others follow.
  std::uint64_t root = 0;
  Nanos unix_epoch;  // the start of 1970 by the server's clock
  Nanos arrival;
  Nanos ended{-1};             // when the answer was written
  std::string id;              // as the answer has it
  std::string_view endpoint;   // "/v1/chat/completions"; a literal
  std::string_view operation;  // "chat"; a literal
  std::string model;
  std::int64_t max_tokens = 0;
  double temperature = 0;
  double top_p = 0;
  std::int64_t choices = 0;  // including those that are not in `runs`
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t generated_tokens = 0;
  // At its first token: the expected time of a token of the model, and whether that exceeds its
  // target, as in fleet::ModelStatus.
  Nanos predicted_tpot = {};
  bool best_effort = false;
  int status = 200;               // of HTTP
  std::string error;              // "": none
  std::string error_type;         // of it
  std::vector<ChoiceTrace> runs;  // kChoicesTracedMax at most

  // The number of spans that spans_of() makes of it.
  std::int64_t spans() const;
};

struct SpanAttribute {
  std::string_view name;
  std::variant<std::int64_t, double, std::string> value;
};

struct Span {
  std::string_view name;
  std::uint64_t id = 0;
  std::uint64_t parent = 0;  // 0: none
  Nanos begin, end;          // since 1970
  bool server = false;       // its kind is server; otherwise internal
  std::string error = {};    // "": it is no error
  std::vector<SpanAttribute> attributes = {};
};

// The root first. Every other span lies within it; those of a choice but rotations follow each
// other without a gap.
std::vector<Span> spans_of(const RequestTrace& trace);

}  // namespace causeway::server
