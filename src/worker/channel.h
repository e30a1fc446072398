// One end of the stream between supervisor and worker: whole messages, and descriptors with them.
//
//   frame │ length of the message (4 bytes) │ descriptors, 0 or 1 (1 byte) │ message │
//
// send() may be called from any thread and never blocks; receive() and its time from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weights/file.h"

namespace causeway::worker {

struct ChannelLimits {
  Bytes message_max = mib(64);
  // Bytes that the other side has not read, beyond what the socket holds.
  Bytes queued_max = mib(64);
};

struct Received {
  std::vector<std::byte> message = {};
  weights::FileDescriptor descriptor;
};

class Channel {
 public:
  // Takes a stream socket of the Unix domain. kInvalidArgument when it is none.
  static Result<std::unique_ptr<Channel>> open(weights::FileDescriptor socket,
                                               const ChannelLimits& limits = {});
  Channel(weights::FileDescriptor socket, weights::FileDescriptor wakeup,
          const ChannelLimits& limits);  // by open()
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Sends a message; messages arrive in the order of the calls. `descriptor` is sent along, and
  // remains the caller's. kResourceExhausted: the message is too long, or too much is queued, and
  // nothing of it is sent; kUnavailable: the other side has gone.
  Status send(std::span<const std::byte> message, int descriptor = -1);

  // The next message; none after `timeout`, after wake(), or when only a part of it has come. Sends
  // queued messages meanwhile. kUnavailable: the other side has gone; kCorrupt: the bytes are no
  // frames, or a descriptor is missing or unexpected.
  Result<std::optional<Received>> receive(Nanos timeout);
  // From now on the other side has gone, too, when `witness` hangs up (worker/witness.h) and there
  // is nothing left to read. For the receiving thread.
  void watch(weights::FileDescriptor witness) { witness_ = std::move(witness); }
  // Whether the last receive() found nothing to read. For the receiving thread.
  bool quiet() const { return quiet_; }
  // Ends the present receive(), or the next one. Any thread.
  void wake();

 private:
  struct Queued {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    weights::FileDescriptor descriptor;
  };

  // Writes the first bytes of a frame, as many as the socket takes now, and returns their number.
  // With mutex_ held.
  Result<std::size_t> put(std::span<const std::byte> bytes, int descriptor);
  Status flush();
  Status read();
  Result<std::optional<Received>> next();

  const weights::FileDescriptor socket_;
  const weights::FileDescriptor wakeup_;  // an eventfd
  const ChannelLimits limits_;

  std::mutex mutex_;  // guards what follows
  std::deque<Queued> queue_;
  Bytes queued_;

  // Used by the receiving thread.
  std::vector<std::byte> buffer_;  // bytes that have come
  std::size_t begin_ = 0;          // of the bytes that have not been taken
  std::deque<weights::FileDescriptor> descriptors_;
  bool quiet_ = true;
  weights::FileDescriptor witness_;  // invalid: there is none
};

}  // namespace causeway::worker
