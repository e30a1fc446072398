// Ollama's `keep_alive`: how long a model is to stay after its request has ended.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"
#include "server/api/fields.h"
#include "server/api/generation_request.h"

namespace causeway::server {

inline constexpr Nanos kKeepForEver{-1};

// A duration as Go writes it ("5m", "1h30m", "1.5h", "250ms", "-1m"), or a number of seconds
// ("300", "-1"). Below zero: kKeepForEver. nullopt: neither, or longer than a year.
std::optional<Nanos> parse_keep_alive(std::string_view text);

// The field, a string or a number of seconds.
void parse_keep_alive(Fields& fields, GenerationRequest& out);

}  // namespace causeway::server
