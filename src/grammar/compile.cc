#include "grammar/compile.h"

#ifdef CAUSEWAY_XGRAMMAR
#include <xgrammar/xgrammar.h>
#endif

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "grammar/behind_thinking.h"
#include "grammar/calls_in_text.h"
#include "grammar/fenced_answer.h"
#include "grammar/json_strings.h"
#include "grammar/plain_regex.h"

#ifdef CAUSEWAY_XGRAMMAR

namespace causeway::grammar {
namespace {

// What XGrammar warns of while a thread compiles: parts of a text that it would pass over.
thread_local std::string* warnings = nullptr;

}  // namespace
}  // namespace causeway::grammar

// Where XGrammar's log goes (XGRAMMAR_LOG_CUSTOMIZE).
namespace xgrammar {

// Behind CompileJSONSchema, in none of its public headers: a schema as a grammar's text.
enum class JSONFormat : int;
std::string JSONSchemaToEBNF(const std::string& schema, bool any_whitespace,
                             std::optional<int> indent,
                             std::optional<std::pair<std::string, std::string>> separators,
                             bool strict_mode, std::optional<int> max_whitespace_cnt,
                             JSONFormat json_format);

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level,
                    const std::string& message) {
  constexpr int kWarning = 2;
  std::string* const kept = causeway::grammar::warnings;
  if (level >= kWarning && kept != nullptr && kept->empty()) *kept = message;
}

}  // namespace xgrammar

namespace causeway::grammar {

bool available() { return true; }

class PreparedTokens {
 public:
  explicit PreparedTokens(xgrammar::TokenizerInfo tokens) : info(std::move(tokens)) {}
  const xgrammar::TokenizerInfo info;
};

namespace {

// White space between the parts of JSON, in characters: a model that has nothing to say could go on
// with it for ever.
constexpr int kWhiteSpaceMax = 32;
constexpr std::size_t kMessageMax = 400;

std::size_t words_of(const xgrammar::TokenizerInfo& info) {
  return (static_cast<std::size_t>(info.GetVocabSize()) + 31) / 32;
}

std::string shown(std::string message) {
  // "Check failed: (x) is false: " is the library's own.
  if (const auto at = message.find("is false: "); at != std::string::npos) {
    message.erase(0, at + std::string_view("is false: ").size());
  }
  if (message.size() > kMessageMax) message.resize(kMessageMax);
  return message;
}

// One place in a grammar, used by the sequence that follows it and by the thread that computes.
struct Place {
  Place(xgrammar::CompiledGrammar of, bool closing) : grammar(std::move(of)), closes(closing) {}

  const xgrammar::CompiledGrammar grammar;
  const bool closes;  // where the grammar is complete the place is closed; no end token comes
  std::optional<xgrammar::GrammarMatcher> matcher;  // the computing thread's
  std::mutex mutex;                                 // guards what follows
  std::condition_variable changed;
  request::MaskState state = request::MaskState::kComputing;
  std::vector<std::uint32_t> mask;
  bool closed = false;
  std::size_t followed = 0;  // tokens, the last time
};

// Where a place goes: behind a text, then behind tokens.
struct Steps {
  std::string text = {};
  std::vector<TokenId> tokens;
};

bool fill(xgrammar::GrammarMatcher& matcher, std::vector<std::uint32_t>& mask) {
  static_assert(sizeof(std::int32_t) == sizeof(std::uint32_t));
  std::int64_t shape = static_cast<std::int64_t>(mask.size());
  DLTensor tensor = {};
  tensor.data = mask.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = &shape;
  matcher.FillNextTokenBitmask(&tensor);
  for (const std::uint32_t word : mask) {
    if (word != 0) return true;
  }
  return false;
}

struct Reached {
  std::vector<std::uint32_t> mask;
  bool closed = false;
  std::size_t followed = 0;
};

// Any thread; may take long. False: the steps do not match the grammar, or nothing can follow them.
bool follow(Place& place, const Steps& steps, Reached& reached) {
  try {
    if (!place.matcher) place.matcher.emplace(place.grammar, std::nullopt, place.closes);
    xgrammar::GrammarMatcher& matcher = *place.matcher;
    if (!steps.text.empty() && !matcher.AcceptString(steps.text)) return false;
    for (const TokenId token : steps.tokens) {
      if (place.closes && matcher.IsTerminated()) break;
      if (!matcher.AcceptToken(token)) return false;
      ++reached.followed;
    }
    reached.closed = place.closes && matcher.IsTerminated();
    return reached.closed || fill(matcher, reached.mask);
  } catch (const std::exception&) {  // the library's, or no memory
    return false;
  }
}

void compute(Place& place, const Steps& steps, std::size_t words) {
  Reached reached{.mask = std::vector<std::uint32_t>(words)};
  const bool goes_on = follow(place, steps, reached);
  const std::lock_guard lock(place.mutex);
  place.mask = std::move(reached.mask);
  place.closed = reached.closed;
  place.followed = reached.followed;
  place.state = goes_on ? request::MaskState::kReady : request::MaskState::kImpossible;
  place.changed.notify_all();
}

class Matcher final : public CallMatcher {
 public:
  Matcher(std::shared_ptr<Place> place, std::shared_ptr<WorkPool> pool, std::size_t words)
      : place_(std::move(place)), pool_(std::move(pool)), words_(words) {}

