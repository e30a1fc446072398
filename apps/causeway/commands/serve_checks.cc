#include "commands/serve_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::app {
namespace {

std::string shown(Bytes bytes) {
  if (bytes < mib(10)) return fmt::format("{} KiB", bytes.count / kib(1).count);
  return fmt::format("{} MiB", bytes.count / mib(1).count);
}

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// `room`: where; `option`: what sets it.
Status check_pinned(const std::vector<ServedModel>& models, Bytes room, const char* where,
                    const char* option, const auto& taken_by) {
  Bytes together;
  std::vector<std::string> names;
  for (const ServedModel& model : models) {
    if (!model.pinned) continue;
    together += taken_by(model.bytes);
    names.push_back(fmt::format("{} ({})", model.name, shown(taken_by(model.bytes))));
  }
  if (together <= room) return {};
  return exhausted(fmt::format("the pinned models take {} together, and there are {} of {}: {}; "
                               "pin fewer or raise {}",
                               shown(together), shown(room), where, listed(names), option));
}

}  // namespace

Status check_pins(const std::vector<std::string>& pins, const std::vector<std::string>& names) {
  for (const std::string& pin : pins) {
    if (std::find(names.begin(), names.end(), pin) != names.end()) continue;
    return invalid_argument("--pin " + pin + ": no such model; there are " + listed(names));
  }
  return {};
}

Status check_memory(const std::vector<ServedModel>& models, const ServeMemory& memory) {
  const bool cached = memory.device.budget > Bytes(0);
  const auto on_device = [&](Bytes bytes) { return memory.device.taken_by(bytes); };
  for (const ServedModel& model : models) {
    if (memory.single && model.bytes > memory.pool) {
      return exhausted(fmt::format("the model {} needs {}, more than the pool's {}; raise "
                                   "--pool-memory-bytes",
                                   model.name, shown(model.bytes), shown(memory.pool)));
    }
    if (memory.device_wanted && cached && on_device(model.bytes) > memory.device.budget) {
      return exhausted(fmt::format("the weights of {} take {} of the device, and "
                                   "--weights-memory-bytes allows {} (in units of {}); raise it",
                                   model.name, shown(on_device(model.bytes)),
                                   shown(memory.device.budget), shown(memory.device.extent)));
    }
  }
  CAUSEWAY_TRY(check_pinned(models, memory.pool, "host memory for weights", "--pool-memory-bytes",
                            [](Bytes bytes) { return bytes; }));
  if (!cached) return {};
  return check_pinned(models, memory.device.budget, "device memory for cached weights",
                      "--weights-memory-bytes", on_device);
}

Status check_host_cache(Bytes weights, Bytes kv, Bytes left) {
  if (weights + kv <= left) return {};
  return exhausted(fmt::format("--weights-memory-bytes {} and {} for KV are more than the {} that "
                               "this machine or container has left",
                               shown(weights), shown(kv), shown(left)));
}

}  // namespace causeway::app
