#include "grammar/check_constraint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/behind_thinking.h"
#include "grammar/plain_regex.h"

namespace causeway::grammar {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kCounts = {"minItems",  "maxItems",      "minLength",
                                                     "maxLength", "minProperties", "maxProperties"};

// What XGrammar passes over: an answer could break it without a word.
constexpr std::array<std::string_view, 11> kIgnored = {
    "not",        "if",          "then",     "else",        "dependentRequired", "dependentSchemas",
    "multipleOf", "uniqueItems", "contains", "minContains", "maxContains"};
// Their members are names with a schema each; those of the others are data.
constexpr std::array<std::string_view, 4> kNamed = {"properties", "patternProperties", "$defs",
                                                    "definitions"};
constexpr std::array<std::string_view, 5> kLiteralKeys = {"enum", "const", "default", "examples",
                                                          "required"};

template <std::size_t kCount>
bool has(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Error too_deep(int depth) {
  return invalid_argument("nests deeper than " + std::to_string(depth) + " levels");
}

// Reads "{n}", "{n,}" or "{n,m}" at `at`; 0: there is none. `most`: the larger number.
std::size_t read_count(std::string_view text, std::size_t at, std::int64_t& most) {
  const std::size_t end = text.find('}', at);
  if (text[at] != '{' || end == std::string_view::npos) return 0;
  const std::string_view inner = text.substr(at + 1, end - at - 1);
  const auto counts = [](char c) { return (c >= '0' && c <= '9') || c == ',' || c == ' '; };
  if (inner.empty() || !std::all_of(inner.begin(), inner.end(), counts)) return 0;
  most = 0;
  for (std::size_t i = 0; i < inner.size();) {
    std::int64_t number = 0;
    const auto [stop, failure] =
        std::from_chars(inner.data() + i, inner.data() + inner.size(), number);
    if (failure == std::errc::result_out_of_range) number = INT64_MAX;
    const auto read = static_cast<std::size_t>(stop - inner.data()) - i;
    most = std::max(most, number);
    i += std::max<std::size_t>(read, 1);
  }
  return end + 1 - at;
}

// How large an expression is, once its counted repetitions are written out.
class Expansion {
 public:
  Expansion(std::string_view text, bool quotes, const ConstraintLimits& limits)
      : text_(text), quotes_(quotes), limits_(limits) {}

  Status check() {
    std::size_t at = 0;
    while (at < text_.size()) {
      std::int64_t most = 0;
      const std::size_t counted = read_count(text_, at, most);
      if (counted > 0) {
        if (most > limits_.count_max) {
          return invalid_argument("repeats something more than " +
                                  std::to_string(limits_.count_max) + " times");
        }
        sums_.back() += last_ * (std::max<std::int64_t>(most, 1) - 1);
        last_ *= std::max<std::int64_t>(most, 1);
        at += counted;
      } else if (text_[at] == '(') {
        if (std::ssize(sums_) > limits_.depth_max) return too_deep(limits_.depth_max);
        sums_.push_back(1);
        ++at;
      } else if (text_[at] == ')') {
        close_group();
        ++at;
      } else {
        at += read_atom(at);
      }
      if (sums_.back() > limits_.expanded_max + std::ssize(text_)) {
        return invalid_argument("is too large once its repetitions are written out");
      }
    }
    return {};
  }

 private:
  void close_group() {
    if (sums_.size() == 1) return;  // unbalanced: the compiler says so
    last_ = sums_.back();
    sums_.pop_back();
    sums_.back() += last_;
  }

  // A character, an escaped one, a class, a literal in quotes.
  std::size_t read_atom(std::size_t at) {
    const char open = text_[at];
    std::size_t size = 1;
    if (open == '\\') {
      size = 2;
    } else if (open == '[' || (quotes_ && open == '"')) {
      const char close = open == '[' ? ']' : '"';
      while (at + size < text_.size() && text_[at + size] != close) {
        size += text_[at + size] == '\\' ? 2 : 1;
      }
      ++size;
    }
    last_ = open == '"' ? static_cast<std::int64_t>(size) : 1;
    if (open != ' ') sums_.back() += last_;
    return size;
  }

  std::string_view text_;
  bool quotes_;
  const ConstraintLimits& limits_;
  std::vector<std::int64_t> sums_ = {0};  // of the groups that are open
  std::int64_t last_ = 1;                 // of what a repetition would repeat
};

// Brackets outside of strings.
Status check_depth(std::string_view json, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return too_deep(depth_max);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return {};
}

// A regular expression, and what the compiler makes of its classes, which adds groups of its own.
Status check_regex(std::string_view text, const ConstraintLimits& limits) {
  constexpr int kGroupsAdded = 2;
  CAUSEWAY_TRY(check_expression(text, false, limits));
  ConstraintLimits written_out = limits;
  written_out.depth_max += kGroupsAdded;
  return check_expression(plain_regex(text), false, written_out);
}

Status check_pattern(const std::string& pattern, const ConstraintLimits& limits) {
  const Status checked = check_regex(pattern, limits);
  if (checked.ok()) return {};
  return invalid_argument("a pattern " + checked.error().message);
}

// Checks a schema, or a list of them.
Status check_node(const Json& node, const ConstraintLimits& limits);

Status check_member(const std::string& key, const Json& value, const ConstraintLimits& limits) {
  if (has(kLiteralKeys, key)) return {};
  if (has(kIgnored, key) && value != false) {
    return invalid_argument("has the keyword `" + key + "`, which is not supported; leave it out");
  }
  if (has(kCounts, key) && value.is_number() &&
      !(value.get<double>() <= static_cast<double>(limits.count_max))) {
    return invalid_argument("`" + key + "` is more than " + std::to_string(limits.count_max));
  }
  if (key == "pattern" && value.is_string()) {
    return check_pattern(value.get_ref<const std::string&>(), limits);
  }
  if (!has(kNamed, key) || !value.is_object()) return check_node(value, limits);
  for (const auto& [name, schema] : value.items()) {
    if (key == "patternProperties") CAUSEWAY_TRY(check_pattern(name, limits));
    CAUSEWAY_TRY(check_node(schema, limits));
  }
  return {};
}

Status check_node(const Json& node, const ConstraintLimits& limits) {
  if (node.is_array()) {
    for (const Json& item : node) CAUSEWAY_TRY(check_node(item, limits));
  }
  if (!node.is_object()) return {};
  for (const auto& [key, value] : node.items()) CAUSEWAY_TRY(check_member(key, value, limits));
  return {};
}

Status check_schema(std::string_view text, const ConstraintLimits& limits) {
  CAUSEWAY_TRY(check_depth(text, limits.depth_max));
  const Json schema = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!schema.is_object() && !schema.is_boolean()) {
    return invalid_argument("is no JSON schema: that is an object");
  }
  return check_node(schema, limits);
}

}  // namespace