  request::MaskState wait(Nanos longest) override {
    std::unique_lock lock(place_->mutex);
    const auto there = [this] { return place_->state != request::MaskState::kComputing; };
    if (longest > Nanos(0)) {
      place_->changed.wait_for(lock, std::chrono::nanoseconds(longest.count), there);
    }
    return place_->state;
  }

  std::span<const std::uint32_t> mask() const override { return place_->mask; }

  bool closed() const override { return place_->closed; }
  std::size_t followed() const override { return place_->followed; }

  void advance(TokenId token) override { go({.tokens = {token}}); }

  void go(Steps steps) {
    {
      const std::lock_guard lock(place_->mutex);
      place_->state = request::MaskState::kComputing;
    }
    const bool posted = pool_->post([place = place_, moved = std::move(steps), words = words_] {
      compute(*place, moved, words);
    });
    if (posted) return;
    const std::lock_guard lock(place_->mutex);
    place_->state = request::MaskState::kImpossible;
  }

 private:
  const std::shared_ptr<Place> place_;
  const std::shared_ptr<WorkPool> pool_;
  const std::size_t words_;
};

class XgrammarConstraint final : public request::Constraint {
 public:
  XgrammarConstraint(request::ConstraintText text, xgrammar::CompiledGrammar grammar,
                     std::vector<std::uint32_t> first, std::shared_ptr<WorkPool> pool)
      : text_(std::move(text)),
        grammar_(std::move(grammar)),
        first_(std::move(first)),
        pool_(std::move(pool)) {}

  const request::ConstraintText& text() const override { return text_; }

  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output) const override {
    auto place = std::make_shared<Place>(grammar_, /*closing=*/false);
    place->mask = first_;
    place->state = request::MaskState::kReady;
    auto matcher = std::make_unique<Matcher>(std::move(place), pool_, first_.size());
    if (!output.empty()) matcher->go({.tokens = std::move(output)});
    return matcher;
  }

 private:
  const request::ConstraintText text_;
  const xgrammar::CompiledGrammar grammar_;
  const std::vector<std::uint32_t> first_;  // what may come first
  const std::shared_ptr<WorkPool> pool_;
};

class XgrammarCallForm final : public CallForm {
 public:
  XgrammarCallForm(xgrammar::CompiledGrammar grammar, std::shared_ptr<WorkPool> pool)
      : grammar_(std::move(grammar)), pool_(std::move(pool)) {}

  bool begins_with(const std::string& text) const override {
    Place place(grammar_, /*closing=*/true);
    Reached reached{.mask = std::vector<std::uint32_t>(words())};
    return follow(place, {.text = text, .tokens = {}}, reached);
  }

  std::unique_ptr<CallMatcher> begin(std::string text, std::vector<TokenId> tokens) const override {
    auto place = std::make_shared<Place>(grammar_, /*closing=*/true);
    auto matcher = std::make_unique<Matcher>(std::move(place), pool_, words());
    matcher->go({std::move(text), std::move(tokens)});
    return matcher;
  }

 private:
  std::size_t words() const { return words_of(grammar_.GetTokenizerInfo()); }

