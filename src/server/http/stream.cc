#include "server/http/stream.h"

#include <utility>

#include "server/http/connection.h"

namespace causeway::server {

Stream::Stream(Connection& connection, std::size_t queued_tokens_max)
    : connection_(connection),
      worker_(connection.worker()),
      queued_tokens_max_(queued_tokens_max) {}

Stream::~Stream() {
  for (const RequestId id : ids_) worker_.detach(id);
}

RequestId Stream::add() {
  const RequestId id = worker_.next_id();
  worker_.attach(id, this, ids_.size());
  ids_.push_back(id);
  return id;
}

RequestId Stream::renew(std::size_t choice) {
  detach(choice);
  const RequestId id = worker_.next_id();
  worker_.attach(id, this, choice);
  return ids_[choice] = id;
}

void Stream::deliver(StreamItem item) {
  queued_tokens_ += item.output.tokens.size();
  // Only a write that does not end makes a queue too long; a burst before the reader had its turn
  // does not.
  if (writing_ && queued_tokens_ > queued_tokens_max_ && !overflowed_) {
    overflowed_ = true;
    connection_.give_up_writing();
  }
  if (overflowed_) {
    queue_.clear();
  } else {
    queue_.push_back(std::move(item));
  }
  connection_.news().set();
}

std::vector<StreamItem> Stream::take() {
  queued_tokens_ = 0;
  return std::exchange(queue_, {});
}

}  // namespace causeway::server
