#include "worker/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"

extern char** environ;

namespace causeway::worker {
namespace {

constexpr Nanos kKilledWithin = seconds(5);
constexpr Nanos kEndLook = millis(5);  // where the end of a process wakes no thread

// As exec takes them: pointers with nullptr behind the last.
class Texts {
 public:
  explicit Texts(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  Texts(const Texts&) = delete;  // short texts move with their strings
  Texts& operator=(const Texts&) = delete;
  const std::string& front() const { return texts_.front(); }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// This process's, but for what has another value in `changes`.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> merged = changes;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view one = *at;
    const std::string_view name = one.substr(0, one.find('=') + 1);
    const auto names_it = [&](const std::string& change) { return change.starts_with(name); };
    if (std::none_of(changes.begin(), changes.end(), names_it)) merged.emplace_back(one);
  }
  return merged;
}

// What posix_spawn is to do in the child, between fork and exec.
class SpawnPlan {
 public:
  explicit SpawnPlan(int socket) {
    CAUSEWAY_CHECK(::posix_spawn_file_actions_init(&actions_) == 0 &&
                       ::posix_spawnattr_init(&attributes_) == 0,
                   "no memory to start a process");
    note(::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0));
    note(::posix_spawn_file_actions_adddup2(&actions_, socket, kChildSocket));
    note(::posix_spawn_file_actions_addclosefrom_np(&actions_, kChildSocket + 1));
    sigset_t blocked, standard;
    ::sigemptyset(&blocked);
    for (const int one : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&blocked, one);
    ::sigemptyset(&standard);
    for (const int one : {SIGPIPE, SIGCHLD}) ::sigaddset(&standard, one);
    note(::posix_spawnattr_setsigmask(&attributes_, &blocked));
    note(::posix_spawnattr_setsigdefault(&attributes_, &standard));
    note(::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> start(Texts& arguments, Texts& environment) {
    pid_t pid = -1;
    if (failure_ == 0) {
      failure_ = ::posix_spawn(&pid, arguments.front().c_str(), &actions_, &attributes_,
                               arguments.data(), environment.data());
    }
    if (failure_ != 0) return io_error("starting " + arguments.front(), failure_);
    return pid;
  }

 private:
  void note(int failure) {
    if (failure_ == 0) failure_ = failure;
  }
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int failure_ = 0;
};

std::string in_words(int status) {
  if (WIFSIGNALED(status)) {
    return "ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           ::strsignal(WTERMSIG(status)) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Child::Child(pid_t pid) : pid_(pid) {
#ifdef SYS_pidfd_open
  handle_ = weights::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#endif
}

Result<Child> Child::start(const std::vector<std::string>& command, int socket,
                           const std::vector<std::string>& environment) {
  CAUSEWAY_CHECK(!command.empty(), "no program to start");
  // A descriptor that is kChildSocket already would stay closed on exec.
  weights::FileDescriptor moved(::fcntl(socket, F_DUPFD_CLOEXEC, kChildSocket + 1));
  if (!moved.valid()) return io_error("copying a socket", errno);
  Texts arguments(command), variables(environment_with(environment));
  SpawnPlan plan(moved.get());
  CAUSEWAY_ASSIGN(const pid_t pid, plan.start(arguments, variables));
  return Child(pid);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      handle_(std::move(other.handle_)),
      ended_(std::move(other.ended_)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(handle_, other.handle_);
  std::swap(ended_, other.ended_);
  return *this;
}

Child::~Child() {
  kill();
  (void)reap(kKilledWithin);
}

void Child::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

bool Child::wait_now() {
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  ended_ = got > 0 ? in_words(status) : "ended";  // another thread has waited for it
  pid_ = -1;
  return true;
}

bool Child::reap(Nanos timeout) {
  bool over = false;  // a debugger may have the end first
  for (Nanos waited; pid_ > 0 && !wait_now(); waited += kEndLook) {
    if (waited >= timeout) return false;
    const timespec look{0, kEndLook.count};
    pollfd handle{over ? -1 : handle_.get(), POLLIN, 0};  // of none: only the time passes
    over = ::ppoll(&handle, 1, &look, nullptr) > 0;
  }
  return true;
}

}  // namespace causeway::worker
