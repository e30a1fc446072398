#include <algorithm>

#include "text/jinja/constant_slices.h"
#include "text/jinja/failure.h"
#include "text/jinja/parser.h"
#include "text/jinja/parser_state.h"

namespace causeway::text::jinja {
namespace {

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd: return "end of template";
    case TokenKind::kData: return "template text";
    case TokenKind::kVariableEnd: return "end of print statement";
    case TokenKind::kBlockEnd: return "end of statement block";
    default: return "'" + std::string(token.text.substr(0, 40)) + "'";
  }
}

bool is_control_end(std::string_view name) {
  static constexpr std::string_view kEnds[] = {
      "elif", "else", "endif", "endfor", "endset", "endmacro", "endcall", "endfilter", "endwith"};
  return std::find(std::begin(kEnds), std::end(kEnds), name) != std::end(kEnds);
}

}  // namespace

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (parser.nesting_ >= parser.limits_.nesting_max) {
    fail_limit("the template is nested deeper than " + std::to_string(parser.limits_.nesting_max) +
                   " parentheses, blocks and operators",
               parser.current().line);
  }
  ++parser.nesting_;
}

Parser::Parser(Tree& tree, const Limits& limits)
    : tree_(tree), limits_(limits), tokens_(tokenize(tree.source, tree.strings)) {}

void Parser::run() {
  tree_.body = body_until({});
  if (!unknown_.empty()) fail(unknown_[0].message, unknown_[0].line);
  tree_.known = {tree_.names.intern("loop"), tree_.names.intern("varargs"),
                 tree_.names.intern("kwargs"), tree_.names.intern("caller")};
}

Token Parser::take() {
  const Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_op(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}
bool Parser::is_name(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}
bool Parser::skip_op(std::string_view text) {
  if (!is_op(text)) return false;
  take();
  return true;
}
bool Parser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}
void Parser::expect_op(std::string_view text) {
  if (!skip_op(text)) fail_expected("'" + std::string(text) + "'");
}
void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_expected("'" + std::string(text) + "'");
}
Token Parser::expect_identifier() {
  if (current().kind != TokenKind::kName) fail_expected("a name");
  return take();
}
void Parser::fail_here(const std::string& message) const { fail(message, current().line); }
void Parser::fail_expected(std::string_view what) const {
  fail_here("expected " + std::string(what) + ", got " + described(current()));
}

std::unique_ptr<Stmt> Parser::new_statement(StmtKind kind, int line) const {
  auto node = std::make_unique<Stmt>();
  node->kind = kind;
  node->line = line;
  return node;
}

// Statements up to a tag of one of the names, which becomes the current token; up to the end of the
// template without names.
Body Parser::body_until(std::initializer_list<std::string_view> ends) {
  const Nested nested(*this);
  Body body;
  while (current().kind != TokenKind::kEnd) {
    const Token token = take();
    if (token.kind == TokenKind::kData) {
      body.push_back(new_statement(StmtKind::kText, token.line));
      body.back()->text = token.text;
    } else if (token.kind == TokenKind::kVariableBegin) {
      body.push_back(new_statement(StmtKind::kOutput, token.line));
      body.back()->exprs.push_back(tuple(true, false, TupleEnd::kUsual));
      mark_constant_slices(*body.back()->exprs.back());
      if (current().kind != TokenKind::kVariableEnd) fail_expected("end of print statement");
      take();
    } else {
      const bool ended = current().kind == TokenKind::kName &&
                         std::find(ends.begin(), ends.end(), current().text) != ends.end();
      if (ended) return body;
      statement(body);
    }
  }
  if (ends.size() > 0) {
    fail_here("unexpected end of template: expected '" + std::string(*(ends.end() - 1)) + "'");
  }
  return body;
}

// The body of a statement: from the end of its tag up to a tag of one of the names.
Body Parser::block_body(std::initializer_list<std::string_view> ends) {
  skip_op(":");
  if (current().kind != TokenKind::kBlockEnd) fail_expected("end of statement block");
  take();
  return body_until(ends);
}

// The same with its end tag, where the loop around it cannot be left from.
Body Parser::loopless_body(std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  const std::size_t unknown_before = unknown_.size();
  Body body = block_body({end});
  take();
  make_unknown_sure(unknown_before);
  loops_ = outer_loops;
  return body;
}

