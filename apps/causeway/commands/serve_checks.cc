#include "commands/serve_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "options.h"

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
  return exhausted(
      fmt::format("the pinned models take {} together, and there are {} of {}: {}; "
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
  // One that is larger is streamed.
  const auto on_device = [&](Bytes bytes) {
    return std::min(memory.device.taken_by(bytes), memory.device.budget);
  };
  for (const ServedModel& model : models) {
    if (memory.single && model.bytes > memory.pool) {
      return exhausted(
          fmt::format("the model {} needs {}, more than the pool's {}; raise "
                      "--pool-memory-bytes",
                      model.name, shown(model.bytes), shown(memory.pool)));
    }
  }
  CAUSEWAY_TRY(check_pinned(models, memory.pool, "host memory for weights", "--pool-memory-bytes",
                            [](Bytes bytes) { return bytes; }));
  if (!cached) return {};
  return check_pinned(models, memory.device.budget, "device memory for cached weights",
                      "--weights-memory-bytes", on_device);
}

Result<ModelBytes> parse_model_bytes(const std::string& text, const std::string& option) {
  const std::size_t equals = text.rfind('=');
  ModelBytes parsed;
  std::uint64_t bytes = 0;
  bool sound = equals != std::string::npos && equals > 0;
  if (sound) {
    parsed.model = text.substr(0, equals);
    const auto size = parse_bytes(text.substr(equals + 1));
    sound = size.has_value();
    bytes = size.value_or(0);
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  if (!sound || bytes < 1 || bytes > kMost) {
    return invalid_argument(option + " " + text + ": wanted is MODEL=BYTES, e.g. big=40GB");
  }
  parsed.bytes = Bytes(static_cast<std::int64_t>(bytes));
  return parsed;
}

Status check_host_cache(Bytes weights, Bytes kv, Bytes left) {
  if (weights + kv <= left) return {};
  return exhausted(
      fmt::format("--weights-memory-bytes {} and {} for KV are more than the {} that "
                  "this machine or container has left",
                  shown(weights), shown(kv), shown(left)));
}

}  // namespace causeway::app
