// A value of the template language: what Python's object is to Jinja, as far as templates use it.
//
//   Value (32 bytes): kind | payload (16 bytes) | owner of the characters of a built string
//
// Copying is cheap: strings are views, of the input or of the template (owner null: they outlive
// the rendering) or of a counted body that the rendering built; containers are pointers to objects
// that the Heap (heap.h) keeps until the rendering ends. Lists and dictionaries do not change once
// a template can see them. A value belongs to one rendering and so to one thread; constants of the
// template are views and are shared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::text::jinja {

// Python's integers are unbounded; beyond 127 bits ours are an error.
using Int = __int128;

class Heap;
class Interpreter;
struct MacroNode;
struct Scope;

enum class Kind : std::uint8_t {
  kMissing,  // internal: no argument was given; never visible to a template
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kBytes,  // what str.encode gives
  kList,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kMethod,
  kFunction,
};

// A string built while rendering, counted because most are short-lived (heap.h).
struct StringBody {
  Heap* heap;
  std::int64_t references;
  std::string text;
};
void release(StringBody* body);

struct List;
struct Dict;
struct Loop;
struct Macro;
struct Method;

// raise_exception and its like: functions that every template can call.
enum class Function : std::uint8_t { kRaiseException, kStrftimeNow, kNamespace, kRange, kDict };

class Value {
 public:
  Value() : kind_(Kind::kUndefined), view_{nullptr, 0} {}
  Value(const Value& other) : kind_(other.kind_), detail_(other.detail_), owner_(other.owner_) {
    view_ = other.view_;
    if (owner_ != nullptr) ++owner_->references;
  }
  Value(Value&& other) noexcept
      : kind_(other.kind_), detail_(other.detail_), owner_(std::exchange(other.owner_, nullptr)) {
    view_ = other.view_;
    if (owner_ != nullptr) other = Value();
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(detail_, other.detail_);
    std::swap(view_, other.view_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~Value() {
    if (owner_ != nullptr && --owner_->references == 0) release(owner_);
  }

  static Value missing() { return Value(Kind::kMissing); }
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value) { return Value(Kind::kBool, Payload::of(value ? 1 : 0)); }
  static Value integer(Int value);
  static Value number(double value);
  // The bytes of a string.
  static Value bytes(const Value& text);
  // A view of characters that outlive the rendering.
  static Value view(std::string_view text) { return Value(Kind::kString, text, nullptr); }
  // Takes over one reference to `body`, of which `text` is a part.
  static Value owned(std::string_view text, StringBody* body) {
    return Value(Kind::kString, text, body);
  }
  // A part of the characters of this string, sharing them; markup when this is.
  Value part(std::string_view text) const;
  // The same string as markup (`safe`, Python's Markup): what is joined to it by + or % is escaped.
  Value as_markup() const;
  Value without_markup() const;
  static Value list(List* items) { return Value(Kind::kList, Payload::of_pointer(items)); }
  static Value dict(Dict* entries) { return Value(Kind::kDict, Payload::of_pointer(entries)); }
  static Value name_space(Dict* members) {
    return Value(Kind::kNamespace, Payload::of_pointer(members));
  }
  static Value loop(Loop* state) { return Value(Kind::kLoop, Payload::of_pointer(state)); }
  static Value macro(Macro* macro) { return Value(Kind::kMacro, Payload::of_pointer(macro)); }
  static Value method(Method* bound) { return Value(Kind::kMethod, Payload::of_pointer(bound)); }
  static Value function(Function which) {
    return Value(Kind::kFunction, Payload::of(static_cast<std::uint64_t>(which)));
  }
  // Undefined: a variable `name`; attribute or element `name` (a string) of a value of kind `of`;
  // or with a message of its own (a string).
  static Value undefined_name(std::string_view name);
  static Value undefined_member(const Value& of, const Value& name);
  static Value undefined_because(const Value& message);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return kind_ == Kind::kString && detail_ != 0; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_numeric() const { return is_integral() || kind_ == Kind::kFloat; }

  // Preconditions: the kind fits (checked by callers, who report to the user).
  bool as_bool() const { return payload_.low != 0; }
  Int as_int() const;                                                 // also of a boolean
  double as_double() const;                                           // of any number
  std::string_view text() const { return {view_.data, view_.size}; }  // also of bytes
  List& as_list() const { return *static_cast<List*>(pointer_()); }
  Dict& as_dict() const { return *static_cast<Dict*>(pointer_()); }  // also of a namespace
  Loop& as_loop() const { return *static_cast<Loop*>(pointer_()); }
  Macro& as_macro() const { return *static_cast<Macro*>(pointer_()); }
  Method& as_method() const { return *static_cast<Method*>(pointer_()); }
  Function as_function() const { return static_cast<Function>(payload_.low); }

  // Why this is undefined, as Jinja words it.
  std::string undefined_message() const;

 private:
  struct View {
    const char* data;
    std::size_t size;
  };
  struct Payload {
    std::uint64_t low, high;
    static Payload of(std::uint64_t low) { return {low, 0}; }
    static Payload of_pointer(void* pointer) {
      return {static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer)), 0};
    }
  };
  explicit Value(Kind kind) : Value(kind, Payload{0, 0}) {}
  Value(Kind kind, Payload payload) : kind_(kind), payload_(payload) {}
  Value(Kind kind, std::string_view text, StringBody* owner)
      : kind_(kind), owner_(owner), view_{text.data(), text.size()} {}
  void* pointer_() const {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(payload_.low));
  }

  Kind kind_;
  // kUndefined: 0 a variable, 1 a message, 2 + the kind it is missing in. kString: 1 markup.
  std::uint8_t detail_ = 0;
  StringBody* owner_ = nullptr;
  union {
    View view_;
    Payload payload_;
  };
};

// Objects live until the rendering ends (Heap::adopt).
struct Object {
  virtual ~Object() = default;
};

// Which Python type a sequence plays. Templates can tell them apart: a generator is always true,
// has no length and is used up by one pass; views have a length but no elements by number.
enum class ListKind : std::uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

struct List final : Object {
  ListKind kind = ListKind::kList;
  bool used_up = false;  // of a generator: was passed through
  bool group = false;    // a pair that groupby made: has the attributes grouper and list
  std::vector<Value> items;
};

// In order of insertion. Found by a walk: objects in conversations are small, and the walk is
// counted in steps by the heap.
struct Dict final : Object {
  std::vector<std::pair<Value, Value>> entries;
};

// The variable `loop`.
struct Loop final : Object {
  const List* items = nullptr;
  std::size_t index = 0;
  std::vector<Value> last_changed;
  bool changed_before = false;
};

struct Macro final : Object {
  const MacroNode* node = nullptr;
  Scope* closure = nullptr;
};

// A method of a value, not yet called: `text.strip`.
struct Method final : Object {
  Value self;
  std::string_view name;
};

}  // namespace causeway::text::jinja
