// Forms of answers of models that think first: what a model thinks is free, and the form holds
// behind it, to the end.
//
//   start ── the opening mark, one token ──▶ thinking ── the closing mark ──▶ form, and the end
//     └───────────── a token that the form begins with ──────────────────────▶ form
//
// An answer whose prompt opened the thinking begins within it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "request/constraint.h"

namespace causeway::grammar {

struct BehindThinking {
  request::ConstraintText form;
  std::string open = {}, close = {};  // the marks; the first byte of each occurs in it once
  // Tokens that write the marks, though they may be special; -1: there are none, and then the model
  // cannot open its thinking itself.
  TokenId open_token = -1, close_token = -1;
  bool thinks = false;  // the answer begins within thinking

  bool operator==(const BehindThinking&) const = default;
};

// As text that crosses processes, of the kind kCallsInText: free text, and what is behind a mark.
request::ConstraintText to_constraint(const BehindThinking& behind);
// Accepts any text; nullopt: it is none of these.
std::optional<BehindThinking> parse_behind_thinking(const std::string& text);

struct ThinkingAnswer {
  request::ConstraintText text;
  BehindThinking behind;                            // what `text` says
  std::shared_ptr<const request::Constraint> form;  // of `behind.form`
  // What each token of the vocabulary writes; "": it is special.
  std::shared_ptr<const std::vector<std::string>> tokens;
  std::vector<TokenId> end;  // tokens that end an answer: not while it thinks
};

struct Thoughtful {
  std::shared_ptr<const request::Constraint> constraint;
  std::size_t bytes = 0;  // of its masks
};

// Takes time in proportion to the vocabulary. Within thinking a token that completes the closing
// mark and goes on is not allowed.
Thoughtful think_before(ThinkingAnswer answer);

}  // namespace causeway::grammar
