#include "grammar/compiler.h"

#include <list>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "grammar/compile.h"

namespace causeway::grammar {
namespace {

constexpr std::size_t kWaitersMax = 4096;  // for one text

struct Key {
  ModelId model;
  request::ConstraintText text;

  bool operator<(const Key& other) const {
    return std::tie(model, text.kind, text.text) <
           std::tie(other.model, other.text.kind, other.text.text);
  }
};

// A model's tokens, prepared by the first that compiles for it.
struct Tokens {
  std::mutex preparing;
  std::shared_ptr<const TokenTable> table;  // until then
  std::shared_ptr<const PreparedTokens> prepared;

  Result<std::shared_ptr<const PreparedTokens>> prepare() {
    const std::lock_guard lock(preparing);
    if (prepared == nullptr) {
      CAUSEWAY_ASSIGN(prepared, prepare_tokens(*table));
      table.reset();
    }
    return prepared;
  }
};

}  // namespace

class Compiler::State {
 public:
  explicit State(const CompilerOptions& options_in) : options(options_in) {}

  // True: `done` was called, or waits with others for the same text.
  bool find_or_join(const Key& key, Done& done);
  Result<std::shared_ptr<Tokens>> tokens_of(const ModelTokens& model);
  void finish(const Key& key, Result<Compiled> compiled);
  void stop();

  const CompilerOptions options;

 private:
  struct Kept {
    Key key;
    std::shared_ptr<const request::Constraint> constraint;
    std::size_t bytes = 0;
  };
  void keep(const Key& key, const Compiled& compiled);

  std::mutex mutex_;      // guards what follows
  std::list<Kept> kept_;  // the last used first
  std::map<Key, std::list<Kept>::iterator> index_;
  std::size_t kept_bytes_ = 0;
  std::map<Key, std::vector<Done>> running_;
  std::list<std::pair<ModelId, std::shared_ptr<Tokens>>> models_;  // the last used first
  bool stopped_ = false;
};

bool Compiler::State::find_or_join(const Key& key, Done& done) {
  const std::lock_guard lock(mutex_);
  if (const auto at = index_.find(key); at != index_.end()) {
    kept_.splice(kept_.begin(), kept_, at->second);
    done(at->second->constraint);
    return true;
  }
  const auto [at, first] = running_.try_emplace(key);
  if (at->second.size() >= kWaitersMax) {
    done(exhausted("too many requests wait for this form of an answer to be compiled"));
    return true;
  }
  at->second.push_back(std::move(done));
  return !first;
}

Result<std::shared_ptr<Tokens>> Compiler::State::tokens_of(const ModelTokens& model) {
  {
    const std::lock_guard lock(mutex_);
    for (auto at = models_.begin(); at != models_.end(); ++at) {
      if (at->first != model.model) continue;
      models_.splice(models_.begin(), models_, at);
      return models_.front().second;
    }
  }
  auto tokens = std::make_shared<Tokens>();
  CAUSEWAY_ASSIGN(tokens->table, make_token_table(model));
  const std::lock_guard lock(mutex_);
  models_.emplace_front(model.model, tokens);
  if (models_.size() > options.models_max) models_.pop_back();
  return tokens;
}

void Compiler::State::keep(const Key& key, const Compiled& compiled) {
  if (compiled.bytes > options.cache_bytes_max) return;
  kept_.push_front({key, compiled.constraint, compiled.bytes});
  index_[key] = kept_.begin();
  kept_bytes_ += compiled.bytes;
  while (kept_bytes_ > options.cache_bytes_max) {
    kept_bytes_ -= kept_.back().bytes;
    index_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

void Compiler::State::finish(const Key& key, Result<Compiled> compiled) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  if (compiled.ok()) keep(key, *compiled);
  const Outcome outcome = compiled.ok() ? Outcome(compiled->constraint) : Outcome(compiled.error());
  const auto at = running_.find(key);
  for (const Done& done : at->second) done(outcome);
  running_.erase(at);
}

void Compiler::State::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  running_.clear();
}

Compiler::Compiler(const CompilerOptions& options, const Clock& clock)
    : state_(std::make_shared<State>(options)),
      matching_(std::make_shared<WorkPool>(options.matching, clock)),
      compiling_(std::make_unique<WorkPool>(options.compiling, clock)) {}

Compiler::~Compiler() { state_->stop(); }

void Compiler::compile(const ModelTokens& model, request::ConstraintText text, Done done) {
  if (!available()) {
    return done(unsupported("this build has no XGrammar, which structured outputs need"));
  }
  if (const Status fits = check_constraint(text, state_->options.limits); !fits.ok()) {
    return done(fits.error());
  }
  const Key key{model.model, std::move(text)};
  if (state_->find_or_join(key, done)) return;
  auto tokens = state_->tokens_of(model);
  if (!tokens.ok()) return state_->finish(key, tokens.error());
  const bool posted =
      compiling_->post([state = state_, key, moved = *tokens, matching = matching_] {
        auto prepared = moved->prepare();
        state->finish(key, prepared.ok() ? grammar::compile(*prepared, key.text, matching)
                                         : Result<Compiled>(prepared.error()));
      });
  if (!posted) state_->finish(key, exhausted("too many forms of answers wait to be compiled"));
}

}  // namespace causeway::grammar
