// One compiled template: the room's face to the rest of the module. Errors are Results here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/jinja/limits.h"

namespace causeway::text::jinja {

struct Tree;

// A variable for a rendering: JSON (null: the value none), text, or a truth value.
struct Variable {
  enum class Kind { kJson, kText, kFlag };
  std::string_view name;
  Kind kind = Kind::kJson;
  const nlohmann::ordered_json* json = nullptr;
  std::string_view text;
  bool flag = false;
};

// Immutable; renders on any number of threads at a time.
class Template {
 public:
  // kInvalidArgument with line and cause.
  static Result<std::unique_ptr<const Template>> compile(std::string_view source,
                                                         const Limits& limits);
  // From a parsed tree; compile() is the usual way.
  Template(std::unique_ptr<const Tree> tree, const Limits& limits);
  ~Template();

  // If variables have one name the last wins; they win over the functions every template has.
  // kInvalidArgument: the template's own exception, or its failure on these variables;
  // kResourceExhausted: a limit.
  Result<std::string> render(const std::vector<Variable>& variables,
                             std::int64_t now_unix_seconds) const;

 private:
  std::unique_ptr<const Tree> tree_;
  Limits limits_;
};

}  // namespace causeway::text::jinja
