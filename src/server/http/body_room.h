// The part that one large body takes of the memory for all that are read or prepared at the time. A
// limit for each alone would let thousands of connections take as many times as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "server/http/context.h"

namespace causeway::server {

// Used by one connection's thread.
class BodyRoom {
 public:
  explicit BodyRoom(ServerContext& context) : context_(context) {}
  ~BodyRoom() { release(); }
  BodyRoom(const BodyRoom&) = delete;
  BodyRoom& operator=(const BodyRoom&) = delete;

  // Whether the body may have so many bytes by now. Small ones always may.
  bool grow_to(std::size_t body_bytes) {
    const auto bytes = static_cast<std::int64_t>(body_bytes);
    if (body_bytes <= ServerContext::kSmallBodyBytes || bytes <= taken_) return true;
    const std::int64_t more = bytes - taken_;
    if (context_.bodies_bytes.fetch_add(more) + more > context_.options.limits.bodies_bytes_max) {
      context_.bodies_bytes.fetch_sub(more);
      return false;
    }
    taken_ = bytes;
    return true;
  }

  // Once the body is gone.
  void release() {
    context_.bodies_bytes.fetch_sub(taken_);
    taken_ = 0;
  }

 private:
  ServerContext& context_;
  std::int64_t taken_ = 0;
};

struct Body {
  explicit Body(ServerContext& context) : room(context) {}
  // What came of it is elsewhere.
  void drop() {
    std::string().swap(text);
    room.release();
  }

  std::string text;
  BodyRoom room;
};

}  // namespace causeway::server
