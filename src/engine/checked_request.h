// A request that has been validated once, as its type shows. Engine::submit() validates it on the
// caller's thread, because that reads the whole prompt. The engine's loop takes only such requests
// (EngineCore::submit), and validates nothing again.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "engine/model_facts.h"
#include "request/request.h"

namespace causeway::engine {

class CheckedRequest {
 public:
  // Makes it if the request can run on an engine with `frames` frames and a model of these facts.
  // kInvalidArgument tells why not, with the numbers.
  static Result<CheckedRequest> check(request::Request request, const ModelFacts& facts,
                                      std::int64_t frames);

  const request::Request& operator*() const { return request_; }
  const request::Request* operator->() const { return &request_; }
  request::Request take() && { return std::move(request_); }

 private:
  explicit CheckedRequest(request::Request request) : request_(std::move(request)) {}

  request::Request request_;
};

// Checks that all of its KV fits into `frames` frames, for a slice that has fewer than when the
// request was checked. kInvalidArgument, with the numbers.
Status check_frames(const request::Request& request, const ModelFacts& facts, std::int64_t frames);

}  // namespace causeway::engine
