// The preload library's settings, from environment variables. A variable that makes no sense counts
// as unset and is named in `complaints`, because a setting must not end the program that it is for.
//
//   CAUSEWAY_PRELOAD=off            every call is native
//   CAUSEWAY_THRESHOLD=12M          smallest copy taken over
//   CAUSEWAY_CHUNK=4M               of a transfer, over each link
//   CAUSEWAY_DEPTH=2                chunks outstanding on each link and direction
//   CAUSEWAY_GPUS=0,1               that take part, as CUDA counts in this process (default: all)
//   CAUSEWAY_RELAYS=1               of them, that carry bytes of others (default: all of them)
//   CAUSEWAY_STAGING=64M            of each relay's memory at most
//   CAUSEWAY_SYNC=wait|native       synchronous copies: ours, or the driver's, which are in order
//                                   with what other threads enqueue meanwhile
//   CAUSEWAY_ASYNC=native|wait|hold asynchronous copies: see Async, and docs/design/preload.md
//   CAUSEWAY_ORDER=value|kernel     how the stream waits (docs/decisions/0005-stand-in.md)
//   CAUSEWAY_OPEN=background|wait   whether the first large copy waits for the session
//   CAUSEWAY_LINK_MAP=FILE|none     a map that `causeway topology --measure` keeps; by default the
//                                   only one in its folder that is of as many GPUs
//   CAUSEWAY_STATISTICS=stderr|FILE what was done, written when the process ends; %p: its id
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace causeway::preload {

enum class Order { kValue, kKernel };

// kNative: asynchronous copies are the driver's. kWait: they are taken over when they can begin at
// once, and the call returns when the bytes are in place. kHold: they are taken over, and the
// stream is held until the bytes are in place.
enum class Async { kNative, kWait, kHold };

struct Settings {
  bool off = false;
  Bytes threshold = mib(12);
  Bytes chunk = mib(4);
  int depth = 2;
  std::optional<std::vector<int>> gpus;
  std::optional<std::vector<int>> relays;
  Bytes staging = mib(64);
  bool native_sync = false;
  Async async = Async::kNative;
  Order order = Order::kValue;
  bool wait_for_opening = false;
  std::string link_map;
  std::string link_map_folder;  // where the topology command keeps maps; "": not known
  std::string statistics;  // "": none
  std::vector<std::string> complaints;
};

// `variable` returns a variable's value, or nullptr.
Settings read_settings(const std::function<const char*(const char*)>& variable);
// Reads the environment of this process.
Settings read_settings();

}  // namespace causeway::preload