Status check_expression(std::string_view text, bool quotes, const ConstraintLimits& limits) {
  return Expansion(text, quotes, limits).check();
}

Status check_constraint(const request::ConstraintText& constraint, const ConstraintLimits& limits) {
  using request::ConstraintKind;
  const std::string& text = constraint.text;
  if (constraint.kind == ConstraintKind::kJson) return {};
  if (constraint.kind == ConstraintKind::kCallsInText) {
    if (const auto behind = parse_behind_thinking(text)) {
      return check_constraint(behind->form, limits);
    }
  }
  if (text.empty()) return invalid_argument("is empty");
  if (text.size() > limits.bytes_max) {
    return invalid_argument("has " + std::to_string(text.size()) + " bytes; at most " +
                            std::to_string(limits.bytes_max) + " are taken");
  }
  if (text.find('\0') != std::string::npos) return invalid_argument("has a zero byte");
  switch (constraint.kind) {
    case ConstraintKind::kJson: break;
    case ConstraintKind::kJsonSchema: return check_schema(text, limits);
    case ConstraintKind::kRegex: return check_regex(text, limits);
    case ConstraintKind::kGrammar: return check_expression(text, true, limits);
    case ConstraintKind::kCallsInText:
    case ConstraintKind::kStructuralTag: {
      // What the server wrote around the schemas.
      ConstraintLimits inner = limits;
      inner.depth_max += 24;
      return check_schema(text, inner);
    }
    case ConstraintKind::kBannedWords: return invalid_argument("is no grammar");
  }
  return {};
}

}  // namespace causeway::grammar