void Parser::statement(Body& body) {
  const Token tag = current();
  if (tag.kind != TokenKind::kName) fail_expected("a tag name");
  take();
  dispatch(body, tag);
  if (current().kind != TokenKind::kBlockEnd) fail_expected("end of statement block");
  take();
}

void Parser::dispatch(Body& body, const Token& tag) {
  const std::string_view name = tag.text;
  const int line = tag.line;
  if (name == "if") {
    body.push_back(if_statement(line));
  } else if (name == "for") {
    body.push_back(for_statement(line));
  } else if (name == "set") {
    body.push_back(set_statement(line));
  } else if (name == "macro") {
    body.push_back(macro_statement(line));
  } else if (name == "call") {
    body.push_back(call_statement(line));
  } else if (name == "filter") {
    body.push_back(filter_statement(line));
  } else if (name == "with") {
    body.push_back(with_statement(line));
  } else if (name == "print") {
    body.push_back(print_statement(line));
  } else if (name == "generation") {
    body.push_back(scope_statement(line, "endgeneration"));
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) fail("'" + std::string(name) + "' outside loop", line);
    body.push_back(new_statement(name == "break" ? StmtKind::kBreak : StmtKind::kContinue, line));
  } else if (is_control_end(name)) {
    fail("'" + std::string(name) + "' closes or continues nothing", line);
  } else {
    fail("Encountered unknown tag '" + std::string(name.substr(0, 40)) + "'.", line);
  }
}

std::unique_ptr<Stmt> Parser::if_statement(int line) {
  const std::size_t unknown_before = unknown_.size();
  auto node = new_statement(StmtKind::kIf, line);
  while (true) {
    node->exprs.push_back(tuple(/*with_conditional=*/false, false, TupleEnd::kUsual));
    node->bodies.push_back(block_body({"elif", "else", "endif"}));
    const std::string_view tag = take().text;
    if (tag == "elif") continue;
    if (tag == "else") {
      node->bodies.push_back(block_body({"endif"}));
      take();
    }
    forget_unknown(unknown_before);
    return node;
  }
}

std::unique_ptr<Stmt> Parser::for_statement(int line) {
  auto node = new_statement(StmtKind::kFor, line);
  node->target = assignment_target(/*with_member=*/false, TupleEnd::kIn);
  expect_name("in");
  node->exprs.push_back(tuple(/*with_conditional=*/false, false, TupleEnd::kRecursive));
  const std::size_t unknown_before = unknown_.size();
  if (skip_name("if")) node->exprs.push_back(expression());
  if (is_name("recursive")) fail_here("recursive loops are not supported");
  ++loops_;
  node->bodies.push_back(block_body({"else", "endfor"}));
  --loops_;
  if (take().text == "else") {
    node->bodies.push_back(block_body({"endfor"}));
    take();
  }
  make_unknown_sure(unknown_before);
  return node;
}

ExprPtr Parser::one_target(bool with_member) {
  if (skip_op("(")) {
    ExprPtr target = assignment_target(with_member, TupleEnd::kUsual);
    expect_op(")");
    return target;
  }
  const Token name = expect_identifier();
  static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                    "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), name.text) != std::end(kConstants)) {
    fail("can't assign to '" + std::string(name.text) + "'", name.line);
  }
  ExprPtr target = name_of(name);
  if (with_member && skip_op(".")) {
    target->kind = ExprKind::kMember;
    target->constant = Value::view(expect_identifier().text);
  }
  return target;
}

ExprPtr Parser::assignment_target(bool with_member, TupleEnd end) {
  const Nested nested(*this);
  ExprPtr node = make(ExprKind::kTuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!node->parts.empty()) expect_op(",");
    if (at_tuple_end(end) || is_op("=")) break;
    add_part(*node, one_target(with_member));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (node->parts.empty()) fail_expected("a name to assign to");
  return is_tuple ? std::move(node) : std::move(node->parts[0]);
}

