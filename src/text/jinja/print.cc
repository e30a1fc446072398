#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

std::string_view list_type_name(ListKind kind) {
  switch (kind) {
    case ListKind::kList: return "list";
    case ListKind::kTuple: return "tuple";
    case ListKind::kRange: return "range";
    case ListKind::kKeys: return "dict_keys";
    case ListKind::kValues: return "dict_values";
    case ListKind::kItems: return "dict_items";
    case ListKind::kGenerator: return "generator";
  }
  return "list";
}

void append_hex(std::string& out, char32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out.push_back("0123456789abcdef"[(value >> shift) & 15]);
  }
}

void append_escape(std::string& out, char32_t value) {
  out.push_back('\\');
  if (value < 0x100) {
    out.push_back('x');
    append_hex(out, value, 2);
  } else if (value < 0x10000) {
    out.push_back('u');
    append_hex(out, value, 4);
  } else {
    out.push_back('U');
    append_hex(out, value, 8);
  }
}

void append_string_repr(Builder& out, std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string piece(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.value == static_cast<unsigned char>(quote) || point.value == '\\') {
      piece += {'\\', static_cast<char>(point.value)};
    } else if (point.value == '\n') {
      piece += "\\n";
    } else if (point.value == '\r') {
      piece += "\\r";
    } else if (point.value == '\t') {
      piece += "\\t";
    } else if (!is_printable(point.value)) {
      append_escape(piece, point.value);
    } else {
      piece += text.substr(at, point.bytes);
    }
    at += point.bytes;
    if (piece.size() >= 4096) {
      out.append(piece);
      piece.clear();
    }
  }
  piece.push_back(quote);
  out.append(piece);
}

void append_bytes_repr(Builder& out, std::string_view bytes) {
  const bool double_quotes =
      bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out.push('b');
  out.push(quote);
  for (const char c : bytes) {
    std::string piece(1, c);
    if (c == quote || c == '\\') {
      piece.insert(0, 1, '\\');
    } else if (c == '\n' || c == '\r' || c == '\t') {
      piece = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c < ' ' || c > '~') {
      piece = "\\x";
      append_hex(piece, static_cast<unsigned char>(c), 2);
    }
    out.append(piece);
  }
  out.push(quote);
}

void append_list_repr(Builder& out, const List& list, int depth) {
  const bool tuple = list.kind == ListKind::kTuple;
  const bool named = !tuple && list.kind != ListKind::kList;
  if (named) {
    out.append(list_type_name(list.kind));
    out.push('(');
  }
  out.push(tuple ? '(' : '[');
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(out, list.items[i], depth + 1);
  }
  if (tuple && list.items.size() == 1) out.push(',');
  out.push(tuple ? ')' : ']');
  if (named) out.push(')');
}

void append_dict_repr(Builder& out, const Dict& dict, int depth) {
  out.push('{');
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, key, depth + 1);
    out.append(": ");
    append_repr(out, value, depth + 1);
  }
  out.push('}');
}

// Mantissa digits and exponent (of the first digit) laid out without an exponent.
std::string plain_float(const std::string& digits, int exponent) {
  if (exponent < 0)
    return "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return digits + std::string(whole - digits.size(), '0') + ".0";
  return digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.is_markup() ? "Markup" : "str";
    case Kind::kBytes: return "bytes";
    case Kind::kList: return list_type_name(value.as_list().kind);
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kLoop: return "LoopContext";
    case Kind::kMacro: return "Macro";
    case Kind::kMethod: return "builtin_function_or_method";
    case Kind::kFunction: return "function";
  }
  return "object";
}

std::string int_text(Int value) {
  const bool negative = value < 0;
  auto rest = static_cast<unsigned __int128>(value);
  if (negative) rest = -rest;
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest != 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), std::fabs(value),
                                 std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
  const std::size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits.push_back(c);
  }
  int exponent = 0;
  const std::size_t first = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(buffer + first, end.ptr, exponent);
  const std::string sign = std::signbit(value) ? "-" : "";
  if (exponent >= -4 && exponent < 16) return sign + plain_float(digits, exponent);
  std::string out = sign + digits.substr(0, 1);
  if (digits.size() > 1) out += "." + digits.substr(1);
  const std::string power = std::to_string(std::abs(exponent));
  return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
}

