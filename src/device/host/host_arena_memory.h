// Memory of the CPU backend's arenas: a reserved range without access; extents are populated when
// handed out and lose access when given back, so that use after free faults.
#pragma once

#include <memory>

#include "device/arena.h"

namespace causeway::device {

// kInvalidArgument for an absurd size, kResourceExhausted when the addresses cannot be reserved.
Result<std::unique_ptr<ArenaMemory>> reserve_host_arena(Bytes bytes, Bytes extent);

}  // namespace causeway::device
