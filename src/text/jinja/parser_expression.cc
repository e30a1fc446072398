#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/parser_state.h"

namespace causeway::text::jinja {
namespace {

// A chain (a + b + c ...) is a tree as high as it is long: long ones occur, so the limit on height
// is a multiple of that on nesting.
constexpr int kHeightPerNesting = 5;

}  // namespace

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

void Parser::add_part(Expr& parent, ExprPtr part) const {
  if (part != nullptr) {
    parent.height = std::max(parent.height, part->height + 1);
    if (parent.height > limits_.nesting_max * kHeightPerNesting) {
      fail_limit("an expression is nested too deeply", parent.line);
    }
  }
  parent.parts.push_back(std::move(part));
}

ExprPtr Parser::binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right, int line) const {
  ExprPtr node = make(kind, line);
  node->op = op;
  add_part(*node, std::move(left));
  add_part(*node, std::move(right));
  return node;
}

ExprPtr Parser::constant(Value value, int line) const {
  ExprPtr node = make(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

ExprPtr Parser::name_of(const Token& token) {
  if (macro_ != nullptr) {
    macro_->uses_varargs |= token.text == "varargs";
    macro_->uses_kwargs |= token.text == "kwargs";
    macro_->uses_caller |= token.text == "caller";
  }
  ExprPtr node = make(ExprKind::kName, token.line);
  node->name = tree_.names.intern(token.text);
  return node;
}

ExprPtr Parser::expression(bool with_conditional) {
  return with_conditional ? conditional() : disjunction();
}

ExprPtr Parser::conditional() {
  const Nested nested(*this);
  const int line = current().line;
  const std::size_t unknown_before = unknown_.size();
  ExprPtr value = disjunction();
  while (skip_name("if")) {
    ExprPtr node = make(ExprKind::kConditional, line);
    add_part(*node, disjunction());
    add_part(*node, std::move(value));
    add_part(*node, skip_name("else") ? conditional() : nullptr);
    value = std::move(node);
    forget_unknown(unknown_before);
  }
  return value;
}

ExprPtr Parser::disjunction() {
  const int line = current().line;
  ExprPtr left = conjunction();
  while (skip_name("or")) {
    left = binary(ExprKind::kOr, Op::kAdd, std::move(left), conjunction(), line);
  }
  return left;
}

ExprPtr Parser::conjunction() {
  const int line = current().line;
  ExprPtr left = negation();
  while (skip_name("and")) {
    left = binary(ExprKind::kAnd, Op::kAdd, std::move(left), negation(), line);
  }
  return left;
}

ExprPtr Parser::negation() {
  const int line = current().line;
  if (!skip_name("not")) return comparison();
  const Nested nested(*this);
  ExprPtr node = make(ExprKind::kUnary, line);
  node->op = Op::kNot;
  add_part(*node, negation());
  return node;
}

bool Parser::compare_operator(Op& op) {
  static constexpr std::pair<std::string_view, Op> kOperators[] = {
      {"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
      {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
  for (const auto& [text, meaning] : kOperators) {
    if (skip_op(text)) {
      op = meaning;
      return true;
    }
  }
  op = Op::kIn;
  if (skip_name("in")) return true;
  if (!is_name("not") || next().kind != TokenKind::kName || next().text != "in") return false;
  op = Op::kNotIn;
  at_ += 2;
  return true;
}

ExprPtr Parser::comparison() {
  const int line = current().line;
  ExprPtr first = sum();
  Op op = Op::kEq;
  if (!compare_operator(op)) return first;
  ExprPtr node = make(ExprKind::kCompare, line);
  add_part(*node, std::move(first));
  do {
    node->ops.push_back(op);
    add_part(*node, sum());
  } while (compare_operator(op));
  return node;
}

ExprPtr Parser::sum() {
  const int line = current().line;
  ExprPtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    const Op op = take().text == "+" ? Op::kAdd : Op::kSub;
    left = binary(ExprKind::kArithmetic, op, std::move(left), concatenation(), line);
  }
  return left;
}

ExprPtr Parser::concatenation() {
  const int line = current().line;
  ExprPtr first = product();
  if (!is_op("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, line);
  add_part(*node, std::move(first));
  while (skip_op("~")) add_part(*node, product());
  return node;
}

ExprPtr Parser::product() {
  const int line = current().line;
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string_view sign = take().text;
    const Op op = sign == "*"    ? Op::kMul
                  : sign == "/"  ? Op::kDiv
                  : sign == "//" ? Op::kFloorDiv
                                 : Op::kMod;
    left = binary(ExprKind::kArithmetic, op, std::move(left), power(), line);
  }
  return left;
}

ExprPtr Parser::power() {
  const int line = current().line;
  ExprPtr left = unary();
  while (skip_op("**"))
    left = binary(ExprKind::kArithmetic, Op::kPow, std::move(left), unary(), line);
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const int line = current().line;
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Nested nested(*this);
    node = make(ExprKind::kUnary, line);
    node->op = take().text == "-" ? Op::kNeg : Op::kPos;
    add_part(*node, unary(/*with_filter=*/false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::primary() {
  const Token token = current();
  switch (token.kind) {
    case TokenKind::kName: {
      take();
      const std::string_view name = token.text;
      if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
      if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
      if (name == "none" || name == "None") return constant(Value::none(), token.line);
      return name_of(token);
    }
    case TokenKind::kString: {
      take();
      if (current().kind != TokenKind::kString)
        return constant(Value::view(token.text), token.line);
      std::string joined(token.text);
      while (current().kind == TokenKind::kString) joined += take().text;
      tree_.strings.push_back(std::move(joined));
      return constant(Value::view(tree_.strings.back()), token.line);
    }
    case TokenKind::kInteger: return constant(Value::integer(take().integer), token.line);
    case TokenKind::kFloat: return constant(Value::number(take().number), token.line);
    default: break;
  }
  if (is_op("[")) return list_display();
  if (is_op("{")) return dict_display();
  if (!skip_op("(")) fail_expected("an expression");
  ExprPtr node = tuple(/*with_conditional=*/true, /*parenthesized=*/true, TupleEnd::kUsual);
  expect_op(")");
  return node;
}

ExprPtr Parser::list_display() {
  ExprPtr node = make(ExprKind::kList, current().line);
  expect_op("[");
  while (!is_op("]")) {
    if (!node->parts.empty()) expect_op(",");
    if (is_op("]")) break;
    add_part(*node, expression());
  }
  expect_op("]");
  return node;
}

ExprPtr Parser::dict_display() {
  ExprPtr node = make(ExprKind::kDict, current().line);
  expect_op("{");
  while (!is_op("}")) {
    if (!node->parts.empty()) expect_op(",");
    if (is_op("}")) break;
    add_part(*node, expression());
    expect_op(":");
    add_part(*node, expression());
  }
  expect_op("}");
  return node;
}

bool Parser::at_tuple_end(TupleEnd end) const {
  const TokenKind kind = current().kind;
  if (kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || is_op(")")) return true;
  return (end == TupleEnd::kIn && is_name("in")) ||
         (end == TupleEnd::kRecursive && is_name("recursive"));
}

ExprPtr Parser::tuple(bool with_conditional, bool parenthesized, TupleEnd end) {
  ExprPtr node = make(ExprKind::kTuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!node->parts.empty()) expect_op(",");
    if (at_tuple_end(end)) break;
    add_part(*node, expression(with_conditional));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return node;
  if (!node->parts.empty()) return std::move(node->parts[0]);
  if (!parenthesized) fail_expected("an expression");
  return node;
}

ExprPtr Parser::postfix(ExprPtr node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      node = subscript(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (is_op("|")) {
      node = filter_chain(std::move(node), /*start_inline=*/false);
    } else if (is_name("is")) {
      node = one_test(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::subscript(ExprPtr node) {
  const int line = current().line;
  if (skip_op(".")) {
    const Token name = take();
    if (name.kind == TokenKind::kInteger) {
      return binary(ExprKind::kItem, Op::kAdd, std::move(node),
                    constant(Value::integer(name.integer), line), line);
    }
    if (name.kind != TokenKind::kName) fail("expected name or number after '.'", name.line);
    ExprPtr attribute = make(ExprKind::kAttribute, line);
    attribute->constant = Value::view(name.text);
    add_part(*attribute, std::move(node));
    return attribute;
  }
  expect_op("[");
  ExprPtr parts[3];
  std::size_t colons = 0;
  while (!is_op("]")) {
    if (skip_op(":")) {
      if (++colons > 2) fail_here("a slice has at most three parts");
    } else {
      if (parts[colons] != nullptr) fail_expected("']'");
      parts[colons] = expression();
    }
  }
  expect_op("]");
  if (colons == 0) {
    if (parts[0] == nullptr) fail_expected("an expression in []");
    return binary(ExprKind::kItem, Op::kAdd, std::move(node), std::move(parts[0]), line);
  }
  ExprPtr slice = make(ExprKind::kSlice, line);
  add_part(*slice, std::move(node));
  for (ExprPtr& part : parts) add_part(*slice, std::move(part));
  return slice;
}

ExprPtr Parser::call(ExprPtr node) {
  ExprPtr result = make(ExprKind::kCall, current().line);
  add_part(*result, std::move(node));
  result->call = call_arguments(*result);
  return result;
}

void Parser::call_argument(CallNode& call, Expr& parent) {
  const auto checked = [&](ExprPtr argument) {
    parent.height = std::max(parent.height, argument->height + 1);
    return argument;
  };
  const int line = current().line;
  bool valid = call.star_star == nullptr;
  if (skip_op("*")) {
    valid = valid && call.star == nullptr;
    call.star = checked(expression());
  } else if (skip_op("**")) {
    call.star_star = checked(expression());
  } else if (current().kind == TokenKind::kName && next().kind == TokenKind::kOperator &&
             next().text == "=") {
    const std::string_view key = take().text;
    expect_op("=");
    call.named.emplace_back(key, checked(expression()));
  } else {
    valid = valid && call.star == nullptr && call.named.empty();
    call.positional.push_back(checked(expression()));
  }
  if (!valid) fail("invalid syntax for function call expression", line);
}

std::unique_ptr<CallNode> Parser::call_arguments(Expr& parent) {
  auto call = std::make_unique<CallNode>();
  expect_op("(");
  bool first = true;
  while (!is_op(")")) {
    if (!first) {
      expect_op(",");
      if (is_op(")")) break;
    }
    first = false;
    call_argument(*call, parent);
  }
  expect_op(")");
  return call;
}

ExprPtr Parser::filter_chain(ExprPtr node, bool start_inline) {
  if (start_inline) node = one_filter(std::move(node));
  while (skip_op("|")) node = one_filter(std::move(node));
  return node;
}

// The name of a filter or a test may have dots, though none that exists has.
Token Parser::expect_dotted() {
  Token name = expect_identifier();
  if (!is_op(".")) return name;
  std::string joined(name.text);
  while (skip_op(".")) joined.append(".").append(expect_identifier().text);
  tree_.strings.push_back(std::move(joined));
  name.text = tree_.strings.back();
  return name;
}

ExprPtr Parser::one_filter(ExprPtr node) {
  const Token name = expect_dotted();
  ExprPtr filter = make(ExprKind::kFilter, name.line);
  filter->constant = Value::view(name.text);
  filter->filter = find_filter(name.text);
  if (filter->filter == nullptr) {
    unknown_.push_back({"No filter named '" + std::string(name.text) + "'.", name.line});
  }
  add_part(*filter, std::move(node));
  filter->call = is_op("(") ? call_arguments(*filter) : std::make_unique<CallNode>();
  return filter;
}

ExprPtr Parser::one_test(ExprPtr node) {
  const int line = take().line;
  const bool negated = skip_name("not");
  const Token name = expect_dotted();
  ExprPtr test = make(ExprKind::kTest, name.line);
  test->constant = Value::view(name.text);
  test->test = find_test(name.text);
  if (test->test == nullptr) {
    unknown_.push_back({"No test named '" + std::string(name.text) + "'.", name.line});
  }
  add_part(*test, std::move(node));
  const TokenKind kind = current().kind;
  const bool literal = kind == TokenKind::kString || kind == TokenKind::kInteger ||
                       kind == TokenKind::kFloat || is_op("[") || is_op("{");
  const bool variable =
      kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and");
  if (is_op("(")) {
    test->call = call_arguments(*test);
  } else {
    test->call = std::make_unique<CallNode>();
    if (is_name("is")) fail_here("You cannot chain multiple tests with is");
    if (literal || variable) {
      test->call->positional.push_back(postfix(primary()));
      test->height = std::max(test->height, test->call->positional[0]->height + 1);
    }
  }
  if (!negated) return test;
  ExprPtr inverse = make(ExprKind::kUnary, line);
  inverse->op = Op::kNot;
  add_part(*inverse, std::move(test));
  return inverse;
}

}  // namespace causeway::text::jinja
