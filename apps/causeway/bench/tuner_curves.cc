#include "bench/tuner_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_numbers.h"

namespace causeway::bench {
namespace {

constexpr int kWholeGpu = 132;  // SMs of an H100, H200 or GH200

struct CurveRow {
  std::string home, way;
  std::int64_t sms = 0, m = 0, n = 0, k = 0;
  double alpha = 0, ms = 0, link_gb = 0;
};

Result<CurveRow> row_of(const nlohmann::json& json) {
  const auto bad = [&](const char* key) {
    return corrupt(std::string("a row of bench gemm: '") + key + "' is missing or out of range");
  };
  if (!json.is_object()) return corrupt("a row of bench gemm is an object");
  CurveRow row;
  for (auto [key, text] : {std::pair{"home", &row.home}, std::pair{"way", &row.way}}) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_string()) return bad(key);
    *text = at->get<std::string>();
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (auto [key, number] : {std::pair{"sms", &row.sms}, std::pair{"m", &row.m},
                             std::pair{"n", &row.n}, std::pair{"k", &row.k}}) {
    const auto at = json.find(key);
    const bool whole = at != json.end() && at->is_number_integer();
    if (!whole || *at < 0 || *at > kMost) return bad(key);
    *number = at->get<std::int64_t>();
  }
  for (auto [key, number] : {std::pair{"alpha", &row.alpha}, std::pair{"ms", &row.ms},
                             std::pair{"link_gb", &row.link_gb}}) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_number()) return bad(key);
    *number = at->get<double>();
    if (!(*number >= 0 && *number < 1e9)) return bad(key);
  }
  if (row.alpha > 1) return bad("alpha");
  if (row.sms < 1 || row.ms <= 0) return bad(row.sms < 1 ? "sms" : "ms");
  return row;
}

Result<std::vector<CurveRow>> rows_of(std::string_view text) {
  std::vector<CurveRow> rows;
  std::string buffer;
  const auto parse = [&](std::string_view json) {
    return nlohmann::json::parse(plain_json_numbers(json, buffer), nullptr, false);
  };
  const auto add = [&](const nlohmann::json& json) -> Status {
    CAUSEWAY_ASSIGN(rows.emplace_back(), row_of(json));
    return {};
  };
  if (text.starts_with('[')) {
    const auto all = parse(text);
    if (!all.is_array()) return corrupt("rows of bench gemm: this is no JSON array");
    for (const auto& one : all) CAUSEWAY_TRY(add(one));
    return rows;
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    CAUSEWAY_TRY(add(parse(line)));
  }
  return rows;
}

// With two points or more, from 0 to 1.
bool complete(const AlphaCurve& curve) {
  return curve.points.size() > 2 && curve.points.front().alpha == 0 &&
         curve.points.back().alpha == 1 && curve.link_rate > 0;
}

void add_row(const CurveRow& row, AlphaCurve& curve) {
  const double seconds = row.ms * 1e-3;
  const double weights = 2.0 * static_cast<double>(row.n) * static_cast<double>(row.k);
  curve.weight_bytes = weights;
  if (row.way == "chunked" || row.way == "copy+gemm" || row.way == "staged") {
    const bool better = curve.staged_seconds == 0 || seconds < curve.staged_seconds;
    if (better) curve.staged_seconds = seconds;
  }
  if (row.way != "ring" && row.way != "symmetric") return;
  const double activations = 2.0 * static_cast<double>(row.m) * static_cast<double>(row.k + row.n);
  curve.points.push_back({.alpha = row.alpha,
                          .seconds = seconds,
                          .link_bytes = row.link_gb * 1e9,
                          .hbm_bytes = activations + (1 - row.alpha) * weights});
}

}  // namespace

AlphaPoint AlphaCurve::at(double alpha) const {
  const auto above = std::lower_bound(points.begin(), points.end(), alpha,
                                      [](const AlphaPoint& p, double a) { return p.alpha < a; });
  if (above == points.begin()) return points.front();
  if (above == points.end()) return points.back();
  const AlphaPoint &low = *(above - 1), &high = *above;
  const double part = (alpha - low.alpha) / (high.alpha - low.alpha);
  return {.alpha = alpha,
          .seconds = std::lerp(low.seconds, high.seconds, part),
          .link_bytes = std::lerp(low.link_bytes, high.link_bytes, part),
          .hbm_bytes = std::lerp(low.hbm_bytes, high.hbm_bytes, part)};
}

