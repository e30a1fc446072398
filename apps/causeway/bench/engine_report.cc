#include "bench/engine_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace causeway::bench {
namespace {

double ms(Nanos time) { return to_seconds(time) * 1e3; }

}  // namespace

namespace {

constexpr std::int64_t kBands[] = {0, 1, 8, 32, 64, 128, 256, 4096};

Band band_up_to(std::int64_t sequences) {
  Band band;
  band.sequences_max = sequences;
  return band;
}

void add_to_band(const StepRecord& step, Nanos floor, std::vector<Band>& bands) {
  const std::int64_t sequences = step.work.decode_only ? step.work.sequences : 0;
  const auto band = std::find_if(bands.begin(), bands.end(),
                                 [&](const Band& one) { return sequences <= one.sequences_max; });
  if (band == bands.end()) return;
  band->steps += 1;
  band->on_device += step.on_device;
  band->floor += floor;
}

}  // namespace

RunReport report_run(const std::vector<StepRecord>& steps, const DeviceLimits& limits,
                     Nanos total) {
  RunReport report;
  report.steps = std::ssize(steps);
  report.total = total;
  report.limits = limits;
  for (const std::int64_t sequences : kBands) report.bands.push_back(band_up_to(sequences));
  for (const StepRecord& step : steps) {
    const Nanos floor = floor_of(step.work, limits);
    add_to_band(step, floor, report.bands);
    report.floor += floor;
    report.on_device += step.on_device;
    if (!step.work.decode_only) continue;
    report.decode_steps += 1;
    report.decode_floor += floor;
    report.decode_on_device += step.on_device;
  }
  return report;
}

DecodeReport report_decode(const std::vector<StepRecord>& steps, std::int64_t batch,
                           const DeviceLimits& limits) {
  DecodeReport report;
  report.batch = batch;
  const auto full = [&](const StepRecord& step) {
    return step.work.decode_only && step.work.sequences == batch;
  };
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (!full(steps[i]) || !full(steps[i - 1])) continue;
    report.steps += 1;
    const Nanos between = steps[i].returned - steps[i - 1].returned;
    report.in_engine += between;
    report.between.add(ms(between));
    report.on_device += steps[i].on_device;
    report.floor += floor_of(steps[i].work, limits);
  }
  if (report.steps == 0) return report;
  for (Nanos* sum : {&report.in_engine, &report.on_device, &report.floor}) {
    *sum = *sum / report.steps;
  }
  return report;
}

namespace {

void print_limits(const char* when, const DeviceLimits& limits) {
  fmt::print("limits {}: {:.0f} GB/s read, {:.0f} TFLOP/s\n", when,
             limits.read_bytes_per_second * 1e-9, limits.operations_per_second * 1e-12);
}

nlohmann::ordered_json limits_json(const DeviceLimits& limits) {
  return {{"hbm_read_bytes_per_s", limits.read_bytes_per_second},
          {"cublas_bf16_flops", limits.operations_per_second}};
}

void print_bands(const RunReport& run) {
  fmt::print("{:>20} {:>7} {:>11} {:>10} {:>6}\n", "steps of the last", "steps", "on GPU ms",
             "floor ms", "ratio");
  for (const Band& band : run.bands) {
    if (band.steps == 0) continue;
    fmt::print("{:>20} {:>7} {:>11.3f} {:>10.3f} {:>6.3f}\n",
               band.sequences_max == 0 ? "with prompts"
                                       : fmt::format("≤ {} sequences", band.sequences_max),
               band.steps, ms(band.on_device / band.steps), ms(band.floor / band.steps),
               to_seconds(band.on_device) / to_seconds(band.floor));
  }
}

nlohmann::ordered_json bands_json(const RunReport& run) {
  auto list = nlohmann::ordered_json::array();
  for (const Band& band : run.bands) {
    if (band.steps == 0) continue;
    list.push_back({{"sequences_max", band.sequences_max},
                    {"steps", band.steps},
                    {"on_gpu_s", to_seconds(band.on_device)},
                    {"floor_s", to_seconds(band.floor)}});
  }
  return list;
}

}  // namespace

