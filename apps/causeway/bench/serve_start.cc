#include "bench/serve_start.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "bench/child_process.h"
#include "client/load_generator.h"
#include "weights/file.h"

namespace causeway::bench {
namespace {

constexpr std::int64_t kPrompt = 16;
constexpr Nanos kPause = millis(2);  // between tries to connect

// One that is free now.
Result<int> free_port() {
  const weights::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return io_error("a socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(address);
  if (::bind(listener.get(), any, bytes) != 0 || ::getsockname(listener.get(), any, &bytes) != 0) {
    return io_error("a free port", errno);
  }
  return static_cast<int>(ntohs(address.sin_port));
}

std::vector<std::string> serve_arguments(const std::filesystem::path& model, int port,
                                         const SliceSettings& slice) {
  std::vector<std::string> arguments = {"serve",
                                        model.string(),
                                        "--port",
                                        std::to_string(port),
                                        "--device",
                                        slice.device,
                                        "--gpu",
                                        std::to_string(slice.gpu),
                                        "--log-level",
                                        "warning",
                                        "--kv-frame-bytes",
                                        std::to_string(slice.kv_frame.count)};
  const auto size = [&](const char* name, Bytes bytes) {
    if (bytes == Bytes(0)) return;
    arguments.emplace_back(name);
    arguments.push_back(std::to_string(bytes.count));
  };
  size("--kv-cache-memory-bytes", slice.kv);
  size("--pool-memory-bytes", slice.pool);
  return arguments;
}

}  // namespace

Result<Nanos> serve_to_first_token(const std::filesystem::path& model, const SliceSettings& slice,
                                   const Clock& clock) {
  CAUSEWAY_ASSIGN(const int port, free_port());
  LoadOptions options;
  options.endpoint.port = std::to_string(port);
  options.endpoint.prefix = "/v1";
  options.timeout = kPatience;
  LoadRequest request{.arrival = {}, .model = model.filename().string(), .prompt = {}};
  for (std::int64_t i = 0; i < kPrompt; ++i) request.prompt.push_back(static_cast<TokenId>(i));
  request.output_tokens = 1;

  const Nanos begin = clock.now();
  CAUSEWAY_ASSIGN(const auto child, app::ChildProcess::start(serve_arguments(model, port, slice)));
  while (clock.now() - begin < kPatience) {
    const LoadRecord record = run_load({request}, options, clock).front();
    if (record.outcome.ok() && !record.outcome.token_times.empty()) {
      return record.outcome.token_times.front() - begin;
    }
    if (record.outcome.http_status != 0) return unavailable("serve: " + record.outcome.error);
    // It does not listen yet, and says nothing, or has ended.
    const auto line = child->read_line(kPause);
    if (!line.ok() && line.error().code != ErrorCode::kDeadlineExceeded) return line.error();
  }
  return Error{ErrorCode::kDeadlineExceeded, "serve did not answer in time"};
}

}  // namespace causeway::bench