  const xgrammar::CompiledGrammar grammar_;
  const std::shared_ptr<WorkPool> pool_;
};

// XGrammar's structural tags take a schema with white space that has no bound, so that schemas
// within them become grammars before.
void write_schemas_out(nlohmann::ordered_json& format) {
  if (format.is_array()) {
    for (auto& part : format) write_schemas_out(part);
  }
  if (!format.is_object()) return;
  for (const char* const parts : {"format", "content", "elements", "tags"}) {
    if (const auto at = format.find(parts); at != format.end()) write_schemas_out(*at);
  }
  const auto schema = format.find("json_schema");
  if (format.value("type", nlohmann::ordered_json()) != "json_schema" || schema == format.end()) {
    return;
  }
  const auto json = static_cast<xgrammar::JSONFormat>(0);  // kJSON
  format = {
      {"type", "grammar"},
      {"grammar", xgrammar::JSONSchemaToEBNF(with_json_strings(schema->dump()), true, std::nullopt,
                                             std::nullopt, true, kWhiteSpaceMax, json)}};
}

std::string tag_with_grammars(const std::string& text) {
  auto tag = nlohmann::ordered_json::parse(text);
  write_schemas_out(tag);
  return tag.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

xgrammar::CompiledGrammar compile_text(xgrammar::GrammarCompiler& compiler,
                                       const request::ConstraintText& constraint) {
  using request::ConstraintKind;
  switch (constraint.kind) {
    case ConstraintKind::kJson:
      return compiler.CompileJSONSchema(R"({"type":"object","additionalProperties":true})", true,
                                        std::nullopt, std::nullopt, false, kWhiteSpaceMax);
    case ConstraintKind::kJsonSchema:
      return compiler.CompileJSONSchema(with_json_strings(constraint.text), true, std::nullopt,
                                        std::nullopt, true, kWhiteSpaceMax);
    case ConstraintKind::kRegex: return compiler.CompileRegex(plain_regex(constraint.text));
    case ConstraintKind::kGrammar: return compiler.CompileGrammar(constraint.text);
    case ConstraintKind::kStructuralTag:
      return compiler.CompileStructuralTag(tag_with_grammars(constraint.text));
    case ConstraintKind::kBannedWords:
    case ConstraintKind::kCallsInText: break;
  }
  throw std::runtime_error("unknown kind");
}

xgrammar::CompiledGrammar compile_grammar(const PreparedTokens& tokens,
                                          const request::ConstraintText& text) {
  xgrammar::GrammarCompiler compiler(tokens.info, /*max_threads=*/1, /*cache_enabled=*/false);
  return compile_text(compiler, text);
}

// A form that holds from the first token to the last; `grammar` is that of `text`.
Result<Compiled> make_whole(const PreparedTokens& tokens, request::ConstraintText text,
                            xgrammar::CompiledGrammar grammar, std::shared_ptr<WorkPool> matching) {
  xgrammar::GrammarMatcher matcher(grammar);
  std::vector<std::uint32_t> first(words_of(tokens.info));
  if (!fill(matcher, first)) {
    return invalid_argument("no token of the model's vocabulary begins an answer of this form");
  }
  const std::size_t bytes =
      grammar.MemorySizeBytes() + text.text.size() + first.size() * sizeof(std::uint32_t);
  return Compiled{std::make_shared<XgrammarConstraint>(std::move(text), std::move(grammar),
                                                       std::move(first), std::move(matching)),
                  bytes};
}

// A form behind what a model thinks. One that may begin with the mark says itself how an answer
// thinks, and holds from the first token on.
Result<Compiled> compile_behind(std::shared_ptr<const PreparedTokens> tokens,
                                request::ConstraintText text, BehindThinking behind,
                                std::shared_ptr<WorkPool> matching) {
  const xgrammar::CompiledGrammar grammar = compile_grammar(*tokens, behind.form);
  CAUSEWAY_ASSIGN(Compiled form, make_whole(*tokens, behind.form, grammar, std::move(matching)));
  if (!behind.thinks && xgrammar::GrammarMatcher(grammar).AcceptString(behind.open)) return form;
  const auto& vocabulary = tokens->info.GetDecodedVocab();
  std::vector<TokenId> end(tokens->info.GetStopTokenIds());
  const std::size_t bytes = form.bytes + 2 * text.text.size();
  Thoughtful thoughtful = think_before({.text = std::move(text),
                                        .behind = std::move(behind),
                                        .form = std::move(form.constraint),
                                        .tokens = {std::move(tokens), &vocabulary},
                                        .end = std::move(end)});
  return Compiled{std::move(thoughtful.constraint), bytes + thoughtful.bytes};
}

// A form of the calls in an answer.
Result<Compiled> compile_calls(std::shared_ptr<const PreparedTokens> tokens,
                               request::ConstraintText text, std::shared_ptr<WorkPool> matching) {
  CAUSEWAY_ASSIGN(CallsInText calls, parse_calls_in_text(text.text));
  xgrammar::GrammarCompiler compiler(tokens->info, /*max_threads=*/1, /*cache_enabled=*/false);
  xgrammar::CompiledGrammar grammar = compiler.CompileStructuralTag(tag_with_grammars(calls.call));
  const std::size_t bytes = grammar.MemorySizeBytes() + 2 * text.text.size();
  auto form = std::make_unique<XgrammarCallForm>(std::move(grammar), std::move(matching));
  for (const std::string& begin : calls.begins) {
    if (form->begins_with(begin)) continue;
    return invalid_argument("no token of the model's vocabulary goes on behind " + begin);
  }
  const auto& vocabulary = tokens->info.GetDecodedVocab();
  std::vector<TokenId> end(tokens->info.GetStopTokenIds());
  Fenced fenced = fence_answer({.text = std::move(text),
                                .calls = std::move(calls),
                                .form = std::move(form),
                                .tokens = {std::move(tokens), &vocabulary},
                                .end = std::move(end)});
  return Compiled{std::move(fenced.constraint), bytes + fenced.bytes};
}

Result<Compiled> compile_in_text(std::shared_ptr<const PreparedTokens> tokens,
                                 request::ConstraintText text, std::shared_ptr<WorkPool> matching) {
  if (auto behind = parse_behind_thinking(text.text)) {
    return compile_behind(std::move(tokens), std::move(text), *std::move(behind),
                          std::move(matching));
  }
  return compile_calls(std::move(tokens), std::move(text), std::move(matching));
}

}  // namespace

Result<std::shared_ptr<const PreparedTokens>> prepare_tokens(const TokenTable& table) {
  try {
    std::vector<std::int32_t> end(table.end.begin(), table.end.end());
    xgrammar::TokenizerInfo info(table.bytes, xgrammar::VocabType::RAW,
                                 static_cast<int>(table.bytes.size()), std::move(end));
    return std::shared_ptr<const PreparedTokens>(std::make_shared<PreparedTokens>(std::move(info)));
  } catch (const std::exception& error) {
    return exhausted("the vocabulary could not be prepared: " + shown(error.what()));
  }
}

Result<Compiled> compile(std::shared_ptr<const PreparedTokens> tokens, request::ConstraintText text,
                         std::shared_ptr<WorkPool> matching) {
  std::string warned;
  warnings = &warned;
  try {
    Result<Compiled> compiled =
        text.kind == request::ConstraintKind::kCallsInText
            ? compile_in_text(std::move(tokens), std::move(text), std::move(matching))
            : make_whole(*tokens, text, compile_grammar(*tokens, text), std::move(matching));
    warnings = nullptr;
    if (!warned.empty()) return unsupported(shown(warned));
    return compiled;
  } catch (const std::bad_alloc&) {
    warnings = nullptr;
    return exhausted("there is no memory to compile it");
  } catch (const std::exception& error) {
    warnings = nullptr;
    return invalid_argument(shown(error.what()));
  }
}

}  // namespace causeway::grammar

#else

namespace causeway::grammar {

bool available() { return false; }

class PreparedTokens {};

namespace {

Error left_out() {
  return unsupported("this build has no XGrammar, which structured outputs need");
}

}  // namespace

Result<std::shared_ptr<const PreparedTokens>> prepare_tokens(const TokenTable& /*table*/) {
  return left_out();
}

Result<Compiled> compile(std::shared_ptr<const PreparedTokens> /*tokens*/,
                         request::ConstraintText /*text*/, std::shared_ptr<WorkPool> /*matching*/) {
  return left_out();
}

}  // namespace causeway::grammar

#endif
