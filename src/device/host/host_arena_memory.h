// Memory of the CPU backend's arenas: a reserved range without access; extents are populated when
// handed out and lose access when given back, so that use after free faults.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "device/arena.h"

namespace causeway::device {

// The system's calls that change what is at addresses. Those of tests fail where the system rarely
// does.
struct HostArenaCalls {
  struct Map {
    Bytes bytes;
    int protection = 0;  // of mmap, as are the flags
    int flags = 0;
  };
  struct Move {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    Bytes bytes;
  };
  HostArenaCalls();  // the system's own

  // New memory at addresses that were free; null and errno.
  std::function<std::byte*(const Map&)> map;
  // Moves what is at `from` in the place of what is at `to`; false and errno.
  std::function<bool(const Move&)> move;
};

// kInvalidArgument for an absurd size, kResourceExhausted when the addresses cannot be reserved.
Result<std::unique_ptr<ArenaMemory>> reserve_host_arena(Bytes bytes, Bytes extent,
                                                        HostArenaCalls calls = {});

}  // namespace causeway::device
