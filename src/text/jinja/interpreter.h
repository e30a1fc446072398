// Walks the tree of a template and writes its output. One object a rendering, one thread. Throws
// Failure; the line is that of the node reached last.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/heap.h"

namespace causeway::text::jinja {

// The variables of a block that has its own; looked up from the innermost outwards.
struct Scope final : Object {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> variables;
};

class Interpreter {
 public:
  // `tree` and `heap` must outlive the interpreter; now_unix_seconds is for strftime_now.
  Interpreter(const Tree& tree, Heap& heap, std::int64_t now_unix_seconds);

  // Sets a variable before running; does nothing when the template never mentions it.
  void set_global(std::string_view name, Value value);
  std::string run();
  int line() const { return line_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class Deeper;
  class InScope;
  class Captured;

  // Statements (interpreter.cc).
  Flow execute(const Body& body);
  Flow execute(const Stmt& node);
  Flow execute_if(const Stmt& node);
  Flow execute_for(const Stmt& node);
  const List& loop_items(const Stmt& node);
  void execute_filter_block(const Stmt& node);
  void execute_set_block(const Stmt& node);
  void execute_macro(const Stmt& node);
  void execute_call_block(const Stmt& node);
  Flow execute_with(const Stmt& node);
  Value captured(const Body& body);
  void assign(const Expr& target, const Value& value);
  void write(std::string_view text);
  void write(const Value& value);

  // Variables.
  const Value* lookup(NameId name) const;
  void store(NameId name, Value value);

  // Expressions (evaluate.cc).
  Value evaluate(const Expr& node);
  Value evaluate_name(const Expr& node);
  Value evaluate_display(const Expr& node);
  Value evaluate_dict(const Expr& node);
  Value evaluate_slice(const Expr& node);
  Value evaluate_unary(const Expr& node);
  Value evaluate_compare(const Expr& node);
  Value evaluate_concat(const Expr& node);
  Value evaluate_conditional(const Expr& node);
  Value evaluate_call(const Expr& node, const Value* caller = nullptr);
  Value apply_filter(const Expr& node, const Value& subject);
  Value apply_filters(const Expr* node, const Value& innermost);
  Value evaluate_test(const Expr& node);
  Arguments arguments(const CallNode& call);
  void spread(const CallNode& call, Arguments& into);

  // Calls (call_value.cc).
  Value call_value(const Value& callee, Arguments& arguments);
  Value call_macro(const Macro& macro, Arguments& arguments);
  void bind_macro(const MacroNode& node, Arguments& arguments);
  Value call_function(Function function, const Arguments& arguments);
  Value strftime_now(const Arguments& arguments);

  const Tree& tree_;
  Heap& heap_;
  const std::int64_t now_unix_seconds_;
  Scope* scope_;
  std::string output_;
  Builder* capture_ = nullptr;    // where output goes instead, within macros and block assignments
  Scope* free_scopes_ = nullptr;  // to be used again, linked by `parent`
  std::int64_t macros_made_ = 0;
  int line_ = 0;
  int depth_ = 0;
  int call_depth_ = 0;
};

// Bounds the stack: counts evaluations within each other.
class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& interpreter);
  ~Deeper() { --interpreter_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& interpreter_;
};

// A new innermost scope inside `parent`, for as long as this lives: then used again, unless a macro
// was made that may still look into it.
class Interpreter::InScope {
 public:
  InScope(Interpreter& interpreter, Scope* parent);
  ~InScope();
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
  Scope* inner_;
  std::int64_t macros_before_;
};

// Output goes into a string for as long as this lives.
class Interpreter::Captured {
 public:
  explicit Captured(Interpreter& interpreter)
      : interpreter_(interpreter),
        text_(interpreter.heap_),
        outer_(std::exchange(interpreter.capture_, &text_)) {}
  ~Captured() { interpreter_.capture_ = outer_; }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  Value finish() { return text_.finish(); }

 private:
  Interpreter& interpreter_;
  Builder text_;
  Builder* outer_;
};

}  // namespace causeway::text::jinja
