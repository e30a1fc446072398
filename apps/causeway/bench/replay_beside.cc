#include "bench/replay_beside.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

namespace causeway::bench {
namespace {

using nlohmann::ordered_json;

struct ComparedFigure {
  const char* name;
  const char* place;  // a JSON pointer
  double scale = 1;
  bool share = false;
};

constexpr std::array kRows = {
    ComparedFigure{"requests", "/all/requests"},
    ComparedFigure{"failed", "/all/failed"},
    ComparedFigure{"TTFT attained, %", "/all/ttft_attained", 100, true},
    ComparedFigure{"TPOT attained, %", "/all/tpot_attained", 100, true},
    ComparedFigure{"both attained, %", "/all/slo_attained", 100, true},
    ComparedFigure{"TTFT p50, ms", "/all/ttft_ms/p50"},
    ComparedFigure{"TTFT p95, ms", "/all/ttft_ms/p95"},
    ComparedFigure{"TTFT p99, ms", "/all/ttft_ms/p99"},
    ComparedFigure{"TPOT p50, ms", "/all/tpot_ms/p50"},
    ComparedFigure{"TPOT p95, ms", "/all/tpot_ms/p95"},
    ComparedFigure{"TPOT p99, ms", "/all/tpot_ms/p99"},
    ComparedFigure{"E2E p50, ms", "/all/e2e_ms/p50"},
    ComparedFigure{"E2E p99, ms", "/all/e2e_ms/p99"},
    ComparedFigure{"output tokens/s", "/all/output_tokens_per_second"},
    ComparedFigure{"switches", "/counters/switches"},
    ComparedFigure{"weights in, GB", "/counters/link_bytes/weights in", 1e-9},
    ComparedFigure{"preemptions", "/counters/preemptions"},
    ComparedFigure{"devices busy, %", "/counters/busy_share", 100, true},
};

std::optional<double> value_of(const ordered_json& document, const ComparedFigure& row) {
  const ordered_json::json_pointer place(row.place);
  if (!document.contains(place) || !document[place].is_number()) return std::nullopt;
  return row.scale * document[place].get<double>();
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f}", *value) : "-";
}

std::string difference(const std::optional<double>& ours, const std::optional<double>& other,
                       bool share) {
  if (!ours || !other) return "-";
  if (share) return fmt::format("{:+.1f} points", *ours - *other);
  if (*other == 0) return *ours == 0 ? "+0.0 %" : "-";
  return fmt::format("{:+.1f} %", 100 * (*ours / *other - 1));
}

std::string name_of(const ordered_json& document) {
  const auto mode = document.find("mode");
  return mode != document.end() && mode->is_string() ? mode->get<std::string>() : "?";
}

}  // namespace

Result<std::string> beside_text(const ordered_json& report, const ordered_json& other) {
  if (!other.is_object() || !other.contains("bench") || other["bench"] != "replay") {
    return corrupt("it is not the JSON file of a replay, whose 'bench' is \"replay\"");
  }
  std::string text = fmt::format("{:<18} {:>12.12} {:>12.12} {:>14}\n", "", name_of(report),
                                 name_of(other), "more");
  for (const ComparedFigure& row : kRows) {
    const auto ours = value_of(report, row), theirs = value_of(other, row);
    if (!ours && !theirs) continue;
    text += fmt::format("{:<18} {:>12} {:>12} {:>14}\n", row.name, number_text(ours),
                        number_text(theirs), difference(ours, theirs, row.share));
  }
  return text;
}

}  // namespace causeway::bench
