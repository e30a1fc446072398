#include "text/jinja/value.h"

#include <bit>

namespace causeway::text::jinja {
namespace {

constexpr std::uint8_t kVariable = 0;
constexpr std::uint8_t kMessage = 1;
constexpr std::uint8_t kMember = 2;

const char* object_name(Kind kind) {
  switch (kind) {
    case Kind::kBool: return "bool object";
    case Kind::kInt: return "int object";
    case Kind::kFloat: return "float object";
    case Kind::kString: return "str object";
    case Kind::kBytes: return "bytes object";
    case Kind::kList: return "list object";
    case Kind::kDict: return "dict object";
    case Kind::kNamespace: return "namespace object";
    case Kind::kLoop: return "loop object";
    case Kind::kNone: return "None";
    default: return "function object";
  }
}

}  // namespace

Value Value::integer(Int value) {
  const auto bits = static_cast<unsigned __int128>(value);
  return Value(Kind::kInt,
               Payload{static_cast<std::uint64_t>(bits), static_cast<std::uint64_t>(bits >> 64)});
}

Value Value::number(double value) {
  return Value(Kind::kFloat, Payload::of(std::bit_cast<std::uint64_t>(value)));
}

Int Value::as_int() const {
  return static_cast<Int>((static_cast<unsigned __int128>(payload_.high) << 64) | payload_.low);
}

double Value::as_double() const {
  return kind_ == Kind::kFloat ? std::bit_cast<double>(payload_.low)
                               : static_cast<double>(as_int());
}

Value Value::part(std::string_view text) const {
  if (owner_ != nullptr) ++owner_->references;
  Value value(Kind::kString, text, owner_);
  value.detail_ = detail_;
  return value;
}

Value Value::bytes(const Value& text) {
  Value value = text;
  value.kind_ = Kind::kBytes;
  value.detail_ = 0;
  return value;
}

Value Value::as_markup() const {
  Value value = *this;
  value.detail_ = 1;
  return value;
}

Value Value::without_markup() const {
  Value value = *this;
  value.detail_ = 0;
  return value;
}

Value Value::undefined_name(std::string_view name) {
  Value value(Kind::kUndefined, name, nullptr);
  value.detail_ = kVariable;
  return value;
}

Value Value::undefined_because(const Value& message) {
  Value value = message;
  value.kind_ = Kind::kUndefined;
  value.detail_ = kMessage;
  return value;
}

Value Value::undefined_member(const Value& of, const Value& name) {
  Value value = name;
  value.kind_ = Kind::kUndefined;
  value.detail_ = static_cast<std::uint8_t>(kMember + static_cast<std::uint8_t>(of.kind_));
  return value;
}

std::string Value::undefined_message() const {
  const std::string name(text());
  if (detail_ == kVariable) return "'" + name + "' is undefined";
  if (detail_ == kMessage) return name;
  return std::string("'") + object_name(static_cast<Kind>(detail_ - kMember)) +
         "' has no attribute '" + name + "'";
}

}  // namespace causeway::text::jinja
