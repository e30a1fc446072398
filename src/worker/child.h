// A process that this one has started, and that it kills and waits for.
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
  // Starts a program, given by its path, with arguments. Its standard input is empty; it has the
  // standard output and error of this process, `socket` as kChildSocket and no other descriptor.
  // SIGINT, SIGTERM and SIGHUP are blocked in it: a terminal or a service manager sends them to
  // both processes, and this process decides when the child ends. `environment`, of "NAME=value"
  // entries, is added to that of this process. kIo: the system cannot start it.
  static Result<Child> start(const std::vector<std::string>& command, int socket,
                             const std::vector<std::string>& environment = {});
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  // Kills the process and waits for its end as reap() does.
  ~Child();

  pid_t pid() const { return pid_; }
  void kill();
  // Waits until the process has ended, and says in words how. False: it has not ended within
  // `timeout`; a process inside a driver's call may not.
  bool reap(Nanos timeout);
  const std::string& ended() const { return ended_; }

 private:
  explicit Child(pid_t pid);
  bool wait_now();

  pid_t pid_ = -1;                  // -1: no process, or it has been waited for
  weights::FileDescriptor handle_;  // readable when the process ends; none before Linux 5.3
  std::string ended_;
};

}  // namespace causeway::worker
