// How long `causeway serve` takes from the start of its process until a client has a token.
#pragma once

#include <filesystem>

#include "base/clock.h"
#include "base/result.h"
#include "bench/slice_parts.h"

namespace causeway::bench {

// Serves the model's folder in a process of its own, which is ended afterwards. Of `slice` count
// device and memory. kUnavailable when the server ends early, or answers with an error.
Result<Nanos> serve_to_first_token(const std::filesystem::path& model, const SliceSettings& slice,
                                   const Clock& clock);

}  // namespace causeway::bench
