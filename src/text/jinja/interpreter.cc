#include "text/jinja/interpreter.h"

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace causeway::text::jinja {

Interpreter::Deeper::Deeper(Interpreter& interpreter) : interpreter_(interpreter) {
  interpreter.heap_.step();
  if (interpreter.depth_ >= interpreter.heap_.limits().evaluation_depth_max) {
    fail_limit("the template evaluates more than " +
               std::to_string(interpreter.heap_.limits().evaluation_depth_max) +
               " operations within each other");
  }
  ++interpreter.depth_;
}

Interpreter::InScope::InScope(Interpreter& interpreter, Scope* parent)
    : interpreter_(interpreter),
      outer_(interpreter.scope_),
      macros_before_(interpreter.macros_made_) {
  inner_ = interpreter.free_scopes_;
  if (inner_ != nullptr) {
    interpreter.free_scopes_ = inner_->parent;
  } else {
    inner_ = interpreter.heap_.make<Scope>();
  }
  inner_->parent = parent;
  interpreter.scope_ = inner_;
}

Interpreter::InScope::~InScope() {
  interpreter_.scope_ = outer_;
  if (interpreter_.macros_made_ != macros_before_) return;
  inner_->variables.clear();
  inner_->parent = std::exchange(interpreter_.free_scopes_, inner_);
}

Interpreter::Interpreter(const Tree& tree, Heap& heap, std::int64_t now_unix_seconds)
    : tree_(tree), heap_(heap), now_unix_seconds_(now_unix_seconds), scope_(heap.make<Scope>()) {
  set_global("raise_exception", Value::function(Function::kRaiseException));
  set_global("strftime_now", Value::function(Function::kStrftimeNow));
  set_global("namespace", Value::function(Function::kNamespace));
  set_global("range", Value::function(Function::kRange));
  set_global("dict", Value::function(Function::kDict));
}

void Interpreter::set_global(std::string_view name, Value value) {
  const NameId id = tree_.names.find(name);
  if (id >= 0) store(id, std::move(value));
}

std::string Interpreter::run() {
  execute(tree_.body);
  return std::move(output_);
}

const Value* Interpreter::lookup(NameId name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    heap_.step();
    for (const auto& [id, value] : scope->variables) {
      if (id == name) return &value;
    }
  }
  return nullptr;
}

void Interpreter::store(NameId name, Value value) {
  for (auto& [id, current] : scope_->variables) {
    if (id == name) {
      current = std::move(value);
      return;
    }
  }
  if (scope_->variables.size() == scope_->variables.capacity()) {
    heap_.grow((scope_->variables.size() + 1) * sizeof(scope_->variables[0]));
  }
  scope_->variables.emplace_back(name, std::move(value));
}

void Interpreter::write(std::string_view text) {
  if (capture_ != nullptr) return capture_->append(text);
  heap_.work_bytes(text.size());
  const std::int64_t most = heap_.limits().output_bytes_max;
  if (static_cast<std::int64_t>(output_.size() + text.size()) > most) {
    fail_limit("the template's output is longer than " + std::to_string(most) + " bytes");
  }
  output_.append(text);
}

