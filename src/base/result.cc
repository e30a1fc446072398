#include "base/result.h"

#include <system_error>

namespace causeway {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kResourceExhausted: return "resource exhausted";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kDeadlineExceeded: return "deadline exceeded";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kCorrupt: return "corrupt data";
    case ErrorCode::kIo: return "input/output error";
    case ErrorCode::kDevice: return "device error";
  }
  return "unknown error";
}

Error Error::with_context(std::string_view context) const {
  return {code, std::string(context) + ": " + message};
}

Error io_error(std::string_view what, int errno_value) {
  return {ErrorCode::kIo,
          std::string(what) + ": " + std::generic_category().message(errno_value)};
}

}  // namespace causeway
