// Compiles constraints off the threads that serve (docs/design/structured.md), and keeps what it
// has compiled, by model and text.
//
//   compile(model, text, done) ── in the cache ─▶ done, at once
//                              └─ queue ─▶ a thread of the pool ─▶ done
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "grammar/check_constraint.h"
#include "grammar/token_table.h"
#include "grammar/work_pool.h"
#include "request/constraint.h"

namespace causeway::grammar {

struct CompilerOptions {
  ConstraintLimits limits;
  WorkPoolOptions compiling = {.queued_max = 256, .niceness = 10};
  // For masks. Each takes microseconds, unless a request's grammar is ambiguous.
  WorkPoolOptions matching = {.threads = 4, .threads_max = 16, .late = millis(20)};
  std::size_t cache_bytes_max = std::size_t{256} << 20;
  std::size_t models_max = 16;  // whose prepared tokens are kept
};

// Any thread.
class Compiler {
 public:
  using Outcome = Result<std::shared_ptr<const request::Constraint>>;
  // Must not block, nor call the compiler. On whatever thread.
  using Done = std::function<void(const Outcome&)>;

  // The clock outlives it.
  Compiler(const CompilerOptions& options, const Clock& clock);
  // Waiting ones are dropped. Two seconds at most; a compilation that goes on is left to itself.
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // Calls `done` once, unless the compiler ends before: at once, or when the text is compiled,
  // however long that takes. A caller that has waited for long enough may forget about it; when it
  // has been compiled after all, it is kept. kInvalidArgument, kUnsupported: the text cannot be
  // used; kResourceExhausted: too much waits. Takes as long as copying the vocabulary, once a
  // model.
  void compile(const ModelTokens& model, request::ConstraintText text, Done done);

 private:
  class State;
  std::shared_ptr<State> state_;
  std::shared_ptr<WorkPool> matching_;
  std::unique_ptr<WorkPool> compiling_;
};

}  // namespace causeway::grammar
