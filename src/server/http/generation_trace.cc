#include "server/http/generation_trace.h"

#include <algorithm>
#include <utility>

#include "base/wall_clock.h"

namespace causeway::server {
namespace {

struct Named {
  std::string_view endpoint, operation, id_prefix;
};

Named name_of(Route route) {
  switch (route) {
    case Route::kCompletions: return {"/v1/completions", "text_completion", "cmpl-"};
    case Route::kResponses: return {"/v1/responses", "chat", "resp_"};
    case Route::kEmbeddings: return {"/v1/embeddings", "embeddings", ""};
    case Route::kAdminChat: return {"/admin/chat/completions", "chat", "chatcmpl-"};
    default: return {"/v1/chat/completions", "chat", "chatcmpl-"};
  }
}

}  // namespace

GenerationTrace::GenerationTrace(ServerContext& context, const Incoming& incoming, Nanos arrival)
    : context_(context) {
  if (context_.traces == nullptr) return;
  auto recorded = context_.traces->context(incoming.trace);
  if (!recorded) return;
  trace_ = std::make_unique<RequestTrace>();
  RequestTrace& trace = *trace_;
  trace.context = *std::move(recorded);
  trace.root = context_.traces->make_root();
  trace.arrival = arrival;
  const Named named = name_of(incoming.routed.route);
  trace.endpoint = named.endpoint;
  trace.operation = named.operation;
  trace.id = named.id_prefix;
}

void GenerationTrace::asked(const Prepared& prepared, const std::string& id) {
  if (!trace_) return;
  const request::Request& first = prepared.requests.front();
  trace_->id += id;
  trace_->model = prepared.model->name;
  trace_->max_tokens = first.max_tokens.count;
  trace_->temperature = first.sampling.temperature;
  trace_->top_p = first.sampling.top_p;
  trace_->choices = std::ssize(prepared.requests);
  trace_->prompt_tokens = prepared.prompt_tokens;
}

void GenerationTrace::began(ModelId model) {
  if (!trace_ || std::exchange(began_, true)) return;
  const fleet::ModelStatus status = context_.fleet->status(model);
  trace_->predicted_tpot = status.predicted_tpot;
  trace_->best_effort = status.best_effort;
}

void GenerationTrace::end(const std::vector<ChoiceRun>& runs, const Usage& usage,
                          const MaybeError& failure, bool streamed) {
  if (!trace_) return;
  const Nanos now = context_.clock.now();
  RequestTrace& trace = *trace_;
  trace.unix_epoch = now - unix_time();
  trace.ended = now;
  trace.cached_tokens = usage.cached_tokens;
  trace.generated_tokens = usage.completion_tokens;
  if (failure) {
    if (!streamed) trace.status = failure->status;
    trace.error = failure->message;
    trace.error_type = failure->code.empty() ? failure->type : failure->code;
  }
  if (trace.model.empty()) trace.id.clear();  // it was refused before there was one
  const std::size_t told = std::min(runs.size(), kChoicesTracedMax);
  for (std::size_t i = 0; i < told; ++i) trace.runs.push_back(runs[i].trace());
  context_.traces->add(std::move(trace));
  trace_.reset();
}

}  // namespace causeway::server
