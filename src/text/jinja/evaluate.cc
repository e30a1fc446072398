// The expressions of interpreter.h.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace causeway::text::jinja {

Value Interpreter::evaluate(const Expr& node) {
  const Deeper deeper(*this);
  line_ = node.line;
  switch (node.kind) {
    case ExprKind::kConstant: return node.constant;
    case ExprKind::kName: return evaluate_name(node);
    case ExprKind::kTuple:
    case ExprKind::kList: return evaluate_display(node);
    case ExprKind::kDict: return evaluate_dict(node);
    case ExprKind::kAttribute: return get_attribute(heap_, evaluate(*node.parts[0]), node.constant);
    case ExprKind::kItem: {
      const Value container = evaluate(*node.parts[0]);
      return get_item(heap_, container, evaluate(*node.parts[1]));
    }
    case ExprKind::kSlice: return evaluate_slice(node);
    case ExprKind::kCall: return evaluate_call(node);
    case ExprKind::kFilter: return apply_filter(node, evaluate(*node.parts[0]));
    case ExprKind::kTest: return evaluate_test(node);
    case ExprKind::kUnary: return evaluate_unary(node);
    case ExprKind::kArithmetic: {
      const Value left = evaluate(*node.parts[0]);
      return arithmetic(heap_, node.op, left, evaluate(*node.parts[1]));
    }
    case ExprKind::kCompare: return evaluate_compare(node);
    case ExprKind::kAnd: {
      Value left = evaluate(*node.parts[0]);
      return truthy(left) ? evaluate(*node.parts[1]) : left;
    }
    case ExprKind::kOr: {
      Value left = evaluate(*node.parts[0]);
      return truthy(left) ? left : evaluate(*node.parts[1]);
    }
    case ExprKind::kConcat: return evaluate_concat(node);
    case ExprKind::kConditional: return evaluate_conditional(node);
    case ExprKind::kMember: break;
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& node) {
  const Value* value = lookup(node.name);
  if (value != nullptr && !value->is_missing()) return *value;
  return Value::undefined_name(tree_.names.text(node.name));
}

Value Interpreter::evaluate_display(const Expr& node) {
  std::vector<Value> items;
  items.reserve(node.parts.size());
  for (const ExprPtr& part : node.parts) items.push_back(evaluate(*part));
  return heap_.list(std::move(items),
                    node.kind == ExprKind::kTuple ? ListKind::kTuple : ListKind::kList);
}

Value Interpreter::evaluate_dict(const Expr& node) {
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i < node.parts.size(); i += 2) {
    Value key = evaluate(*node.parts[i]);
    Value value = evaluate(*node.parts[i + 1]);
    const bool hashable =
        !key.is(Kind::kDict) && !(key.is(Kind::kList) && key.as_list().kind == ListKind::kList);
    if (!hashable) fail("unhashable type: '" + std::string(type_name(key)) + "'");
    const auto existing = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return equal(heap_, entry.first, key);
    });
    if (existing != entries.end()) {
      existing->second = std::move(value);
    } else {
      entries.emplace_back(std::move(key), std::move(value));
    }
  }
  return heap_.dict(std::move(entries));
}

Value Interpreter::evaluate_slice(const Expr& node) {
  const Value container = evaluate(*node.parts[0]);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const ExprPtr& part = node.parts[i + 1];
    bounds[i] = part != nullptr ? evaluate(*part) : Value::none();
  }
  if (node.folded && !can_be_sliced(container)) {
    return Value::undefined_because(Value::view("a constant that cannot be sliced is undefined"));
  }
  return get_slice(heap_, container, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::evaluate_unary(const Expr& node) {
  const Value value = evaluate(*node.parts[0]);
  return node.op == Op::kNot ? Value::boolean(!truthy(value)) : negate(value, node.op);
}

Value Interpreter::evaluate_compare(const Expr& node) {
  Value left = evaluate(*node.parts[0]);
  for (std::size_t i = 0; i < node.ops.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    if (!compare(heap_, node.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Expr& node) {
  Builder out(heap_);
  for (const ExprPtr& part : node.parts) append_string(out, evaluate(*part));
  return out.finish();
}

Value Interpreter::evaluate_conditional(const Expr& node) {
  if (truthy(evaluate(*node.parts[0]))) return evaluate(*node.parts[1]);
  if (node.parts[2] != nullptr) return evaluate(*node.parts[2]);
  return Value::undefined_because(
      Value::view("the inline if-expression evaluated to false and no else section was defined."));
}

// Adds what stands after * and ** to the arguments.
void Interpreter::spread(const CallNode& call, Arguments& into) {
  if (call.star != nullptr) {
    const Value values = evaluate(*call.star);
    const auto& items = elements(heap_, values).items;
    heap_.step(static_cast<std::int64_t>(items.size()));
    into.positional.insert(into.positional.end(), items.begin(), items.end());
  }
  if (call.star_star == nullptr) return;
  const Value values = evaluate(*call.star_star);
  if (!values.is(Kind::kDict)) fail("argument after ** must be a mapping");
  for (const auto& [key, value] : values.as_dict().entries) {
    if (!key.is_string()) fail("keywords must be strings");
    heap_.step();
    into.named.emplace_back(key.text(), value);
  }
}

Arguments Interpreter::arguments(const CallNode& call) {
  Arguments result;
  for (const ExprPtr& argument : call.positional) result.positional.push_back(evaluate(*argument));
  for (const auto& [key, argument] : call.named)
    result.named.emplace_back(key, evaluate(*argument));
  if (call.star != nullptr || call.star_star != nullptr) spread(call, result);
  return result;
}

Value Interpreter::evaluate_call(const Expr& node, const Value* caller) {
  const Value callee = evaluate(*node.parts[0]);
  Arguments given = arguments(*node.call);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  line_ = node.line;
  return call_value(callee, given);
}

Value Interpreter::apply_filter(const Expr& node, const Value& subject) {
  if (node.filter == nullptr) {
    fail("No filter named '" + std::string(node.constant.text()) + "'.", node.line);
  }
  const Arguments given = arguments(*node.call);
  line_ = node.line;
  return node.filter(heap_, subject, given);
}

// The chain of filters of a block: the innermost has no subject of its own.
Value Interpreter::apply_filters(const Expr* node, const Value& innermost) {
  if (node == nullptr) return innermost;
  const Deeper deeper(*this);
  return apply_filter(*node, apply_filters(node->parts[0].get(), innermost));
}

Value Interpreter::evaluate_test(const Expr& node) {
  const Value subject = evaluate(*node.parts[0]);
  if (node.test == nullptr) {
    fail("No test named '" + std::string(node.constant.text()) + "'.", node.line);
  }
  const Arguments given = arguments(*node.call);
  line_ = node.line;
  return Value::boolean(node.test(heap_, subject, given));
}

}  // namespace causeway::text::jinja
