// Another run of this program, talked to over its standard input and output, line by line. For
// measuring two processes at once.
//
// Used by one thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::app {

class ChildProcess {
 public:
  // Starts this program with `arguments` (without its name). Its error output is ours.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& arguments);
  ChildProcess() = default;  // by start()
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Status write_line(const std::string& line);
  // The next line of its output; kDeadlineExceeded, kUnavailable when it has ended.
  Result<std::string> read_line(Nanos timeout);

 private:
  pid_t pid_ = -1;
  int input_ = -1;   // its standard input
  int output_ = -1;  // its standard output
  std::string read_;
};

}  // namespace causeway::app
