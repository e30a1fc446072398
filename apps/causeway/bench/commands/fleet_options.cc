#include "bench/commands/fleet_options.h"

#include <fmt/format.h>

#include <charconv>

#include "slice/slice_layout.h"

namespace causeway::app {
namespace {

constexpr std::int64_t kSlicesMax = 64;

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

std::vector<Option> FleetOptions::declare(Options& app, std::int64_t models_max,
                                          const std::string& group) {
  models_max_ = models_max;
  app.add_option(
         "--slices", slices_,
         "number of equal slices (1 to 64) into which the machine is divided, and which "
         "share its link and the catalogue; sizes of memory are then those of one slice. "
         "Or, for a GPU of 132 SMs and with sizes of the whole GPU: equal parts that share "
         "its HBM, as large as they can be (2x56, 4x24, 4x32, 7x16), or auto (the whole GPU or "
         "2x56, by demand)")
      .group(group);
  std::vector<Option> others = {
      app.add_option("--machines", machines_,
                     "number of such machines in the fleet, each with a link of its own")
          .range(1, 4096)
          .show_default(),
      app.add_flag("--fast-forward", fast_forward_,
                   "take equal steps together: faster, with the same report"),
      app.add_flag("--two-threads", two_threads_,
                   "a second thread simulates slices that are behind; the same report"),
      app.add_option("--placement", placement_,
                     "how the slice for a model is chosen: bandwidth, random, dedicated, locality "
                     "or shared")
          .show_default(),
      app.add_option("--models-per-slice", models_max_,
                     "models on a slice at the same time; 0: any number, and models change slices "
                     "as in a server")
          .non_negative()
          .show_default(),
      app.add_option("--drain-after-ms", drain_after_ms_,
                     "milliseconds that a model waits for a place before another one with requests "
                     "must leave its slice; 0: none must leave")
          .range(0.0, 1e9)
          .show_default(),
      app.add_option("--room-timeout-ms", room_timeout_ms_,
                     "milliseconds that the model that comes next may wait for a place before its "
                     "requests are refused")
          .range(0.0, 1e9)
          .show_default(),
      app.add_option("--host-memory-bytes", host_bytes_,
                     "host memory for weights; 0: there is room for all models")
          .in_bytes(),
      app.add_option("--disk-gb-per-s", disk_gb_per_s_,
                     "rate at which models are loaded that are not in host memory; 0: loading "
                     "takes no time")
          .non_negative()};
  for (Option option : others) option.group(group);
  return others;
}

Status FleetOptions::apply_parts(simulate::FleetSimulationOptions& fleet) const {
  simulate::GpuPartsOptions parts{.gpu = simulate::kH100Parts};
  if (slices_ == "auto") {
    parts.resizes = slice::LayoutRules();
  } else {
    CAUSEWAY_ASSIGN(const auto layout,
                    slice::parse_slices(slices_, {.gpus = {simulate::hopper_parts()}}));
    parts.parts = static_cast<int>(layout.parts.size());
    if (const int unit = layout.parts.front().unit; unit > 0) {
      parts.gpu.unit = unit;
      parts.gpu.units = parts.gpu.processors / unit;
    }
    const slice::SlicePart equal = slice::parts_of(parts.gpu, 0, parts.parts).front();
    for (const slice::SlicePart& part : layout.parts) {
      if (part.processors == equal.processors) continue;
      return invalid_argument(
          fmt::format("--slices: a simulated GPU is whole or in equal parts, as large as they can "
                      "be, such as {}x{}, not {}",
                      parts.parts, equal.processors, slices_));
    }
  }
  fleet.gpu_parts = parts;
  fleet.slices = 1;
  fleet.models_max = 0;
  fleet.fleet.moves = true;
  fleet.fleet.loads_max = simulate::parts_most(parts);
  return {};
}

Status FleetOptions::apply(std::uint64_t seed, simulate::FleetSimulationOptions& fleet) const {
  CAUSEWAY_ASSIGN(fleet.placement, fleet::find_placement(placement_));
  fleet.models_max = models_max_;
  fleet.machines = machines_;
  fleet.slice.fast_forward = fast_forward_;
  fleet.two_threads = two_threads_;
  fleet.fleet.moves = models_max_ == 0;
  if (const auto slices = whole_number(slices_)) {
    if (*slices < 1 || *slices > kSlicesMax) {
      return invalid_argument("--slices is from 1 to 64, parts such as 2x56, or auto, not " +
                              slices_);
    }
    fleet.slices = *slices;
    fleet.slice.profile = simulate::slice_of(fleet.slice.profile, *slices);
    fleet.fleet.loads_max = *slices * machines_;
  } else {
    CAUSEWAY_TRY(apply_parts(fleet));
  }
  fleet.fleet.seed = seed;
  fleet.fleet.room_timeout = nanos_from_seconds(room_timeout_ms_ * 1e-3);
  if (drain_after_ms_ > 0) fleet.fleet.drain_after = nanos_from_seconds(drain_after_ms_ * 1e-3);
  fleet.host_memory = Bytes(static_cast<std::int64_t>(host_bytes_));
  fleet.disk_bytes_per_second = disk_gb_per_s_ * 1e9;
  return {};
}

}  // namespace causeway::app
