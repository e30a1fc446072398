// What an answer must match (docs/design/structured.md): a grammar, as text that crosses processes,
// and as what an engine follows token by token. How it is compiled is src/grammar's business.
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

// One output's place in its grammar. One thread at a time; what takes long is computed elsewhere.
class TokenMatcher {
 public:
  virtual ~TokenMatcher() = default;

  // Waits for what is computed, `longest` at the most.
  virtual MaskState wait(Nanos longest) = 0;
  // After kReady, until advance(): bit t % 32 of word t / 32 says that token t may come next, of
  // the model's whole vocabulary. Where the output is complete these are its end tokens.
  virtual std::span<const std::uint32_t> mask() const = 0;
  // After kReady: this token has come. Does not block.
  virtual void advance(TokenId token) = 0;
};

// Compiled, for one model. Immutable; any thread.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // To compile it again in another process.
  virtual const ConstraintText& text() const = 0;
  // Behind `output`, which was delivered before: empty for one that begins. Does not block.
  virtual std::unique_ptr<TokenMatcher> begin(std::vector<TokenId> output) const = 0;
};

}  // namespace causeway::request
