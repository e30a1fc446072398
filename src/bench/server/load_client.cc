#include "bench/server/load_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"

namespace causeway::server {
namespace {

constexpr char kLetter = 'a';  // NullFleet's

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

std::string request_of(const LoadOptions& options) {
  const std::string body =
      R"({"model":"null","stream":true,"messages":[{"role":"user","content":"Why is the sky )"
      R"(blue, and the sunset red? Answer in one paragraph."}],"max_tokens":)" +
      std::to_string(options.tokens) + "}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct Stream {
  Descriptor socket;
  int requests_left = 0;
  Nanos next_start;
  bool waiting = true;  // for next_start
  Nanos sent;
  bool first_byte = false;
  std::int64_t tokens = 0;
  bool done = false;  // [DONE] has come
  bool last_chunk = false;
  std::string tail;  // the beginning of a line
};

class Load {
 public:
  Load(const LoadOptions& options, const Clock& clock)
      : options_(options), clock_(clock), random_(options.seed), request_(request_of(options)) {}

  Result<LoadResult> run();

 private:
  Status connect_all();
  Result<Descriptor> connect_one() const;
  void start_due();
  void start(Stream& stream);
  void read(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  static bool take_line(Stream& stream, std::string_view line);
  void end(Stream& stream, bool complete);
  int wait_ms() const;

  const LoadOptions& options_;
  const Clock& clock_;
  Random random_;
  std::string request_;
  Descriptor epoll_;
  std::vector<Stream> streams_;
  std::int64_t open_ = 0;
  LoadResult result_;
};

Result<Descriptor> Load::connect_one() const {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return io_error("socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options_.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return io_error("connect", errno);
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return io_error("fcntl", errno);
  return socket;
}

Status Load::connect_all() {
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll_.get() < 0) return io_error("epoll_create1", errno);
  streams_.resize(static_cast<std::size_t>(options_.streams));
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    CAUSEWAY_ASSIGN(streams_[i].socket, connect_one());
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, streams_[i].socket.get(), &event) != 0) {
      return io_error("epoll_ctl", errno);
    }
    streams_[i].requests_left = options_.requests_per_stream;
  }
  const Nanos now = clock_.now();
  for (Stream& stream : streams_) {
    stream.next_start = now + Nanos(random_.below(options_.spread.count + 1));
  }
  open_ = options_.streams;
  return {};
}

void Load::start(Stream& stream) {
  stream.waiting = false;
  stream.first_byte = false;
  stream.tokens = 0;
  stream.done = false;
  stream.last_chunk = false;
  stream.tail.clear();
  stream.sent = clock_.now();
  const ssize_t sent = ::send(stream.socket.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request_.size())) end(stream, false);
}

void Load::start_due() {
  const Nanos now = clock_.now();
  for (Stream& stream : streams_) {
    if (stream.waiting && stream.requests_left > 0 && stream.next_start <= now) start(stream);
  }
}

void Load::end(Stream& stream, bool complete) {
  ++(complete ? result_.complete : result_.failed);
  stream.waiting = true;
  if (!complete) {
    result_.failed += stream.requests_left - 1;
    stream.requests_left = 0;
    stream.socket = Descriptor();
  } else {
    --stream.requests_left;
  }
  if (stream.requests_left == 0) --open_;
  stream.next_start = clock_.now() + Nanos(random_.below(options_.spread.count + 1));
}

void Load::take(Stream& stream, std::string_view bytes) {
  if (!std::exchange(stream.first_byte, true)) {
    result_.first_byte_ns.record((clock_.now() - stream.sent).count);
  }
  stream.tail += bytes;
  std::size_t at = 0;
  bool ended = false;
  for (std::size_t end = stream.tail.find('\n'); end != std::string::npos && !ended;
       end = stream.tail.find('\n', at)) {
    ended = take_line(stream, std::string_view(stream.tail).substr(at, end - at));
    at = end + 1;
  }
  stream.tail.erase(0, at);
  if (ended) end(stream, stream.tokens == options_.tokens);
}

// True at the line that ends the answer.
bool Load::take_line(Stream& stream, std::string_view line) {
  constexpr std::string_view kContent = "\"content\":\"";
  if (stream.last_chunk) return true;
  if (line == "data: [DONE]") stream.done = true;
  if (stream.done && line == "0\r") stream.last_chunk = true;
  // The fleet says the same letter for every token; several may come in one event.
  std::size_t at = line.find(kContent);
  if (at == std::string_view::npos) return false;
  for (at += kContent.size(); at < line.size() && line[at] == kLetter; ++at) ++stream.tokens;
  return false;
}

void Load::read(Stream& stream) {
  std::array<char, 16384> bytes;
  const ssize_t got = ::recv(stream.socket.get(), bytes.data(), bytes.size(), 0);
  if (got > 0) return take(stream, {bytes.data(), static_cast<std::size_t>(got)});
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  end(stream, false);
}

// A millisecond while anything is to be started; else events only.
int Load::wait_ms() const {
  for (const Stream& stream : streams_) {
    if (stream.waiting && stream.requests_left > 0) return 1;
  }
  return 100;
}

Result<LoadResult> Load::run() {
  CAUSEWAY_TRY(connect_all());
  const Nanos begin = clock_.now();
  std::array<epoll_event, 256> events;
  while (open_ > 0) {
    if (clock_.now() - begin > options_.patience) {
      return Error{ErrorCode::kDeadlineExceeded,
                   std::to_string(open_) + " streams had not ended in time"};
    }
    start_due();
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms());
    for (int i = 0; i < count; ++i) read(streams_[events[static_cast<std::size_t>(i)].data.u64]);
  }
  result_.elapsed = clock_.now() - begin;
  return std::move(result_);
}

}  // namespace

Result<LoadResult> run_load(const LoadOptions& options, const Clock& clock) {
  return Load(options, clock).run();
}

}  // namespace causeway::server
