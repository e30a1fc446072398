// For test programs and benchmarks that cannot continue after an error: the error is printed, and
// the program ends with status 1.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/result.h"

namespace causeway {

inline void must(const Status& status, const char* what = "") {
  if (status.ok()) return;
  std::fprintf(stderr, "FAILED: %s%s%s\n", what, *what == '\0' ? "" : ": ",
               status.error().message.c_str());
  std::exit(1);
}

template <typename T>
T must(Result<T> result, const char* what = "") {
  if (!result.ok()) must(Status(result.error()), what);
  return std::move(result).value();
}

}  // namespace causeway
