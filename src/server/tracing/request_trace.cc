#include "server/tracing/request_trace.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::server {
namespace {

// When a choice's stages end, in order, within the request.
struct Stages {
  Nanos submitted, held, weights, started, first_token, ended;
};

Stages stages_of(const RequestTrace& trace, const ChoiceTrace& run) {
  const auto after = [&](Nanos earlier, Nanos at) { return std::clamp(at, earlier, trace.ended); };
  // What never came is as far as it got.
  const auto or_end = [&](Nanos earlier, Nanos at) {
    if (at >= Nanos(0)) return after(earlier, at);
    return after(earlier, run.ended >= Nanos(0) ? run.ended : trace.ended);
  };
  Stages out;
  out.submitted = or_end(trace.arrival, run.submitted);
  out.held = after(out.submitted, out.submitted + run.held);
  out.weights = after(out.held, out.held + run.weights);
  const bool began = run.queued >= Nanos(0);
  out.started = or_end(out.weights, began ? trace.arrival + run.queued : Nanos(-1));
  out.first_token = or_end(out.started, run.first_token);
  out.ended = or_end(out.first_token, run.ended);
  return out;
}

// Puts together the spans of one request.
class Spans {
 public:
  explicit Spans(const RequestTrace& trace) : trace_(trace) {}

  Span& add(std::string_view name, Nanos begin, Nanos end) {
    const std::size_t number = spans_.size();
    const std::uint64_t id = number == 0 ? trace_.root : make_span_id(trace_.root, number);
    const std::uint64_t parent = number == 0 ? trace_.context.parent : trace_.root;
    spans_.push_back({.name = name,
                      .id = id,
                      .parent = parent,
                      .begin = begin - trace_.unix_epoch,
                      .end = end - trace_.unix_epoch});
    return spans_.back();
  }
  // Says which of several choices the span is of.
  void add(std::string_view name, Nanos begin, Nanos end, std::size_t choice) {
    Span& span = add(name, begin, end);
    const auto number = static_cast<std::int64_t>(choice);
    if (trace_.choices > 1) span.attributes.push_back({"causeway.choice", number});
  }
  std::vector<Span> take() { return std::move(spans_); }

 private:
  const RequestTrace& trace_;
  std::vector<Span> spans_;
};

// visit(name, begin, end) of every span of a choice.
template <typename Visit>
void visit_choice(const RequestTrace& trace, const ChoiceTrace& run, Visit visit) {
  const Stages at = stages_of(trace, run);
  const auto waited = [&](std::string_view name, Nanos from, Nanos to) {
    if (to > from) visit(name, from, to);
  };
  waited("load_model", at.submitted, at.held);
  waited("bring_weights", at.held, at.weights);
  waited("queue", at.weights, at.started);
  const bool began = run.queued >= Nanos(0);
  if (began) visit("prefill", at.started, at.first_token);
  if (began && run.first_token >= Nanos(0)) visit("decode", at.first_token, at.ended);
  for (const request::RotationTimes& one : run.rotations) {
    const auto within = [&](Nanos time) { return std::clamp(time, at.started, at.ended); };
    const Nanos in = one.in >= Nanos(0) ? trace.arrival + one.in : at.ended;
    const Nanos out = within(trace.arrival + one.out);
    visit("rotation", out, std::max(out, within(in)));
  }
}

// Latencies of the request as a whole; where there are several choices, of the first to get so far.
void add_latencies(Span& root, const RequestTrace& trace) {
  const auto tell = [&](std::string_view name, Nanos time) {
    root.attributes.push_back({name, to_seconds(time)});
  };
  tell("gen_ai.latency.e2e", trace.ended - trace.arrival);
  const auto first =
      std::min_element(trace.runs.begin(), trace.runs.end(), [](const auto& a, const auto& b) {
        const auto order = [](Nanos at) { return at >= Nanos(0) ? at : seconds(1'000'000'000); };
        return order(a.first_token) < order(b.first_token);
      });
  if (first == trace.runs.end() || first->queued < Nanos(0)) return;
  const Stages at = stages_of(trace, *first);
  tell("gen_ai.latency.time_in_queue", at.started - at.submitted);
  tell("causeway.latency.time_to_load_model", at.held - at.submitted);
  tell("causeway.latency.time_to_bring_weights", at.weights - at.held);
  if (first->first_token < Nanos(0)) return;
  tell("gen_ai.latency.time_to_first_token", at.first_token - trace.arrival);
  tell("gen_ai.latency.time_in_model_prefill", at.first_token - at.started);
  tell("gen_ai.latency.time_in_model_decode", at.ended - at.first_token);
  tell("gen_ai.latency.time_in_model_inference", at.ended - at.started);
}

// Names are those of vLLM, or of OpenTelemetry for HTTP; those of neither begin with "causeway.".
void add_root(Spans& spans, const RequestTrace& trace) {
  Span& root = spans.add("llm_request", trace.arrival, trace.ended);
  root.server = true;
  root.error = trace.error;
  root.attributes = {{"gen_ai.request.id", trace.id},
                     {"gen_ai.operation.name", std::string(trace.operation)},
                     {"gen_ai.request.model", trace.model},
                     {"gen_ai.response.model", trace.model},
                     {"gen_ai.request.n", trace.choices},
                     {"gen_ai.request.max_tokens", trace.max_tokens},
                     {"gen_ai.request.temperature", trace.temperature},
                     {"gen_ai.request.top_p", trace.top_p},
                     {"gen_ai.usage.prompt_tokens", trace.prompt_tokens},
                     {"gen_ai.usage.completion_tokens", trace.generated_tokens},
                     {"http.request.method", std::string("POST")},
                     {"http.route", std::string(trace.endpoint)},
                     {"http.response.status_code", std::int64_t{trace.status}},
                     {"causeway.usage.cached_tokens", trace.cached_tokens}};
  if (!trace.error_type.empty()) root.attributes.push_back({"error.type", trace.error_type});
  if (trace.predicted_tpot > Nanos(0)) {
    root.attributes.push_back({"causeway.predicted_tpot", to_seconds(trace.predicted_tpot)});
    root.attributes.push_back({"causeway.best_effort", std::int64_t{trace.best_effort}});
  }
  std::int64_t preemptions = 0, resumes = 0, rotations = 0;
  for (const ChoiceTrace& run : trace.runs) {
    preemptions += run.preemptions;
    resumes += run.resumes;
    rotations += std::ssize(run.rotations);
  }
  root.attributes.push_back({"causeway.preemptions", preemptions});
  root.attributes.push_back({"causeway.rotations", rotations});
  root.attributes.push_back({"causeway.resumes", resumes});
  add_latencies(root, trace);
}

}  // namespace

std::int64_t RequestTrace::spans() const {
  std::int64_t count = 2;
  for (const ChoiceTrace& run : runs) {
    visit_choice(*this, run, [&](std::string_view, Nanos, Nanos) { ++count; });
  }
  return count;
}

std::vector<Span> spans_of(const RequestTrace& trace) {
  CAUSEWAY_CHECK(trace.ended >= trace.arrival, "a request ends before it has come");
  Spans spans(trace);
  add_root(spans, trace);
  const Nanos submitted =
      trace.runs.empty() ? trace.ended : stages_of(trace, trace.runs[0]).submitted;
  spans.add("prepare", trace.arrival, submitted);
  for (std::size_t i = 0; i < trace.runs.size(); ++i) {
    visit_choice(trace, trace.runs[i], [&](std::string_view name, Nanos begin, Nanos end) {
      spans.add(name, begin, end, i);
    });
  }
  return spans.take();
}

}  // namespace causeway::server
