#include "worker/witness.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

namespace causeway::worker {
namespace {

using weights::FileDescriptor;

constexpr unsigned kFirst = 3;          // behind standard input, output and error
constexpr unsigned kUnshare = 1u << 1;  // CLOSE_RANGE_UNSHARE

// Closes [first, last] in this thread's table; false, with errno.
bool close_all(unsigned first, unsigned last, unsigned flags) {
#ifdef SYS_close_range
  return first > last || ::syscall(SYS_close_range, first, last, flags) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

// Gives this thread a table of its own with these two beside the standard ones; false, with errno.
// unshare() would do it, too, but container runtimes forbid that to programs without privileges.
bool keep_only(int one, int other) {
  const auto low = static_cast<unsigned>(std::min(one, other));
  const auto high = static_cast<unsigned>(std::max(one, other));
  return close_all(high + 1, std::numeric_limits<unsigned>::max(), kUnshare) &&
         close_all(low + 1, high - 1, 0) && close_all(kFirst, low - 1, 0);
}

// `told` stays open in this thread's table until the thread ends. The bare system call: to
// ThreadSanitizer read() is of the table that the others share, where they close this number.
void witness(int stop, int told, std::promise<int> ready) {
  const bool alone = keep_only(stop, told);
  ready.set_value(alone ? 0 : errno);
  char byte = 0;
  while (alone && ::syscall(SYS_read, stop, &byte, 1) < 0 && errno == EINTR) {
  }
}

Result<std::pair<FileDescriptor, FileDescriptor>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io_error("making a pipe", errno);
  return std::pair(FileDescriptor(ends[0]), FileDescriptor(ends[1]));
}

}  // namespace

Result<std::unique_ptr<Witness>> Witness::start() {
  CAUSEWAY_ASSIGN(auto stop, make_pipe());
  CAUSEWAY_ASSIGN(auto told, make_pipe());
  std::promise<int> ready;  // the thread's own, which may still be in it when it is heard
  std::future<int> heard = ready.get_future();
  std::thread thread;
  try {
    thread = std::thread(witness, stop.first.get(), told.second.get(), std::move(ready));
  } catch (const std::system_error& error) {
    return exhausted(std::string("cannot start a thread: ") + error.what());
  }
  // The ends that only the thread is to have are closed behind this, in the other threads' table.
  if (const int failure = heard.get(); failure != 0) {
    thread.join();
    return unsupported("no thread may have descriptors of its own here: error " +
                       std::to_string(failure));
  }
  return std::make_unique<Witness>(std::move(stop.second), std::move(told.first),
                                   std::move(thread));
}

Witness::~Witness() {
  stop_ = FileDescriptor();
  thread_.join();
}

}  // namespace causeway::worker
