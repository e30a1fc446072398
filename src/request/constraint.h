// What an answer must match (docs/design/structured.md): a grammar, as text that crosses processes,
// and as an object that an engine follows token by token. src/grammar compiles it.
//
//   Constraint ── begin(output so far) ──▶ TokenMatcher: wait() → mask() → advance(token) → …
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace causeway::request {

enum class ConstraintKind : std::uint8_t {
  kJson,           // any JSON object; no text
  kJsonSchema,     // a JSON schema
  kRegex,          // a regular expression that the whole answer matches
  kGrammar,        // EBNF with a rule `root`
  kStructuralTag,  // XGrammar's JSON of literal text and schemas: forced calls of tools
  kBannedWords,    // no grammar, but words that must not come (banned_words.h)
  kCallsInText,    // free text, in which calls of tools have a form (grammar/calls_in_text.h)
};

struct ConstraintText {
  ConstraintKind kind = ConstraintKind::kJson;
  std::string text;

  bool operator==(const ConstraintText&) const = default;
};

enum class MaskState : std::uint8_t {
  kComputing,   // on another thread
  kReady,       // mask() says what may come next
  kImpossible,  // the output does not match, or no token of the vocabulary continues it
};

// The position of one output in its grammar. One thread at a time; long computations run elsewhere.
class TokenMatcher {
 public:
  virtual ~TokenMatcher() = default;

  // Waits for the computation, for `longest` at most.
  virtual MaskState wait(Nanos longest) = 0;
  // After kReady, until advance(): bit t % 32 of word t / 32 says that token t may come next, of
  // the model's whole vocabulary. Where the output is complete these are its end tokens. Empty:
  // every token may.
  virtual std::span<const std::uint32_t> mask() const = 0;
  // After kReady: this token was chosen. Does not block.
  virtual void advance(TokenId token) = 0;
};

// A compiled grammar for one model. Immutable; any thread.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // The text from which another process can compile it again.
  virtual const ConstraintText& text() const = 0;
  // Makes a matcher that continues after `output`, which was delivered before; empty for a new
  // answer. Does not block.
  virtual std::unique_ptr<TokenMatcher> begin(std::vector<TokenId> output) const = 0;
};

}  // namespace causeway::request
