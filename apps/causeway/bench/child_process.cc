#include "bench/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/clock.h"

extern char** environ;

namespace causeway::app {

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(
    const std::vector<std::string>& arguments) {
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0) return io_error("no pipe", errno);
  if (pipe2(out.data(), O_CLOEXEC) != 0) {
    const Error error = io_error("no pipe", errno);
    close(in[0]);
    close(in[1]);
    return error;
  }
  auto child = std::make_unique<ChildProcess>();
  child->input_ = in[1];
  child->output_ = out[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<std::string> words = {"causeway"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int failed =
      posix_spawn(&child->pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  if (failed != 0) {
    child->pid_ = -1;
    return io_error("cannot start another process of this program", failed);
  }
  return Result<std::unique_ptr<ChildProcess>>(std::move(child));
}

ChildProcess::~ChildProcess() {
  if (input_ >= 0) close(input_);
  if (output_ >= 0) close(output_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Status ChildProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  // One that has ended makes a SIGPIPE, which the program must not die of.
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  const ssize_t written = write(input_, text.data(), text.size());
  const int failed = errno;
  sigaction(SIGPIPE, &before, nullptr);
  if (written == static_cast<ssize_t>(text.size())) return {};
  return io_error("writing to another process of this program", failed);
}

Result<std::string> ChildProcess::read_line(Nanos timeout) {
  const RealClock clock;
  const Nanos end = clock.now() + timeout;
  while (true) {
    if (const auto line = read_.find('\n'); line != std::string::npos) {
      std::string text = read_.substr(0, line);
      read_.erase(0, line + 1);
      return text;
    }
    const auto left = static_cast<std::int64_t>(to_millis(end - clock.now()));
    if (left <= 0) {
      return Error{ErrorCode::kDeadlineExceeded, "another process of this program said nothing"};
    }
    pollfd wait{output_, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) <= 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t got = read(output_, buffer.data(), buffer.size());
    if (got <= 0) return unavailable("another process of this program ended early");
    read_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace causeway::app