void Interpreter::write(const Value& value) {
  if (value.is_string()) return write(value.text());
  write(to_string(heap_, value).text());
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Stmt& node) {
  const Deeper deeper(*this);
  line_ = node.line;
  switch (node.kind) {
    case StmtKind::kText: write(node.text); return Flow::kNormal;
    case StmtKind::kOutput:
      for (const ExprPtr& expr : node.exprs) write(evaluate(*expr));
      return Flow::kNormal;
    case StmtKind::kIf: return execute_if(node);
    case StmtKind::kFor: return execute_for(node);
    case StmtKind::kSet: assign(*node.target, evaluate(*node.exprs[0])); return Flow::kNormal;
    case StmtKind::kSetBlock: execute_set_block(node); return Flow::kNormal;
    case StmtKind::kMacro: execute_macro(node); return Flow::kNormal;
    case StmtKind::kCallBlock: execute_call_block(node); return Flow::kNormal;
    case StmtKind::kFilterBlock: execute_filter_block(node); return Flow::kNormal;
    case StmtKind::kWith: return execute_with(node);
    case StmtKind::kScope: {
      const InScope scope(*this, scope_);
      return execute(node.bodies[0]);
    }
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& node) {
  for (std::size_t i = 0; i < node.exprs.size(); ++i) {
    if (truthy(evaluate(*node.exprs[i]))) return execute(node.bodies[i]);
  }
  if (node.bodies.size() > node.exprs.size()) return execute(node.bodies.back());
  return Flow::kNormal;
}

// What the loop runs over: the elements that pass its `if`.
const List& Interpreter::loop_items(const Stmt& node) {
  const Value iterable = evaluate(*node.exprs[0]);
  const List& all = elements(heap_, iterable);
  if (node.exprs.size() == 1) return all;
  std::vector<Value> chosen;
  for (const Value& item : all.items) {
    const InScope scope(*this, scope_);
    assign(*node.target, item);
    if (truthy(evaluate(*node.exprs[1]))) chosen.push_back(item);
  }
  return heap_.list(std::move(chosen)).as_list();
}

Interpreter::Flow Interpreter::execute_for(const Stmt& node) {
  const List& items = loop_items(node);
  Loop* loop = heap_.make<Loop>();
  loop->items = &items;
  Scope* const outer = scope_;
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    heap_.step();
    const InScope scope(*this, outer);
    loop->index = i;
    store(tree_.known.loop, Value::loop(loop));
    assign(*node.target, items.items[i]);
    if (execute(node.bodies[0]) == Flow::kBreak) break;
  }
  if (items.items.empty() && node.bodies.size() > 1) {
    const InScope scope(*this, outer);
    return execute(node.bodies[1]);
  }
  return Flow::kNormal;
}

Value Interpreter::captured(const Body& body) {
  const InScope scope(*this, scope_);
  Captured capture(*this);
  execute(body);
  return capture.finish();
}

// Elsewhere Jinja makes text of what it prints; the result of these filters has to be text.
void Interpreter::execute_filter_block(const Stmt& node) {
  const Value result = apply_filters(node.exprs[0].get(), captured(node.bodies[0]));
  if (!result.is_string()) {
    fail("the filters of a filter block give " + std::string(type_name(result)) + ", not a string");
  }
  write(result.text());
}

void Interpreter::execute_set_block(const Stmt& node) {
  assign(*node.target, apply_filters(node.exprs[0].get(), captured(node.bodies[0])));
}

void Interpreter::execute_macro(const Stmt& node) {
  ++macros_made_;
  Macro* macro = heap_.make<Macro>();
  macro->node = node.macro.get();
  macro->closure = scope_;
  store(node.macro->name_id, Value::macro(macro));
}

void Interpreter::execute_call_block(const Stmt& node) {
  ++macros_made_;
  Macro* caller = heap_.make<Macro>();
  caller->node = node.macro.get();
  caller->closure = scope_;
  const Value value = Value::macro(caller);
  write(evaluate_call(*node.exprs[0], &value));
}

Interpreter::Flow Interpreter::execute_with(const Stmt& node) {
  std::vector<Value> values;
  for (const ExprPtr& expr : node.exprs) values.push_back(evaluate(*expr));
  const InScope scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*node.targets[i], values[i]);
  return execute(node.bodies[0]);
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) return store(target.name, value);
  if (target.kind == ExprKind::kMember) {
    const Value* owner = lookup(target.name);
    if (owner == nullptr || !owner->is(Kind::kNamespace)) {
      fail("cannot assign attribute on non-namespace object");
    }
    Dict& members = owner->as_dict();
    for (auto& [key, member] : members.entries) {
      if (key.text() == target.constant.text()) {
        member = value;
        return;
      }
    }
    heap_.grow(sizeof(members.entries[0]));
    members.entries.emplace_back(target.constant, value);
    return;
  }
  const std::vector<Value>& items = elements(heap_, value).items;
  if (items.size() != target.parts.size()) {
    fail("cannot unpack " + std::to_string(items.size()) + " values into " +
         std::to_string(target.parts.size()) + " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

}  // namespace causeway::text::jinja
