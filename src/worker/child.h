// A process that this one has started, kills and waits for.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weights/file.h"

namespace causeway::worker {

// The descriptor under which a child finds its end of the connection.
inline constexpr int kChildSocket = 3;

class Child {
 public:
  // Starts a program, by its path, with its arguments. It has `socket` as kChildSocket, nothing on
  // its standard input, the standard output and error of this process, and no other descriptor; it
  // starts with SIGINT and SIGTERM blocked, which a terminal or a service manager sends to it as to
  // this process, whose to end it is. `environment`, "NAME=value" each, goes over that of this
  // process. kIo: the system cannot start it.
  static Result<Child> start(const std::vector<std::string>& command, int socket,
                             const std::vector<std::string>& environment = {});
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  // Kills it, and waits for that as reap() does.
  ~Child();

  pid_t pid() const { return pid_; }
  void kill();
  // Waits until it has ended; false: it has not within `timeout`, as one in a driver's call may
  // not. How it ended, in words.
  bool reap(Nanos timeout);
  const std::string& ended() const { return ended_; }

 private:
  explicit Child(pid_t pid);
  bool wait_now();

  pid_t pid_ = -1;                  // -1: none, or reaped
  weights::FileDescriptor handle_;  // becomes readable when it ends; none before Linux 5.3
  std::string ended_;
};

}  // namespace causeway::worker