double seconds_under(const AlphaCurve& curve, double alpha, const Shares& shares) {
  const AlphaPoint point = curve.at(alpha);
  return std::max({point.seconds, point.link_bytes / (curve.link_rate * shares.link),
                   point.hbm_bytes / (curve.hbm_rate * shares.hbm)});
}

double staged_under(const AlphaCurve& curve, const Shares& shares) {
  // Written to HBM, and read back.
  return std::max({curve.staged_seconds, curve.weight_bytes / (curve.copy_rate * shares.link),
                   2 * curve.weight_bytes / (curve.hbm_rate * shares.hbm)});
}

Result<std::vector<AlphaCurve>> curves_of(std::string_view text, double hbm_rate) {
  CAUSEWAY_ASSIGN(const auto rows, rows_of(text));
  using Slice = std::tuple<std::string, std::int64_t>;                  // home, SMs
  using Product = std::tuple<std::string, std::int64_t, std::int64_t>;  // and M
  std::map<Slice, std::pair<double, double>> rates;                     // read, copied
  std::map<Product, AlphaCurve> curves;
  for (const CurveRow& row : rows) {
    const double rate = row.link_gb * 1e9 / (row.ms * 1e-3);
    if (row.way == "floor") rates[{row.home, row.sms}].first = rate;
    if (row.way == "copy") rates[{row.home, row.sms}].second = rate;
    if (row.m > 0) add_row(row, curves[{row.home, row.sms, row.m}]);
  }
  std::vector<AlphaCurve> all;
  for (auto& [product, curve] : curves) {
    const auto& [home, sms, m] = product;
    curve.name = fmt::format("{}, {} SMs, M {}", home, sms, m);
    std::tie(curve.link_rate, curve.copy_rate) = rates[{home, sms}];
    curve.hbm_rate = hbm_rate * std::min(1.0, static_cast<double>(sms) / kWholeGpu);
    if (!(curve.copy_rate > 0)) curve.staged_seconds = 0;
    std::sort(curve.points.begin(), curve.points.end(),
              [](const AlphaPoint& a, const AlphaPoint& b) { return a.alpha < b.alpha; });
    if (complete(curve)) all.push_back(std::move(curve));
  }
  if (all.empty())
    return not_found(
        "rows of bench gemm: no product has a sweep of alpha and a floor with its link_gb");
  return all;
}

std::vector<AlphaCurve> paper_curves() {
  struct Slice {
    int sms;
    double hbm_rate;  // Table 1
  };
  constexpr double kM = 10'240, kN = 16'384, kK = 4096;
  constexpr double kFlops = 780e12;  // of a GH200 (simulate's profile)
  std::vector<AlphaCurve> all;
  for (const Slice& slice : {Slice{132, 4.0e12}, {56, 2.0e12}, {28, 1.0e12}, {16, 0.5e12}}) {
    AlphaCurve curve{.name = fmt::format("paper's GH200, {} SMs, M {}", slice.sms, kM),
                     .points = {},
                     .weight_bytes = 2 * kN * kK,
                     .link_rate = 400e9,
                     .hbm_rate = slice.hbm_rate};
    const double computes = 2 * kM * kN * kK / (kFlops * slice.sms / kWholeGpu);
    for (const double alpha : {0.0, 0.125, 0.25, 0.5, 0.75, 1.0}) {
      AlphaPoint point{.alpha = alpha,
                       .link_bytes = std::lerp(0.134e9, 5.369e9, alpha),
                       .hbm_bytes = std::lerp(5.18e9, 1.23e9, alpha)};
      point.seconds = std::max(
          {computes, point.link_bytes / curve.link_rate, point.hbm_bytes / curve.hbm_rate});
      curve.points.push_back(point);
    }
    all.push_back(std::move(curve));
  }
  return all;
}

}  // namespace causeway::bench
