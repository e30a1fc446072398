// How much more memory this process may take before the system pushes back: the smallest of what
// the machine has available and what each control group above the process still allows.
//
// A control group's usage counts page cache, which the kernel gives back under pressure, so cached
// files are added back to its headroom. Both versions of control groups are understood.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace causeway::device {

struct MemoryHeadroom {
  Bytes bytes;
  std::string limited_by;  // for messages: "the machine's available memory", "the control group …"
};

// Where the kernel's files are mounted; tests pass folders of their own.
struct SystemPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// An error only when the machine does not tell how much memory it has. Control groups that cannot
// be read limit nothing.
Result<MemoryHeadroom> read_memory_headroom(const SystemPaths& paths = {});

}  // namespace causeway::device