void append_repr(Builder& out, const Value& value, int depth) {
  if (depth > 200) fail_limit("lists or objects are nested deeper than 200");
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return out.append("Undefined");
    case Kind::kNone: return out.append("None");
    case Kind::kBool: return out.append(value.as_bool() ? "True" : "False");
    case Kind::kInt: return out.append(int_text(value.as_int()));
    case Kind::kFloat: return out.append(float_text(value.as_double()));
    case Kind::kString:
      if (!value.is_markup()) return append_string_repr(out, value.text());
      out.append("Markup(");
      append_string_repr(out, value.text());
      return out.push(')');
    case Kind::kBytes: return append_bytes_repr(out, value.text());
    case Kind::kList: return append_list_repr(out, value.as_list(), depth);
    case Kind::kDict: return append_dict_repr(out, value.as_dict(), depth);
    case Kind::kNamespace:
      out.append("<Namespace ");
      append_dict_repr(out, value.as_dict(), depth);
      return out.push('>');
    default:
      out.push('<');
      out.append(type_name(value));
      return out.push('>');
  }
}

void append_string(Builder& out, const Value& value) {
  if (value.is_string()) return out.append(value.text());
  if (!value.is_undefined()) append_repr(out, value);
}

Value to_string(Heap& heap, const Value& value) {
  if (value.is_string()) return value;
  if (value.is_undefined()) return Value::view("");
  Builder out(heap);
  append_repr(out, value);
  return out.finish();
}

namespace {

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style), out_(heap) {}

  void write(const Value& value, int depth) {
    heap_.step();
    check_depth(heap_, depth);
    switch (value.kind()) {
      case Kind::kNone: return out_.append("null");
      case Kind::kBool: return out_.append(value.as_bool() ? "true" : "false");
      case Kind::kInt: return out_.append(int_text(value.as_int()));
      case Kind::kFloat: return out_.append(float_json(value.as_double()));
      case Kind::kString: return write_string(value.text());
      case Kind::kDict: return write_dict(value.as_dict(), depth);
      case Kind::kList:
        if (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kTuple) {
          return write_list(value.as_list(), depth);
        }
        break;
      default: break;
    }
    fail("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
  }
  Value finish() { return out_.finish(); }

 private:
  static std::string float_json(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  void new_line(int depth) {
    if (!style_.indent) return;
    out_.push('\n');
    for (int i = 0; i < depth; ++i) out_.append(*style_.indent);
  }

  void write_list(const List& list, int depth) {
    if (list.items.empty()) return out_.append("[]");
    out_.push('[');
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    new_line(depth);
    out_.push(']');
  }

  void write_dict(const Dict& dict, int depth) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys) sort_keys(order);
    out_.push('{');
    bool first = true;
    for (const auto* entry : order) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line(depth + 1);
      write_key(entry->first);
      out_.append(style_.key_separator);
      write(entry->second, depth + 1);
    }
    new_line(depth);
    out_.push('}');
  }

  void sort_keys(std::vector<const std::pair<Value, Value>*>& order) {
    for (const auto* entry : order) {
      if (!entry->first.is_string()) fail("tojson(sort_keys=true) needs keys that are strings");
    }
    heap_.step(static_cast<std::int64_t>(order.size()) * 20);
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->first.text() < b->first.text(); });
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.text());
    if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is_undefined()) {
      fail("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
    out_.push('"');
    write(key, 0);
    out_.push('"');
  }

  void write_string(std::string_view text) {
    std::string piece = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      escape(piece, point.value, text.substr(at, point.bytes));
      at += point.bytes;
      if (piece.size() >= 4096) {
        out_.append(piece);
        piece.clear();
      }
    }
    piece.push_back('"');
    out_.append(piece);
  }

  void escape(std::string& piece, char32_t value, std::string_view bytes) const {
    static constexpr std::string_view kShort = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    const std::size_t known =
        value < 0x80 ? kShort.find(static_cast<char>(value)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      piece += {'\\', kLetters[known]};
    } else if (value < 0x20 || (style_.ensure_ascii && value >= 0x7F && value < 0x10000)) {
      piece += "\\u";
      append_hex(piece, value, 4);
    } else if (style_.ensure_ascii && value >= 0x10000) {
      piece += "\\u";
      append_hex(piece, 0xD800 + ((value - 0x10000) >> 10), 4);
      piece += "\\u";
      append_hex(piece, 0xDC00 + ((value - 0x10000) & 0x3FF), 4);
    } else {
      piece += bytes;
    }
  }

  Heap& heap_;
  const JsonStyle& style_;
  Builder out_;
};

}  // namespace

Value to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value, 0);
  return writer.finish();
}

}  // namespace causeway::text::jinja
