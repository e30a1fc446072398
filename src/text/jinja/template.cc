#include "text/jinja/template.h"

#include <new>

#include "text/jinja/failure.h"
#include "text/jinja/from_json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

std::string with_line(const std::string& message, int line) {
  if (line <= 0) return message;
  return "chat template, line " + std::to_string(line) + ": " + message;
}

Error error_of(const Failure& failure, int line) {
  if (failure.cause == Failure::Cause::kRaised) return invalid_argument(failure.message);
  std::string message = with_line(failure.message, failure.line > 0 ? failure.line : line);
  if (failure.cause == Failure::Cause::kLimit) return exhausted(std::move(message));
  return invalid_argument(std::move(message));
}

Value value_of(Heap& heap, const Variable& variable) {
  switch (variable.kind) {
    case Variable::Kind::kText: return Value::view(variable.text);
    case Variable::Kind::kFlag: return Value::boolean(variable.flag);
    default: return variable.json == nullptr ? Value::none() : from_json(heap, *variable.json);
  }
}

}  // namespace

Template::Template(std::unique_ptr<const Tree> tree, const Limits& limits)
    : tree_(std::move(tree)), limits_(limits) {}
Template::~Template() = default;

Result<std::unique_ptr<const Template>> Template::compile(std::string_view source,
                                                          const Limits& limits) {
  if (static_cast<std::int64_t>(source.size()) > limits.source_bytes_max) {
    return invalid_argument("the chat template is longer than " +
                            std::to_string(limits.source_bytes_max) + " bytes");
  }
  const std::size_t invalid = first_invalid_utf8(source);
  if (invalid != std::string_view::npos) {
    return invalid_argument("the chat template is not valid UTF-8 at byte " +
                            std::to_string(invalid));
  }
  try {
    auto tree = parse(source, limits);
    return std::unique_ptr<const Template>(
        std::make_unique<const Template>(std::move(tree), limits));
  } catch (const Failure& failure) {
    Error error = error_of(failure, 0);
    error.code = ErrorCode::kInvalidArgument;
    return error;
  } catch (const std::bad_alloc&) {
    return exhausted("no memory to compile the chat template");
  }
}

Result<std::string> Template::render(const std::vector<Variable>& variables,
                                     std::int64_t now_unix_seconds) const {
  int line = 0;
  try {
    Heap heap(limits_);
    Interpreter interpreter(*tree_, heap, now_unix_seconds);
    try {
      for (const Variable& variable : variables) {
        if (tree_->names.find(variable.name) < 0) continue;
        interpreter.set_global(variable.name, value_of(heap, variable));
      }
      return interpreter.run();
    } catch (const Failure&) {
      line = interpreter.line();
      throw;
    }
  } catch (const Failure& failure) {
    return error_of(failure, line);
  } catch (const std::bad_alloc&) {
    return exhausted("no memory to render the chat template");
  }
}

}  // namespace causeway::text::jinja
