// A worker's process for tests:
//   worker_child --worker-socket FD [--version TEXT] [--misbehave KIND]
//                [--prepare-ms N] [--open-ms N] [--marks FOLDER] [--link BYTES_PER_SECOND]
//                [--socket-ms N: so long another process keeps its end of the socket open]
// or what holds back the end of another process, as a driver may: once that was killed, waitpid
// does not give it to its parent before this one has ended, with its socket:
//   worker_child --worker-socket FD --hold PID
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "base/log.h"
#include "worker/channel.h"
#include "worker/child.h"
#include "worker/testing/host_opener.h"

namespace causeway::worker::testing {
namespace {

using Options = std::map<std::string, std::string>;

Status say(Channel& channel, const Message& message) { return channel.send(encode(message)); }

std::vector<std::byte> half_a_frame() {
  std::vector<std::byte> bytes = encode(Outputs{0, {request::Output()}});
  bytes.resize(bytes.size() / 2);
  return bytes;
}

// What a worker that is broken says when it gets a request.
Status misbehave(Channel& channel, const std::string& kind, RequestId request) {
  request::Output output;
  output.request = request;
  if (kind == "token") output.tokens.push_back({1 << 30, 0, {}});
  if (kind == "garbage") return channel.send(half_a_frame());
  if (kind == "slice") return say(channel, Outputs{7, {output}});
  if (kind == "supervisor") return say(channel, Cancel{0, request});
  if (kind == "lost") {
    request::Observation seen;
    seen.lost = "the GPU fell off the bus";
    return say(channel, Observed{0, seen, {}});
  }
  if (kind == "twice") {
    output.finished = true;
    return say(channel, Outputs{0, {output, output}});
  }
  const bool steps = kind == "death in a step";
  if (steps || kind == "death while it waits") CAUSEWAY_TRY(say(channel, Queued{0, request}));
  if (steps) CAUSEWAY_TRY(say(channel, Stepping{0, {request}}));
  if (kind.starts_with("death")) std::_Exit(9);
  return say(channel, Outputs{0, {output}});
}

// As serve_worker(), without slices.
Status serve_badly(Channel& channel, const Options& options) {
  const std::string kind = options.at("--misbehave");
  if (kind == "silent") return {};
  CAUSEWAY_TRY(say(channel, Hello{.version = options.at("--version")}));
  bool opened = false;
  while (true) {
    CAUSEWAY_ASSIGN(const auto received, channel.receive(millis(20)));
    if (opened) CAUSEWAY_TRY(say(channel, Alive{}));
    if (!received) continue;
    CAUSEWAY_ASSIGN(const Message message, decode(received->message));
    if (std::holds_alternative<Prepare>(message)) CAUSEWAY_TRY(say(channel, Prepared{}));
    if (std::holds_alternative<Open>(message)) {
      CAUSEWAY_TRY(say(channel, Opened{{Opened::Slice{}}}));
      opened = true;
    } else if (const auto* attach = std::get_if<Attach>(&message)) {
      if (kind != "attach") CAUSEWAY_TRY(say(channel, Attached{attach->call, {}, {}, {}}));
    } else if (const auto* submit = std::get_if<Submit>(&message)) {
      CAUSEWAY_TRY(misbehave(channel, kind, submit->request.id));
    }
  }
}

// Takes its time, and leaves a file where it prepares, where it has, and where it opens a slice.
class SlowOpener final : public SliceOpener {
 public:
  explicit SlowOpener(const Options& options)
      : options_(options), opener_(std::atof(options.at("--link").c_str())) {}
  Result<std::unique_ptr<slice::Machine>> open_machine(const WorkerPlan& plan,
                                                       slice::ModelHome& home,
                                                       const Clock& clock) override {
    mark("prepares");
    pass("--prepare-ms");
    auto machine = opener_.open_machine(plan, home, clock);
    mark("prepared");
    return machine;
  }
  Result<std::unique_ptr<slice::Slice>> open_slice(const WorkerPlan& plan, std::size_t number,
                                                   slice::Machine& machine,
                                                   engine::OutputSink& sink) override {
    mark("opens");
    pass("--open-ms");
    return opener_.open_slice(plan, number, machine, sink);
  }

 private:
  void pass(const std::string& option) const {
    (void)::poll(nullptr, 0, std::atoi(options_.at(option).c_str()));
  }
  void mark(const std::string& what) const {
    const std::string& folder = options_.at("--marks");
    if (!folder.empty()) std::ofstream(folder + "/" + what + "-" + std::to_string(::getpid()));
  }

  const Options& options_;
  HostOpener opener_;
};

Status hold(int pid, int socket) {
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) return io_error("ptrace", errno);
  char byte = 'h';
  if (::write(socket, &byte, 1) != 1) return io_error("write", errno);
  (void)!::read(socket, &byte, 1);
  return {};
}

// As the kernel keeps a killed process's descriptors open while it unmaps much memory.
Status keep_socket(int milliseconds) {
  const pid_t keeper = ::fork();
  if (keeper < 0) return io_error("fork", errno);
  if (keeper > 0) return {};
  for (const int output : {0, 1, 2}) ::close(output);  // a test's caller waits for these
  (void)::poll(nullptr, 0, milliseconds);
  ::_exit(0);
}

Status run(int argc, char** argv) {
  Options options{{"--version", "test"}, {"--worker-socket", ""}, {"--misbehave", ""},
                  {"--prepare-ms", "0"}, {"--open-ms", "0"},      {"--marks", ""},
                  {"--hold", ""},        {"--link", "0"},         {"--socket-ms", "0"}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  weights::FileDescriptor socket(std::atoi(options["--worker-socket"].c_str()));
  if (!options["--hold"].empty()) return hold(std::atoi(options["--hold"].c_str()), socket.get());
  const int socket_ms = std::atoi(options["--socket-ms"].c_str());
  if (socket_ms > 0) CAUSEWAY_TRY(keep_socket(socket_ms));
  // A sibling may hold its end.
  (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  if (!options["--misbehave"].empty()) {
    CAUSEWAY_ASSIGN(const auto channel, Channel::open(std::move(socket)));
    return serve_badly(*channel, options);
  }
  const RealClock clock;
  SlowOpener opener(options);
  return serve_worker(std::move(socket), {.version = options["--version"]}, opener, clock);
}

}  // namespace
}  // namespace causeway::worker::testing

int main(int argc, char** argv) {
  causeway::set_up_logging("warning");
  const causeway::Status ran = causeway::worker::testing::run(argc, argv);
  if (ran.ok()) return 0;
  spdlog::error("{}", ran.error().message);
  return 1;
}
