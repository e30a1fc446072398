#include "program.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

#include <unistd.h>

namespace program {

namespace {

std::string formatted(const char* format, std::va_list arguments) {
  char line[512];
  std::vsnprintf(line, sizeof line, format, arguments);
  return line;
}

// Bytes of a pattern that begins within a word, eight at a time.
class Words {
 public:
  explicit Words(Pattern pattern)
      : seed_(pattern.seed), index_(pattern.first >> 3), shift_(8 * (pattern.first & 7)) {
    word_ = pattern_word(seed_, index_);
  }

  std::uint64_t next() {
    const std::uint64_t now = word_;
    word_ = pattern_word(seed_, ++index_);
    return shift_ == 0 ? now : (now >> shift_) | (word_ << (64 - shift_));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t index_;
  unsigned shift_;
  std::uint64_t word_;
};

}  // namespace

std::string text(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::string made = formatted(format, arguments);
  va_end(arguments);
  return made;
}

void expect(bool right, const char* format, ...) {
  if (right) return;
  std::va_list arguments;
  va_start(arguments, format);
  const std::string what = formatted(format, arguments);
  va_end(arguments);
  throw Wrong(what);
}

void fill_host(void* target, std::size_t bytes, Pattern pattern) {
  auto* out = static_cast<unsigned char*>(target);
  Words words(pattern);
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const std::uint64_t word = words.next();
    std::memcpy(out + i, &word, 8);
  }
  const std::uint64_t rest = words.next();
  std::memcpy(out + i, &rest, bytes - i);
}

std::size_t first_wrong(const void* memory, std::size_t bytes, Pattern pattern) {
  const auto* in = static_cast<const unsigned char*>(memory);
  Words words(pattern);
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t found;
    std::memcpy(&found, in + i, 8);
    if (found != words.next()) break;
  }
  for (; i < bytes; ++i) {
    if (in[i] != pattern_byte(pattern.seed, pattern.first + i)) return i;
  }
  return bytes;
}

void expect_host(const void* memory, std::size_t bytes, Pattern pattern, const char* what) {
  const std::size_t first = first_wrong(memory, bytes, pattern);
  if (first == bytes) return;
  const auto* in = static_cast<const unsigned char*>(memory);
  std::size_t wrong = 0;
  std::size_t last = first;
  for (std::size_t i = first; i < bytes; ++i) {
    if (in[i] != pattern_byte(pattern.seed, pattern.first + i)) {
      ++wrong;
      last = i;
    }
  }
  expect(false, "%s: %zu of %zu bytes differ, from %zu to %zu", what, wrong, bytes, first, last);
}

std::size_t Random::size_up_to(std::size_t most) {
  int bits = 0;
  while ((most >> bits) > 1) ++bits;
  const std::size_t size = std::size_t{1} << below(static_cast<std::size_t>(bits) + 1);
  return std::min(most, size + below(size));
}

double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Watchdog::Watchdog() : thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::arm(const std::string& name, double seconds) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  end_ = seconds_now() + seconds;
}

void Watchdog::disarm() {
  const std::lock_guard lock(mutex_);
  end_ = 0;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (end_ != 0 && seconds_now() > end_) {
      std::printf("TIMED OUT %s\n", name_.c_str());
      std::fflush(stdout);
      ::_exit(kTimedOut);
    }
    changed_.wait_for(lock, std::chrono::milliseconds(200));
  }
}

void say_ok(const char* name, const std::string& detail) {
  std::printf("ok %s %s\n", name, detail.c_str());
  std::fflush(stdout);
}

