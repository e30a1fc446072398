// A request that has been validated once, and says so by its type.
//
// Engine::submit() makes it on the thread that asks, because that reads the whole prompt; the
// engine's loop takes nothing else (EngineCore::submit), and reads none of it again.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "engine/model_facts.h"
#include "request/request.h"

namespace causeway::engine {

class CheckedRequest {
 public:
  // The request could run on an engine with `frames` frames, of a model of these facts.
  // kInvalidArgument says, with the numbers, why not.
  static Result<CheckedRequest> check(request::Request request, const ModelFacts& facts,
                                      std::int64_t frames);

  const request::Request& operator*() const { return request_; }
  const request::Request* operator->() const { return &request_; }
  request::Request take() && { return std::move(request_); }

 private:
  explicit CheckedRequest(request::Request request) : request_(std::move(request)) {}

  request::Request request_;
};

// Whether all of its KV fits into `frames` frames: of a request whose length was found to be right,
// where a slice has fewer than when it was checked. kInvalidArgument, with the numbers.
Status check_frames(const request::Request& request, const ModelFacts& facts, std::int64_t frames);

}  // namespace causeway::engine
