#include "commands/serve_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

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

const ServedModel& smallest(const std::vector<ServedModel>& models) {
  return *std::min_element(models.begin(), models.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
}

// Of NAME=VALUE; a name may have a '=' itself. nullopt: it has not this form.
std::optional<std::pair<std::string, std::string>> halves_of(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
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

Status check_any_fits(const std::vector<ServedModel>& models, std::size_t slices) {
  const auto fits = [](const ServedModel& model) { return model.no_room.empty(); };
  if (models.empty() || std::any_of(models.begin(), models.end(), fits)) return {};
  const ServedModel& least = smallest(models);
  return exhausted(
      fmt::format("no slice of {} has room for any model; of the smallest, {}: {}; raise "
                  "--weights-memory-bytes, which slices divide, or choose fewer --slices",
                  slices, least.name, least.no_room));
}

Result<ModelBytes> parse_model_bytes(const std::string& text, const std::string& option) {
  ModelBytes parsed;
  std::uint64_t bytes = 0;
  const auto halves = halves_of(text);
  bool sound = halves.has_value();
  if (sound) {
    parsed.model = halves->first;
    const auto size = parse_bytes(halves->second);
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

Result<ModelRate> parse_model_rate(const std::string& text, const std::string& option) {
  constexpr double kMost = 1e6;
  ModelRate parsed;
  const auto halves = halves_of(text);
  bool sound = halves.has_value();
  if (sound) {
    const std::string& number = halves->second;
    const char* const last = number.data() + number.size();
    const auto [end, error] = std::from_chars(number.data(), last, parsed.rate);
    sound = error == std::errc() && end == last;
    parsed.model = halves->first;
  }
  if (!sound || !(parsed.rate >= 0 && parsed.rate <= kMost)) {
    return invalid_argument(option + " " + text +
                            ": wanted is MODEL=RATE in requests a second, e.g. big=0.5");
  }
  return parsed;
}

Status check_host_cache(Bytes weights, Bytes kv, Bytes left) {
  if (weights + kv <= left) return {};
  if (weights == Bytes(0)) {
    return exhausted(
        fmt::format("{} for KV are more than the {} that this machine or container has left: give "
                    "a smaller --kv-cache-memory-bytes or --kv-host-memory-bytes",
                    shown(kv), shown(left)));
  }
  return exhausted(
      fmt::format("--weights-memory-bytes {} and {} for KV are more than the {} that "
                  "this machine or container has left",
                  shown(weights), shown(kv), shown(left)));
}

}  // namespace causeway::app
