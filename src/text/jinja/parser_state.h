// The parser's inside: a recursive descent over the tokens, in two files (parser_expression.cc,
// parser_statement.cc). Precedence, from loose to tight, as Jinja has it:
//   a if c else b | or | and | not | comparisons, in | + - | ~ | * / // % | ** | unary - + |
//   postfix . [] () | filters and tests
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace causeway::text::jinja {

class Parser {
 public:
  Parser(Tree& tree, const Limits& limits);
  void run();

 private:
  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take();
  bool is_op(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool skip_op(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_op(std::string_view text);
  void expect_name(std::string_view text);
  Token expect_identifier();
  [[noreturn]] void fail_here(const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view what) const;

  // Counts nesting for as long as it lives.
  class Nested;

  // Expressions.
  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right, int line) const;
  void add_part(Expr& parent, ExprPtr part) const;
  ExprPtr constant(Value value, int line) const;
  ExprPtr name_of(const Token& token);
  ExprPtr expression(bool with_conditional = true);
  ExprPtr conditional();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr list_display();
  ExprPtr dict_display();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr call(ExprPtr node);
  std::unique_ptr<CallNode> call_arguments(Expr& parent);
  void call_argument(CallNode& call, Expr& parent);
  ExprPtr filter_chain(ExprPtr node, bool start_inline);
  Token expect_dotted();
  ExprPtr one_filter(ExprPtr node);
  ExprPtr one_test(ExprPtr node);
  enum class TupleEnd { kUsual, kIn, kRecursive };
  ExprPtr tuple(bool with_conditional, bool parenthesized, TupleEnd end);
  bool at_tuple_end(TupleEnd end) const;
  bool compare_operator(Op& op);

  // Statements.
  Body body_until(std::initializer_list<std::string_view> ends);
  Body block_body(std::initializer_list<std::string_view> ends);
  Body loopless_body(std::string_view end);
  void statement(Body& body);
  void dispatch(Body& body, const Token& tag);
  std::unique_ptr<Stmt> new_statement(StmtKind kind, int line) const;
  std::unique_ptr<Stmt> if_statement(int line);
  std::unique_ptr<Stmt> for_statement(int line);
  std::unique_ptr<Stmt> set_statement(int line);
  std::unique_ptr<Stmt> macro_statement(int line);
  std::unique_ptr<Stmt> call_statement(int line);
  std::unique_ptr<Stmt> filter_statement(int line);
  std::unique_ptr<Stmt> with_statement(int line);
  std::unique_ptr<Stmt> scope_statement(int line, std::string_view end);
  std::unique_ptr<Stmt> print_statement(int line);
  void signature(MacroNode& macro);
  void macro_body(MacroNode& macro, std::string_view end);
  ExprPtr assignment_target(bool with_member, TupleEnd end);
  ExprPtr one_target(bool with_member);

  // Unknown filters and tests are errors of the template, except where Jinja only notices them when
  // they are reached: under an `if`, but not within a loop or another block with variables of its
  // own, which makes sure of those that it has.
  struct Unknown {
    std::string message;
    int line;
    bool sure = false;
  };
  void forget_unknown(std::size_t first) {
    const auto begin = unknown_.begin() + static_cast<std::ptrdiff_t>(first);
    unknown_.erase(std::remove_if(begin, unknown_.end(), [](const Unknown& u) { return !u.sure; }),
                   unknown_.end());
  }
  void make_unknown_sure(std::size_t first) {
    for (std::size_t i = first; i < unknown_.size(); ++i) unknown_[i].sure = true;
  }

  Tree& tree_;
  const Limits& limits_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;               // within how many loops of the innermost macro
  MacroNode* macro_ = nullptr;  // the innermost macro
  std::vector<Unknown> unknown_;
};

// Throws when the nesting is too deep.
class Parser::Nested {
 public:
  explicit Nested(Parser& parser);
  ~Nested() { --parser_.nesting_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Parser& parser_;
};

}  // namespace causeway::text::jinja
