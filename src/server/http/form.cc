#include "server/http/form.h"

#include <optional>
#include <utility>

namespace causeway::server {
namespace {

MaybeError error_of(const Error& error, const std::string& field) {
  if (error.code == ErrorCode::kResourceExhausted) return queue_full(error.message);
  ApiError told = bad_request("`" + field + "`: " + error.message, field);
  if (error.code == ErrorCode::kUnsupported) told.code = "unsupported";
  return told;
}

}  // namespace

// Only the connection's thread uses it.
struct Form::Pending {
  Event* news = nullptr;  // null: no request waits any more
  std::optional<grammar::Compiler::Outcome> outcome;
};

Form::Form(Connection& connection) : connection_(connection) {}

Form::~Form() {
  if (pending_) pending_->news = nullptr;
}

void Form::compile(const fleet::CatalogueEntry& model, request::ConstraintText text,
                   std::string field) {
  field_ = std::move(field);
  pending_ = std::make_shared<Pending>();
  pending_->news = &connection_.news();
  Worker& worker = connection_.worker();
  const grammar::ModelTokens tokens{.model = model.id,
                                    .tokenizer = model.tokenizer.get(),
                                    .vocab = model.vocab,
                                    .end = model.eos,
                                    .marks = text::tool_call_marks(model.tool_calls)};
  connection_.context().compiler->compile(
      tokens, std::move(text),
      [pending = pending_, &worker](const grammar::Compiler::Outcome& outcome) {
        asio::post(worker.io(), [pending, outcome] {
          pending->outcome = outcome;
          if (pending->news != nullptr) pending->news->set();
        });
      });
}

asio::awaitable<MaybeError> Form::wait() {
  const Nanos most = connection_.context().options.limits.compile_time_max;
  const Nanos deadline = connection_.now() + most;
  while (!pending_->outcome && !connection_.peer_gone() && !connection_.aborted()) {
    if (connection_.now() >= deadline) {
      co_return bad_request("`" + field_ + "` takes longer than " +
                                std::to_string(most.count / 1'000'000) +
                                " ms to compile; make it simpler, or send it again "
                                "later if the server is busy",
                            field_);
    }
    connection_.wake_at(deadline);
    co_await connection_.news().wait();
  }
  if (connection_.aborted()) co_return draining();
  if (!pending_->outcome || pending_->outcome->ok()) co_return MaybeError();
  co_return error_of(pending_->outcome->error(), field_);
}

std::shared_ptr<const request::Constraint> Form::constraint() const {
  if (!pending_ || !pending_->outcome || !pending_->outcome->ok()) return nullptr;
  return pending_->outcome->value();
}

}  // namespace causeway::server
