// What ends a compilation or a rendering early. Thrown within this folder only: Template
// (template.h) turns it into an Error, so no exception leaves the module.
#pragma once

#include <string>
#include <utility>

namespace causeway::text::jinja {

struct Failure {
  enum class Cause {
    kTemplate,  // the template is wrong, or wrong for this input; the line is added when caught
    kRaised,    // raise_exception: the message is the template's own
    kLimit,     // a limit of limits.h was reached
  };
  Cause cause = Cause::kTemplate;
  std::string message;
  int line = 0;  // 0: not known where thrown
};

[[noreturn]] inline void fail(std::string message, int line = 0) {
  throw Failure{Failure::Cause::kTemplate, std::move(message), line};
}
[[noreturn]] inline void fail_limit(std::string message, int line = 0) {
  throw Failure{Failure::Cause::kLimit, std::move(message), line};
}

}  // namespace causeway::text::jinja