void in_threads(int threads, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&body, &thrown, i] {
      try {
        body(i);
      } catch (...) {
        thrown[static_cast<std::size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

namespace {

struct Arguments {
  bool list = false;
  bool self_test = false;
  std::vector<std::string> names;
  std::uint64_t seed = 1;
  double seconds = 5;
};

Arguments parse(int argc, char** argv) {
  Arguments made;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--list") {
      made.list = true;
    } else if (word == "--self-test") {
      made.self_test = true;
    } else if (word == "--case") {
      made.names.push_back(value);
      ++i;
    } else if (word == "--seed") {
      made.seed = std::strtoull(value, nullptr, 10);
      ++i;
    } else if (word == "--seconds") {
      made.seconds = std::strtod(value, nullptr);
      ++i;
    } else {
      throw Wrong("unknown argument " + word +
                  "; known: --list, --case NAME, --seed N, --seconds N, --self-test");
    }
  }
  return made;
}

// Each pattern function against the byte-wise definition, at every phase.
void self_test() {
  std::vector<unsigned char> memory(1000);
  for (std::uint64_t first = 0; first < 24; ++first) {
    for (const std::size_t bytes : {0, 1, 7, 8, 9, 63, 64, 977}) {
      const Pattern pattern{first * 7 + 1, first};
      fill_host(memory.data(), bytes, pattern);
      for (std::size_t i = 0; i < bytes; ++i) {
        expect(memory[i] == pattern_byte(pattern.seed, first + i), "byte %zu of pattern", i);
      }
      expect(first_wrong(memory.data(), bytes, pattern) == bytes, "a right pattern is refused");
      for (std::size_t i = 0; i < bytes; i += 13) {
        memory[i] ^= 1;
        expect(first_wrong(memory.data(), bytes, pattern) == i, "a wrong byte at %zu is missed", i);
        memory[i] ^= 1;
      }
    }
  }
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t size = random.size_up_to(100);
    expect(size >= 1 && size <= 100, "size %zu", size);
  }
  std::printf("PASSED: patterns\n");
}

class Runner {
 public:
  Runner(const Arguments& arguments, int gpus) : arguments_(arguments), gpus_(gpus) {}

  void run(const Case& one) {
    Context context{Random(arguments_.seed ^ std::hash<std::string>()(one.name)), arguments_.seed,
                    arguments_.seconds, gpus_, ""};
    const double begin = seconds_now();
    watchdog_.arm(one.name, one.seconds + arguments_.seconds);
    try {
      if (gpus_ < one.gpus) throw Skip(text("it needs %d GPUs, here is %d", one.gpus, gpus_));
      one.run(context);
      std::printf("ok %s %s (%.2f s)\n", one.name, context.detail.c_str(), seconds_now() - begin);
    } catch (const Skip& skip) {
      std::printf("skip %s %s\n", one.name, skip.what());
    } catch (const std::exception& error) {
      ++wrong_;
      std::printf("WRONG %s %s\n", one.name, error.what());
    }
    std::fflush(stdout);
    ++count_;
    // Stays armed: what is left (destructors, exit) must end too.
    watchdog_.arm(std::string(one.name) + ", after its end", 30);
  }

  int finish() {
    std::printf("%s: %d cases, %d wrong\n", wrong_ == 0 ? "PASSED" : "FAILED", count_, wrong_);
    std::fflush(stdout);
    watchdog_.disarm();
    return wrong_ == 0 && count_ > 0 ? 0 : 1;
  }

 private:
  const Arguments& arguments_;
  int gpus_;
  int count_ = 0;
  int wrong_ = 0;
  Watchdog watchdog_;
};

bool chosen(const Arguments& arguments, const Case& one) {
  if (arguments.names.empty()) return one.how == Run::kShared;
  for (const std::string& name : arguments.names) {
    if (name == one.name) return true;
  }
  return false;
}

int list(const Cases& cases) {
  for (const Case& one : cases) {
    const char* const how = one.how == Run::kShared  ? "shared"
                            : one.how == Run::kAlone ? "alone"
                                                     : "exclusive";
    std::printf("%s %s %d %.0f\n", one.name, how, one.gpus, one.seconds);
  }
  return 0;
}

int run_chosen(const Arguments& arguments, const Cases& cases, int gpus) {
  if (gpus == 0) {
    std::printf("SKIPPED: no GPU\n");
    return kNoGpu;
  }
  Runner runner(arguments, gpus);
  for (const Case& one : cases) {
    if (chosen(arguments, one)) runner.run(one);
  }
  return runner.finish();
}

}  // namespace

int run_program(int argc, char** argv, const Cases& cases, const std::function<int()>& count_gpus) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.list) return list(cases);
    if (arguments.self_test) {
      self_test();
      return 0;
    }
    return run_chosen(arguments, cases, count_gpus());
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}

}  // namespace program