void print_report(const EngineReport& report) {
  print_limits("at the beginning", report.limits);
  if (!report.runs.empty()) {
    fmt::print("{:>8} {:>9} {:>9} {:>7} {:>7} {:>10} {:>10} {:>6} {:>10} {:>6}\n", "requests",
               "prompt", "output", "steps", "decode", "total s", "floor s", "ratio", "on GPU s",
               "idle");
  }
  for (const RunReport& run : report.runs) {
    fmt::print("{:>8} {:>9} {:>9} {:>7} {:>7} {:>10.3f} {:>10.3f} {:>6.3f} {:>10.3f} {:>5.1f}%\n",
               run.requests, run.prompt_tokens, run.output_tokens, run.steps, run.decode_steps,
               to_seconds(run.total), to_seconds(run.floor), run.ratio(), to_seconds(run.on_device),
               100 * run.idle());
    fmt::print(
        "         of it decode: {:.3f} s on the GPU, floor {:.3f} s ({:.3f}); with prompts: "
        "{:.3f} s, floor {:.3f} s ({:.3f})\n",
        to_seconds(run.decode_on_device), to_seconds(run.decode_floor),
        to_seconds(run.decode_on_device) / to_seconds(run.decode_floor),
        to_seconds(run.on_device - run.decode_on_device), to_seconds(run.floor - run.decode_floor),
        to_seconds(run.on_device - run.decode_on_device) /
            to_seconds(run.floor - run.decode_floor));
    fmt::print("         {:.0f} output tokens/s; between tokens p50 {:.2f}, p99 {:.2f} ms\n",
               static_cast<double>(run.output_tokens) / to_seconds(run.total), run.gaps.at(0.5),
               run.gaps.at(0.99));
    print_limits("around it", run.limits);
  }
  if (!report.runs.empty()) print_bands(report.runs.back());
  if (report.decodes.empty()) return;
  fmt::print("{:>6} {:>6} {:>13} {:>8} {:>11} {:>10} {:>10} {:>15}\n", "batch", "steps",
             "in engine ms", "p99 ms", "on GPU ms", "alone ms", "floor ms", "not overlapped");
  for (const DecodeReport& one : report.decodes) {
    fmt::print("{:>6} {:>6} {:>13.4f} {:>8.3f} {:>11.4f} {:>10.4f} {:>10.4f} {:>14.2f}%\n",
               one.batch, one.steps, ms(one.in_engine), one.between.at(0.99), ms(one.on_device),
               ms(one.alone), ms(one.floor), 100 * one.not_overlapped());
  }
}

nlohmann::ordered_json report_json(const EngineReport& report) {
  nlohmann::ordered_json json = {{"limits", limits_json(report.limits)},
                                 {"runs", nlohmann::ordered_json::array()},
                                 {"decode", nlohmann::ordered_json::array()}};
  for (const RunReport& run : report.runs) {
    json["runs"].push_back({{"requests", run.requests},
                            {"prompt_tokens", run.prompt_tokens},
                            {"output_tokens", run.output_tokens},
                            {"steps", run.steps},
                            {"decode_steps", run.decode_steps},
                            {"total_s", to_seconds(run.total)},
                            {"floor_s", to_seconds(run.floor)},
                            {"ratio", run.ratio()},
                            {"decode_floor_s", to_seconds(run.decode_floor)},
                            {"on_gpu_s", to_seconds(run.on_device)},
                            {"decode_on_gpu_s", to_seconds(run.decode_on_device)},
                            {"idle_share", run.idle()},
                            {"gap_p50_ms", run.gaps.at(0.5)},
                            {"gap_p99_ms", run.gaps.at(0.99)},
                            {"limits", limits_json(run.limits)},
                            {"bands", bands_json(run)}});
  }
  for (const DecodeReport& one : report.decodes) {
    json["decode"].push_back({{"batch", one.batch},
                              {"steps", one.steps},
                              {"in_engine_ms", ms(one.in_engine)},
                              {"in_engine_p99_ms", one.between.at(0.99)},
                              {"on_gpu_ms", ms(one.on_device)},
                              {"alone_ms", ms(one.alone)},
                              {"floor_ms", ms(one.floor)},
                              {"not_overlapped_share", one.not_overlapped()}});
  }
  return json;
}

}  // namespace causeway::bench
