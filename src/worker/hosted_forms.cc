// Requests whose answers have a form (docs/design/structured.md): it came as text, and is compiled
// here before the engine is given the request.
#include <utility>
#include <vector>

#include "model/config.h"
#include "request/banned_words.h"
#include "worker/hosted_slices.h"

namespace causeway::worker {
namespace {

// The supervisor has compiled the same within seconds.
constexpr Nanos kCompileMax = seconds(30);

grammar::Compiler::Outcome banned_words_of(const std::string& text) {
  CAUSEWAY_ASSIGN(request::BannedWords banned, request::parse_banned_words(text));
  return request::ban_words(std::move(banned));
}

}  // namespace

Status HostedSlices::submit_formed(Submit submit) {
  CAUSEWAY_TRY(at(submit.slice));
  {
    const std::scoped_lock lock(mutex_);
    const Compiling compiling{submit.slice, submit.request.attempt, clock_.now()};
    if (!compiling_.emplace(submit.request.id, compiling).second) {
      return corrupt("the supervisor sends a request twice");
    }
  }
  return do_later({std::move(submit), weights::FileDescriptor()});
}

void HostedSlices::compile(Submit submit) {
  if (submit.form.kind == request::ConstraintKind::kBannedWords) {
    const grammar::Compiler::Outcome outcome = banned_words_of(submit.form.text);
    return compiled(std::move(submit), outcome);
  }
  const auto tokens = tokens_of(submit.request.model);
  if (!tokens.ok()) return compiled(std::move(submit), tokens.error());
  request::ConstraintText text = submit.form;
  compiler_->compile(
      *tokens, std::move(text),
      [this, submit](const grammar::Compiler::Outcome& outcome) { compiled(submit, outcome); });
}

Result<grammar::ModelTokens> HostedSlices::tokens_of(ModelId model) {
  const auto at = forms_.find(model);
  if (at == forms_.end()) return not_found("the model is not attached");
  Forms& tokens = at->second;
  if (tokens.tokenizer == nullptr) {
    CAUSEWAY_ASSIGN(const model::ModelConfig config, model::load_config(tokens.directory));
    CAUSEWAY_ASSIGN(tokens.tokenizer, text::load_tokenizer(tokens.directory));
    tokens.vocab = config.vocab;
  }
  return grammar::ModelTokens{.model = model,
                              .tokenizer = tokens.tokenizer.get(),
                              .vocab = tokens.vocab,
                              .end = tokens.eos,
                              .marks = text::tool_call_marks(tokens.tool_calls)};
}

bool HostedSlices::stop_compiling(RequestId request, Compiling& was) {
  const auto at = compiling_.find(request);
  if (at == compiling_.end()) return false;
  was = at->second;
  compiling_.erase(at);
  return true;
}

void HostedSlices::compiled(Submit submit, const grammar::Compiler::Outcome& outcome) {
  const RequestId id = submit.request.id;
  Status taken;
  Compiling was;
  {
    // With the lock, so that a cancellation finds it here or there.
    const std::scoped_lock lock(mutex_);
    if (!stop_compiling(id, was)) return;
    if (outcome.ok()) {
      submit.request.constraint = *outcome;
      taken =
          slices_[static_cast<std::size_t>(was.slice)].engine->submit(std::move(submit.request));
    } else {
      taken = outcome.error();
    }
  }
  if (taken.ok()) return;
  const Status sent = refuse(was.slice, id, was.attempt, taken.error());
  if (sent.ok()) return;
  const std::scoped_lock lock(mutex_);
  broken_ = sent;
  channel_.wake();
}

Status HostedSlices::cancel(const Cancel& cancel) {
  CAUSEWAY_ASSIGN(One* const one, at(cancel.slice));
  Compiling was;
  {
    const std::scoped_lock lock(mutex_);
    if (!stop_compiling(cancel.request, was)) {
      one->engine->cancel(cancel.request);
      return {};
    }
  }
  request::Output end;
  end.request = cancel.request;
  end.attempt = was.attempt;
  end.finished = true;
  end.reason = request::FinishReason::kCancelled;
  return channel_.send(encode(Outputs{was.slice, {std::move(end)}}));
}

Status HostedSlices::end_late() {
  std::vector<std::pair<RequestId, Compiling>> late;
  {
    const std::scoped_lock lock(mutex_);
    for (auto at = compiling_.begin(); at != compiling_.end();) {
      const bool ends = clock_.now() - at->second.since > kCompileMax;
      if (ends) late.emplace_back(at->first, at->second);
      at = ends ? compiling_.erase(at) : std::next(at);
    }
  }
  for (const auto& [request, was] : late) {
    CAUSEWAY_TRY(
        refuse(was.slice, request, was.attempt,
               Error{ErrorCode::kInvalidArgument,
                     "the form of the answer takes too long to compile; make it simpler"}));
  }
  return {};
}

}  // namespace causeway::worker
