// The tree of a template. Built once by the parser, then only read, by any number of threads: its
// constants are views (Value without an owner) of text that the tree owns.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/call.h"
#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

// Variables are looked up by number; the names that a template uses are numbered as they occur.
using NameId = int;

class Names {
 public:
  NameId intern(std::string_view name);
  // -1 when the template never mentions the name.
  NameId find(std::string_view name) const;
  std::string_view text(NameId id) const { return texts_[static_cast<std::size_t>(id)]; }
  std::size_t count() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, NameId> ids_;
};

enum class ExprKind : std::uint8_t {
  kConstant,    // constant
  kName,        // name
  kTuple,       // parts
  kList,        // parts
  kDict,        // parts: key, value, key, value, ...
  kAttribute,   // parts[0] . constant
  kItem,        // parts[0] [ parts[1] ]
  kSlice,       // parts[0] [ parts[1] : parts[2] : parts[3] ], null where left out
  kCall,        // parts[0] ( call )
  kFilter,      // parts[0] | constant ( call ); parts[0] null in filter blocks
  kTest,        // parts[0] is constant ( call )
  kUnary,       // op parts[0]
  kArithmetic,  // parts[0] op parts[1]
  kCompare,     // parts[0] ops[0] parts[1] ops[1] parts[2] ...
  kAnd,
  kOr,
  kConcat,       // parts[0] ~ parts[1] ~ ...
  kConditional,  // parts[1] if parts[0] else parts[2] (null: undefined)
  kMember,       // an assignment target: name . constant
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallNode {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string_view, ExprPtr>> named;
  ExprPtr star, star_star;
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  Op op = Op::kAdd;
  int line = 0;
  bool folded = false;  // of kSlice: what cannot be sliced is undefined (constant_slices.h)
  int height = 1;       // of the tree below: bounded, so that walks over it are
  NameId name = -1;
  Value constant;
  std::vector<ExprPtr> parts;
  std::vector<Op> ops;
  std::unique_ptr<CallNode> call;
  Filter filter = nullptr;  // null: unknown, an error when reached
  Test test = nullptr;
};

enum class StmtKind : std::uint8_t {
  kText,         // text
  kOutput,       // exprs
  kIf,           // exprs: conditions; bodies: one each, then the else body
  kFor,          // target in exprs[0] if exprs[1]; bodies: loop, else
  kSet,          // target = exprs[0]
  kSetBlock,     // target = bodies[0], through the filter exprs[0] (may be null)
  kMacro,        // macro
  kCallBlock,    // exprs[0] is a call; macro is its caller
  kFilterBlock,  // bodies[0] through the filter exprs[0]
  kWith,         // targets[i] = exprs[i] within bodies[0]
  kScope,        // bodies[0] with variables of its own
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct MacroNode {
  std::string_view name;
  NameId name_id = -1;
  std::vector<NameId> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string_view text;
  ExprPtr target;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Body> bodies;
  std::unique_ptr<MacroNode> macro;
};

// Names that the interpreter itself sets.
struct KnownNames {
  NameId loop = -1, varargs = -1, kwargs = -1, caller = -1;
};

struct Tree {
  std::string source;               // what texts are views of
  std::deque<std::string> strings;  // unescaped literals
  Names names;
  KnownNames known;
  Body body;
};

}  // namespace causeway::text::jinja
