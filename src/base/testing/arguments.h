// Arguments of the test programs that are not GoogleTest's.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

namespace causeway {

// The arguments of a test program. The program asks for each one by name, once, and then calls
// finish(). An argument that was not asked for, or that lacks its value, ends the program with
// status 2: a test that runs something else than was meant must not pass.
class Arguments {
 public:
  Arguments(int argc, const char* const* argv)
      : program_(argc > 0 ? argv[0] : ""), left_(argv + std::min(argc, 1), argv + argc) {}

  bool flag(const std::string& name) {
    const auto found = std::find(left_.begin(), left_.end(), name);
    if (found == left_.end()) return false;
    left_.erase(found);
    return true;
  }

  // `name` N, with N in decimals.
  template <typename Number>
  Number number(const std::string& name, Number otherwise) {
    const auto found = std::find(left_.begin(), left_.end(), name);
    if (found == left_.end()) return otherwise;
    if (found + 1 == left_.end()) refuse(name + " needs a number");
    const std::string& text = *(found + 1);
    Number value{};
    const auto end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc() || read.ptr != end) refuse(name + " " + text + ": not a number");
    left_.erase(found, found + 2);
    return value;
  }

  void finish() const {
    if (!left_.empty()) refuse("unknown argument " + left_.front());
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), why.c_str());
    std::exit(2);
  }

  std::string program_;
  std::vector<std::string> left_;
};

// The seed of a program that takes no argument but `--seed S`.
inline std::uint64_t seed_of(int argc, const char* const* argv) {
  Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  arguments.finish();
  return seed;
}

}  // namespace causeway
