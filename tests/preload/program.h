// What the programs of this folder share: cases with one line of output each, a watchdog over every
// case, random numbers, and byte patterns that host and GPU make and check by themselves.
//
// The programs are ordinary CUDA programs: they know nothing of libcauseway-preload.so and use
// nothing of src/. They must say the same with it preloaded as without (run.py). Cases end by
// throwing Wrong or by returning; each wait is bounded by the watchdog, which ends the process.
//
//   ok NAME DETAIL                     the case passed
//   skip NAME REASON                   it cannot be run here
//   WRONG NAME WHAT                    it failed
//   TIMED OUT NAME                     it did not end; the process ends with status 4
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifdef __CUDACC__
#define PROGRAM_BOTH __host__ __device__
#else
#define PROGRAM_BOTH
#endif

namespace program {

inline constexpr int kNoGpu = 77;
inline constexpr int kTimedOut = 4;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws Wrong with printf's words unless `right`.
void expect(bool right, const char* format, ...) __attribute__((format(printf, 2, 3)));
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The `index`-th eight bytes of pattern `seed` (splitmix64's output function).
PROGRAM_BOTH inline std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ull + (index + 1) * 0xd1342543de82ef95ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

PROGRAM_BOTH inline std::uint8_t pattern_byte(std::uint64_t seed, std::uint64_t index) {
  return static_cast<std::uint8_t>(pattern_word(seed, index >> 3) >> (8 * (index & 7)));
}

// Bytes [first, first + bytes) of pattern `seed`.
struct Pattern {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;

  Pattern from(std::size_t offset) const { return {seed, first + offset}; }
};

void fill_host(void* target, std::size_t bytes, Pattern pattern);

// Index of the first byte that differs from the pattern, or `bytes`.
std::size_t first_wrong(const void* memory, std::size_t bytes, Pattern pattern);

// Throws Wrong naming `what`, the first wrong byte and how many there are.
void expect_host(const void* memory, std::size_t bytes, Pattern pattern, const char* what);

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t next() { return pattern_word(seed_, count_++); }
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(next() % end); }
  std::size_t between(std::size_t least, std::size_t most) {
    return least + below(most - least + 1);
  }
  // Every power of two up to `most` alike.
  std::size_t size_up_to(std::size_t most);

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

double seconds_now();

// Ends the process when what was armed has not been disarmed in time.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void arm(const std::string& name, double seconds);
  void disarm();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_;
  double end_ = 0;  // of seconds_now(); 0: not armed
  bool stop_ = false;
  std::thread thread_;
};

// What a case is given.
struct Context {
  Random random;
  std::uint64_t seed;  // --seed
  double seconds;      // --seconds
  int gpus;            // that this process sees
  std::string detail;  // what it says behind `ok`
};

// How a case must be run.
enum class Run {
  kShared,     // in one process with others
  kAlone,      // in a process of its own, which may end within the case
  kExclusive,  // like kAlone, while no other program uses the GPUs
};

struct Case {
  const char* name;
  void (*run)(Context&);
  int gpus = 1;  // needed
  Run how = Run::kShared;
  double seconds = 60;  // the watchdog's limit
};

using Cases = std::vector<Case>;

// Prints the line of a case that ends the process itself.
void say_ok(const char* name, const std::string& detail);

// Runs what the arguments ask for; the exit status. `count_gpus` makes the first CUDA call.
//   --list             one line a case: NAME shared|alone|exclusive GPUS SECONDS
//   --case NAME        only that (may be repeated)
//   --seed N           of all random numbers
//   --seconds N        for cases that run as long as they are told (stress)
//   --self-test        checks what of this file can be checked without a GPU
int run_program(int argc, char** argv, const Cases& cases, const std::function<int()>& count_gpus);

// Runs `body(i)` in threads and throws what the first failing one threw.
void in_threads(int threads, const std::function<void(int)>& body);

}  // namespace program
