#include "bench/transfer_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace causeway::app {
namespace {

using transfer::bench::BenchRow;
using transfer::bench::Figure;

std::string number(double value) {
  const double size = std::abs(value);
  if (size >= 1000) return fmt::format("{:.0f}", value);
  return size >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

int width_of(const Figure& figure) {
  return std::max(9, static_cast<int>(fmt::formatted_size("{}", figure.name)) + 1);
}

std::string verdict(const BenchRow& row) {
  return row.bar ? fmt::format("{} ({})", row.bar->met ? "pass" : "MISS", row.bar->wanted) : "";
}

}  // namespace

void TransferTable::show(const BenchRow& row) {
  std::string heading = fmt::format("{:<42}", row.part);
  for (const Figure& figure : row.figures) {
    heading += fmt::format("{:>{}}", figure.name, width_of(figure));
  }
  if (heading != heading_) fmt::print("\n{}\n", heading);
  heading_ = heading;
  fmt::print("{:<42}", row.what);
  for (const Figure& figure : row.figures) {
    fmt::print("{:>{}}", number(figure.value), width_of(figure));
  }
  fmt::print("  {}\n", verdict(row));
  std::fflush(stdout);
}

nlohmann::ordered_json transfer_rows_json(const std::vector<BenchRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json one = {{"part", row.part}, {"what", row.what}};
    for (const Figure& figure : row.figures) one["figures"][figure.name] = figure.value;
    if (row.bar) one["bar"] = {{"wanted", row.bar->wanted}, {"met", row.bar->met}};
    list.push_back(std::move(one));
  }
  return list;
}

std::string transfer_bars_text(const std::vector<BenchRow>& rows) {
  int met = 0, missed = 0;
  std::string names;
  for (const BenchRow& row : rows) {
    if (!row.bar) continue;
    if (row.bar->met) {
      ++met;
      continue;
    }
    names +=
        fmt::format("{} {}, {} ({})", missed == 0 ? ":" : ";", row.part, row.what, row.bar->wanted);
    ++missed;
  }
  return fmt::format("{} bars met, {} missed{}", met, missed, names);
}

}  // namespace causeway::app
