#include "worker/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace causeway::worker {
namespace {

using weights::FileDescriptor;

constexpr std::size_t kHeader = 5;
constexpr std::size_t kReadAtOnce = 32 << 10;
constexpr std::size_t kDescriptorsMax = 8;  // that wait for their frames

Error gone(int cause) {
  return unavailable(std::string("the other process has closed the connection") +
                     (cause != 0 ? std::string(": ") + std::strerror(cause) : ""));
}

// Room for descriptors in a message's control data, aligned as the system wants it.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> bytes{};
};

void attach(msghdr& message, Control& control, int descriptor) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof descriptor);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
}

void detach(msghdr& message, std::deque<FileDescriptor>& descriptors) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
      descriptors.emplace_back(descriptor);
    }
  }
}

}  // namespace

Result<std::unique_ptr<Channel>> Channel::open(FileDescriptor socket, const ChannelLimits& limits) {
  int domain = 0, type = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || domain != AF_UNIX ||
      type != SOCK_STREAM) {
    return invalid_argument("descriptor " + std::to_string(socket.get()) +
                            " is no connection to a supervisor: workers are started by the server");
  }
  FileDescriptor wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.valid()) return io_error("eventfd", errno);
  return std::make_unique<Channel>(std::move(socket), std::move(wakeup), limits);
}

Channel::Channel(FileDescriptor socket, FileDescriptor wakeup, const ChannelLimits& limits)
    : socket_(std::move(socket)), wakeup_(std::move(wakeup)), limits_(limits) {}

Result<std::size_t> Channel::put(std::span<const std::byte> bytes, int descriptor) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control;
  if (descriptor >= 0) attach(message, control, descriptor);
  while (true) {
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    // Too many descriptors are on their way: as when the socket is full.
    if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) return std::size_t{0};
    return gone(errno);
  }
}

Status Channel::send(std::span<const std::byte> message, int descriptor) {
  if (message.size() > to_size(limits_.message_max)) {
    return exhausted("a message of " + std::to_string(message.size()) +
                     " bytes is too long for a worker");
  }
  Queued frame;
  const auto length = static_cast<std::uint32_t>(message.size());
  frame.bytes.resize(kHeader + message.size());
  std::memcpy(frame.bytes.data(), &length, sizeof length);
  frame.bytes[sizeof length] = std::byte{descriptor >= 0};
  if (!message.empty()) {
    std::memcpy(frame.bytes.data() + kHeader, message.data(), message.size());
  }

  const std::scoped_lock lock(mutex_);
  if (queue_.empty()) {
    CAUSEWAY_ASSIGN(frame.sent, put(frame.bytes, descriptor));
    if (frame.sent == frame.bytes.size()) return {};
  }
  const Bytes left(static_cast<std::int64_t>(frame.bytes.size() - frame.sent));
  // What has begun must end, or the other side could make nothing of what follows.
  if (frame.sent == 0 && left > limits_.queued_max - queued_) {
    return exhausted("the other process does not read what it is sent");
  }
  if (descriptor >= 0 && frame.sent == 0) {
    frame.descriptor = FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!frame.descriptor.valid()) return io_error("copying a descriptor", errno);
  }
  queued_ += left;
  queue_.push_back(std::move(frame));
  wake();  // receive() is to wait for room as well
  return {};
}

Status Channel::flush() {
  const std::scoped_lock lock(mutex_);
  while (!queue_.empty()) {
    Queued& frame = queue_.front();
    const std::span<const std::byte> left = std::span(frame.bytes).subspan(frame.sent);
    CAUSEWAY_ASSIGN(const std::size_t sent, put(left, frame.descriptor.get()));
    if (sent == 0) return {};
    frame.descriptor = FileDescriptor();  // with the first byte
    frame.sent += sent;
    queued_ -= Bytes(static_cast<std::int64_t>(sent));
    if (frame.sent == frame.bytes.size()) queue_.pop_front();
  }
  return {};
}

Status Channel::read() {
  if (begin_ > 0 && (begin_ == buffer_.size() || begin_ > kReadAtOnce)) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kReadAtOnce);
  iovec part{buffer_.data() + had, kReadAtOnce};
  msghdr message{};
  Control control;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int cause = errno;
  buffer_.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
  if (got == 0) return gone(0);
  if (got < 0) {
    const bool later = cause == EAGAIN || cause == EWOULDBLOCK || cause == EINTR;
    return later ? Status() : Status(gone(cause));
  }
  detach(message, descriptors_);
  if ((message.msg_flags & MSG_CTRUNC) != 0 || descriptors_.size() > kDescriptorsMax) {
    return corrupt("descriptors that no message asked for");
  }
  return {};
}

Result<std::optional<Received>> Channel::next() {
  const std::size_t there = buffer_.size() - begin_;
  if (there < kHeader) return std::optional<Received>();
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data() + begin_, sizeof length);
  const auto descriptors = static_cast<std::size_t>(buffer_[begin_ + sizeof length]);
  if (length > to_size(limits_.message_max) || descriptors > 1) {
    return corrupt("what comes from the other process are no messages");
  }
  if (there - kHeader < length) return std::optional<Received>();
  if (descriptors > descriptors_.size()) {
    return corrupt("a message came without its descriptor");
  }
  Received received;
  const auto begin = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_ + kHeader);
  received.message.assign(begin, begin + static_cast<std::ptrdiff_t>(length));
  begin_ += kHeader + length;
  if (descriptors == 1) {
    received.descriptor = std::move(descriptors_.front());
    descriptors_.pop_front();
  }
  return std::optional(std::move(received));
}

Result<std::optional<Received>> Channel::receive(Nanos timeout) {
  CAUSEWAY_ASSIGN(auto ready, next());
  quiet_ = !ready.has_value();
  if (ready) return ready;
  short wanted = POLLIN;
  {
    const std::scoped_lock lock(mutex_);
    if (!queue_.empty()) wanted |= POLLOUT;
  }
  // Only the end of a witness is of interest, which poll() always reports; -1 is ignored.
  std::array<pollfd, 3> polled{pollfd{socket_.get(), wanted, 0}, pollfd{wakeup_.get(), POLLIN, 0},
                               pollfd{witness_.get(), 0, 0}};
  const Nanos left = std::max(timeout, Nanos(0));
  const timespec wait{left.count / seconds(1).count, left.count % seconds(1).count};
  const int count = ::ppoll(polled.data(), polled.size(), &wait, nullptr);
  if (count < 0 && errno != EINTR) return io_error("waiting for the other process", errno);
  if (count <= 0) return std::optional<Received>();
  if (polled[1].revents != 0) {
    std::uint64_t ignored = 0;
    (void)!::read(wakeup_.get(), &ignored, sizeof ignored);
  }
  Status flushed;
  if ((polled[0].revents & POLLOUT) != 0) flushed = flush();
  quiet_ = (polled[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0;
  // What the other side said before it went is heard: read() finds that it has gone behind that.
  CAUSEWAY_TRY(quiet_ ? flushed : read());
  if (quiet_ && polled[2].revents != 0) {
    return unavailable("the other process has closed the connection: it has ended");
  }
  return next();
}

void Channel::wake() {
  const std::uint64_t one = 1;
  (void)!::write(wakeup_.get(), &one, sizeof one);
}

}  // namespace causeway::worker
