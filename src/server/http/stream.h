// The outputs of one HTTP request's choices, on their way from the worker to the connection's
// coroutine. I/O thread only.
#pragma once

#include <cstddef>
#include <vector>

#include "server/http/event.h"
#include "server/http/worker.h"

namespace causeway::server {

struct StreamItem {
  std::size_t choice = 0;
  Nanos at;
  request::Output output;
};

class Stream {
 public:
  // The connection's news() is set on every delivery. While a write is under way
  // `queued_tokens_max` tokens may wait behind it; one more and the stream has overflowed: it keeps
  // nothing more, and the write is given up.
  Stream(Connection& connection, std::size_t queued_tokens_max);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Makes a new id; its outputs come here as those of the next choice.
  RequestId add();
  // A new id for a choice, whose request goes on under it.
  RequestId renew(std::size_t choice);
  const std::vector<RequestId>& ids() const { return ids_; }
  void detach(std::size_t choice) { worker_.detach(ids_[choice]); }

  void deliver(StreamItem item);
  std::vector<StreamItem> take();

  void set_writing(bool writing) { writing_ = writing; }
  bool overflowed() const { return overflowed_; }

 private:
  Connection& connection_;
  Worker& worker_;
  std::size_t queued_tokens_max_;
  std::size_t queued_tokens_ = 0;
  bool writing_ = false;
  bool overflowed_ = false;
  std::vector<RequestId> ids_;
  std::vector<StreamItem> queue_;
};

}  // namespace causeway::server
