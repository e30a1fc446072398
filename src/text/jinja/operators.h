// What Python's operators do to values: truth, equality, order, arithmetic, membership, elements.
// All report misuse as Python words it.
#pragma once

#include <string_view>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

enum class Op : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,
  kNeg,
  kPos,
  kNot,
};

// Fails when lists or objects are nested deeper than the limits of the rendering allow.
void check_depth(const Heap& heap, int depth);

// Fails when the value is undefined: for whatever an undefined value may not take part in.
void require_defined(const Value& value);

bool truthy(const Value& value);
bool equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
// a < b
bool less(Heap& heap, const Value& a, const Value& b, std::string_view sign = "<", int depth = 0);
bool compare(Heap& heap, Op op, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& item, const Value& container);
Value arithmetic(Heap& heap, Op op, const Value& a, const Value& b);
Value negate(const Value& value, Op op);
// The % of a string: C-like formats. Markup escapes what it is given and gives markup.
Value format_percent(Heap& heap, const Value& format, const Value& values);

// len(value); fails where Python has none.
std::int64_t length(Heap& heap, const Value& value);
// The elements that a loop over the value sees. The list lives as long as the heap.
const List& elements(Heap& heap, const Value& value);
// Entry of a dictionary by key, or null.
const Value* find_entry(Heap& heap, const Dict& dict, const Value& key);
const Value* find_entry(Heap& heap, const Dict& dict, std::string_view key);

// value.name and value[key], as the sandbox resolves them: both look for methods and for elements,
// in different order; what is not there is undefined.
Value get_attribute(Heap& heap, const Value& value, const Value& name);
Value get_item(Heap& heap, const Value& value, const Value& key);
bool can_be_sliced(const Value& value);
// value[start:stop:step]; a bound that is none is left out.
Value get_slice(Heap& heap, const Value& value, const Value& start, const Value& stop,
                const Value& step);

}  // namespace causeway::text::jinja
