#include "server/testing/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace causeway::server::testing {
namespace {

constexpr int kPatienceMs = 60'000;

}  // namespace

std::vector<std::string> Answer::events() const {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = std::min(body.find("\n\n", at), body.size());
    const std::string event = body.substr(at, end - at);
    if (event.starts_with("data: ")) out.push_back(event.substr(6));
    at = end + 2;
  }
  return out;
}

Client::Client(std::uint16_t port) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
}

Client::~Client() { close(); }

void Client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Client::close_sending() { ::shutdown(socket_, SHUT_WR); }

void Client::set_receive_buffer(int bytes) {
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd ready{socket_, POLLOUT, 0};
    if (::poll(&ready, 1, kPatienceMs) <= 0) return false;
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool Client::fill() {
  pollfd ready{socket_, POLLIN, 0};
  if (socket_ < 0 || ::poll(&ready, 1, kPatienceMs) <= 0) return false;
  char bytes[65536];
  const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  pending_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

std::string Client::take(std::size_t bytes) {
  while (pending_.size() < bytes && fill()) {
  }
  const std::string out = pending_.substr(0, bytes);
  pending_.erase(0, out.size());
  return out;
}

std::string Client::read_until(std::string_view needle) {
  std::size_t at = pending_.find(needle);
  while (at == std::string::npos && fill()) at = pending_.find(needle);
  return take(at == std::string::npos ? pending_.size() : at + needle.size());
}

std::string Client::take_line() {
  std::string line = read_until("\r\n");
  if (line.ends_with("\r\n")) line.resize(line.size() - 2);
  return line;
}

std::string Client::read_chunks() {
  std::string out;
  while (true) {
    const std::string line = take_line();
    const std::size_t size = line.empty() ? 0 : std::stoul(line, nullptr, 16);
    out += take(size);
    take_line();
    if (size == 0) return out;
  }
}

Answer Client::read_answer(bool head_only) {
  Answer answer;
  const std::string first = take_line();
  if (first.size() < 12) return answer;
  answer.status = std::stoi(first.substr(9, 3));
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    answer.headers[name] = colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  if (head_only || answer.status == 100) return answer;
  if (answer.headers.contains("content-length")) {
    answer.body = take(std::stoul(answer.headers["content-length"]));
  } else if (answer.headers.contains("transfer-encoding")) {
    answer.body = read_chunks();
  } else {
    while (fill()) {
    }
    answer.body = take(pending_.size());
  }
  return answer;
}

bool Client::readable_within(int milliseconds) {
  pollfd ready{socket_, POLLIN, 0};
  return ::poll(&ready, 1, milliseconds) > 0;
}

bool Client::closed_within(int milliseconds) {
  while (true) {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds) <= 0) return false;
    char bytes[4096];
    if (::recv(socket_, bytes, sizeof bytes, 0) <= 0) return true;
  }
}

Answer Client::get(std::string_view target, std::string_view headers) {
  send("GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
       "\r\n");
  return read_answer();
}

Answer Client::post(std::string_view target, std::string_view body, std::string_view headers) {
  send(post_request(target, body, headers));
  return read_answer();
}

std::string post_request(std::string_view target, std::string_view body, std::string_view headers) {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + "application/json\r\n" +
         std::string(headers) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

}  // namespace causeway::server::testing