std::unique_ptr<Stmt> Parser::set_statement(int line) {
  ExprPtr target = assignment_target(/*with_member=*/true, TupleEnd::kUsual);
  if (skip_op("=")) {
    auto node = new_statement(StmtKind::kSet, line);
    node->target = std::move(target);
    node->exprs.push_back(tuple(true, false, TupleEnd::kUsual));
    return node;
  }
  auto node = new_statement(StmtKind::kSetBlock, line);
  node->target = std::move(target);
  const std::size_t unknown_before = unknown_.size();
  node->exprs.push_back(filter_chain(nullptr, /*start_inline=*/false));
  make_unknown_sure(unknown_before);
  node->bodies.push_back(loopless_body("endset"));
  return node;
}

void Parser::signature(MacroNode& macro) {
  const std::size_t unknown_before = unknown_.size();
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const Token name = expect_identifier();
    macro.parameters.push_back(tree_.names.intern(name.text));
    if (skip_op("=")) {
      macro.defaults.push_back(expression());
    } else if (!macro.defaults.empty()) {
      fail("non-default argument follows default argument", name.line);
    }
  }
  expect_op(")");
  make_unknown_sure(unknown_before);
}

void Parser::macro_body(MacroNode& macro, std::string_view end) {
  MacroNode* const outer_macro = std::exchange(macro_, &macro);
  const int outer_loops = std::exchange(loops_, 0);
  const std::size_t unknown_before = unknown_.size();
  macro.body = block_body({end});
  take();
  make_unknown_sure(unknown_before);
  macro_ = outer_macro;
  loops_ = outer_loops;
}

std::unique_ptr<Stmt> Parser::macro_statement(int line) {
  auto node = new_statement(StmtKind::kMacro, line);
  node->macro = std::make_unique<MacroNode>();
  const Token name = expect_identifier();
  node->macro->name = name.text;
  node->macro->name_id = tree_.names.intern(name.text);
  signature(*node->macro);
  macro_body(*node->macro, "endmacro");
  return node;
}

std::unique_ptr<Stmt> Parser::call_statement(int line) {
  auto node = new_statement(StmtKind::kCallBlock, line);
  node->macro = std::make_unique<MacroNode>();
  node->macro->name = "caller";
  if (is_op("(")) signature(*node->macro);
  node->exprs.push_back(expression());
  if (node->exprs[0]->kind != ExprKind::kCall) fail("expected call", line);
  macro_body(*node->macro, "endcall");
  return node;
}

std::unique_ptr<Stmt> Parser::filter_statement(int line) {
  auto node = new_statement(StmtKind::kFilterBlock, line);
  const std::size_t unknown_before = unknown_.size();
  node->exprs.push_back(filter_chain(nullptr, /*start_inline=*/true));
  make_unknown_sure(unknown_before);
  node->bodies.push_back(loopless_body("endfilter"));
  return node;
}

std::unique_ptr<Stmt> Parser::with_statement(int line) {
  auto node = new_statement(StmtKind::kWith, line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node->targets.empty()) expect_op(",");
    node->targets.push_back(one_target(/*with_member=*/false));
    expect_op("=");
    node->exprs.push_back(expression());
  }
  const std::size_t unknown_before = unknown_.size();
  node->bodies.push_back(block_body({"endwith"}));
  take();
  make_unknown_sure(unknown_before);
  return node;
}

std::unique_ptr<Stmt> Parser::scope_statement(int line, std::string_view end) {
  auto node = new_statement(StmtKind::kScope, line);
  node->bodies.push_back(loopless_body(end));
  return node;
}

std::unique_ptr<Stmt> Parser::print_statement(int line) {
  auto node = new_statement(StmtKind::kOutput, line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node->exprs.empty()) expect_op(",");
    node->exprs.push_back(expression());
    mark_constant_slices(*node->exprs.back());
  }
  return node;
}

NameId Names::intern(std::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<NameId>(texts_.size());
  texts_.emplace_back(name);
  ids_.emplace(texts_.back(), id);
  return id;
}

NameId Names::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? -1 : found->second;
}

std::unique_ptr<const Tree> parse(std::string_view source, const Limits& limits) {
  auto tree = std::make_unique<Tree>();
  tree->source = normalize_source(source);
  Parser(*tree, limits).run();
  return tree;
}

}  // namespace causeway::text::jinja
