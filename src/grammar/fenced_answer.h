// Answers of free text in which calls of tools have a form. While text goes on nothing is computed:
// what may come next depends on a few bytes before it (CallWatch), and that is nearly always every
// token. Within a call the matcher of its grammar says it.
//
//   text ── a token completes a mark ──▶ call ── its grammar closes ──▶ text, or the end
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "grammar/calls_in_text.h"
#include "request/constraint.h"

namespace causeway::grammar {

// The position in one call.
class CallMatcher : public request::TokenMatcher {
 public:
  // After kReady: the call is complete, and nothing may follow in it; mask() says nothing then.
  virtual bool closed() const = 0;
  // After kReady: how many tokens of begin() belong to the call.
  virtual std::size_t followed() const = 0;
};

// The grammar of a call, or of a list of them. Immutable; any thread.
class CallForm {
 public:
  virtual ~CallForm() = default;
  // Whether a call may begin so. Takes as long as it takes.
  virtual bool begins_with(const std::string& text) const = 0;
  // A call that begins with `text` and goes on with `tokens`, up to the one that closes it. Does
  // not block.
  virtual std::unique_ptr<CallMatcher> begin(std::string text,
                                             std::vector<TokenId> tokens) const = 0;
};

struct FencedAnswer {
  request::ConstraintText text;
  CallsInText calls;  // what `text` says
  std::unique_ptr<const CallForm> form;
  // What each token of the vocabulary writes; "": it is special.
  std::shared_ptr<const std::vector<std::string>> tokens;
  std::vector<TokenId> end;  // tokens that end an answer
};

struct Fenced {
  std::shared_ptr<const request::Constraint> constraint;
  std::size_t bytes = 0;  // of its masks
};

// Takes time in proportion to the vocabulary. Tokens that complete a mark and go on as no call does
// are not allowed, nor are those that close a call and go on.
Fenced fence_answer(FencedAnswer answer);

}  // namespace causeway::grammar
