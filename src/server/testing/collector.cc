#include "server/testing/collector.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "base/check.h"

namespace causeway::server::testing {
namespace {

constexpr int kLookMs = 20;
constexpr std::chrono::seconds kPatience{20};

// The bytes behind the head, once all that Content-Length says are there.
bool complete(const std::string& request, std::string& body) {
  const std::size_t head = request.find("\r\n\r\n");
  const std::size_t length = request.find("Content-Length: ");
  if (head == std::string::npos || length == std::string::npos) return false;
  const std::size_t wanted = std::stoul(request.substr(length + 16));
  if (request.size() < head + 4 + wanted) return false;
  body = request.substr(head + 4, wanted);
  return true;
}

bool readable(int socket) {
  pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, kLookMs) > 0;
}

}  // namespace

Collector::Collector() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const of_any = reinterpret_cast<sockaddr*>(&address);
  CAUSEWAY_CHECK(::bind(listener_, of_any, size) == 0 && ::listen(listener_, 16) == 0 &&
                     ::getsockname(listener_, of_any, &size) == 0,
                 "the test has no port");
  port_ = ntohs(address.sin_port);
  answer_status("200 OK");
  thread_ = std::thread([this] { run(); });
}

Collector::~Collector() {
  ending_ = true;
  thread_.join();
  ::close(listener_);
}

void Collector::answer(std::string bytes) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(bytes);
}

void Collector::answer_status(const std::string& status, const std::string& body) {
  answer("HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body);
}

bool Collector::wait_for(std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return bodies_.size() >= count; });
}

std::vector<std::string> Collector::bodies() {
  const std::lock_guard lock(mutex_);
  return bodies_;
}

void Collector::run() {
  while (!ending_) {
    if (!readable(listener_)) continue;
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) continue;
    serve(client);
    ::close(client);
  }
}

void Collector::serve(int client) {
  std::string request, body;
  char bytes[4096];
  while (!ending_ && !complete(request, body)) {
    if (!readable(client)) continue;
    const ssize_t count = ::recv(client, bytes, sizeof bytes, 0);
    if (count <= 0) return;
    request.append(bytes, static_cast<std::size_t>(count));
  }
  std::string answer;
  {
    const std::lock_guard lock(mutex_);
    bodies_.push_back(body);
    answer = answer_;
    changed_.notify_all();
  }
  if (!answer.empty()) {
    (void)::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    return;
  }
  // Until the other side leaves.
  while (!ending_ && (!readable(client) || ::recv(client, bytes, sizeof bytes, 0) > 0)) {
  }
}

}  // namespace causeway::server::testing
