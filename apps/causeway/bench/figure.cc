#include "bench/figure.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace causeway::bench {

std::string Figure::label() const {
  std::string label = what;
  if (!model.empty()) label += ", " + model;
  if (!start.empty()) label += ", " + start;
  return label;
}

Figure Figure::in(std::string other_unit) && {
  unit = std::move(other_unit);
  return std::move(*this);
}

Figure figure_of(std::string what, const Samples& samples) {
  return figure_of(std::move(what), samples, {});
}

Figure figure_of(std::string what, const Samples& samples, const Limit& limit) {
  return {.what = std::move(what),
          .samples = samples.count(),
          .measured = samples.median(),
          .least = samples.least(),
          .most = samples.most(),
          .limit = limit.value,
          .limit_name = limit.name,
          .wanted = limit.wanted,
          .at_least = limit.at_least};
}

void print_figures(const std::vector<Figure>& figures) {
  constexpr std::size_t kWhatMin = 46;
  std::size_t width = kWhatMin;
  for (const Figure& figure : figures) width = std::max(width, figure.label().size());
  fmt::print("{:<{}} {:>10} {:>10} {:>10} {:>10} {:>7} {:>10}\n", "what", width, "measured",
             "least", "most", "limit", "ratio", "wanted");
  for (const Figure& figure : figures) {
    fmt::print("{:<{}} {:>7.2f} {:<2} {:>10.2f} {:>10.2f} ", figure.label(), width, figure.measured,
               figure.unit, figure.least, figure.most);
    if (figure.limit > 0) {
      fmt::print("{:>10.2f} {:>7.3f} ", figure.limit, figure.measured / figure.limit);
    } else {
      fmt::print("{:>10} {:>7} ", "-", "-");
    }
    if (figure.wanted > 0) {
      const auto wanted = fmt::format("{}{:.2f}", figure.at_least ? "≥ " : "", figure.wanted);
      fmt::print("{:>10} {}", wanted, figure.met() ? "met" : "MISSED");
    }
    fmt::print("  {}\n", figure.limit_name);
  }
}

nlohmann::ordered_json figures_json(const std::vector<Figure>& figures) {
  auto rows = nlohmann::ordered_json::array();
  for (const Figure& figure : figures) {
    rows.push_back({{"what", figure.label()},
                    {"figure", figure.what},
                    {"model", figure.model},
                    {"start", figure.start},
                    {"unit", figure.unit},
                    {"samples", figure.samples},
                    {"measured", figure.measured},
                    {"least", figure.least},
                    {"most", figure.most},
                    {"limit", figure.limit},
                    {"limit_name", figure.limit_name},
                    {"wanted", figure.wanted},
                    {"at_least", figure.at_least},
                    {"met", figure.met()}});
  }
  return rows;
}

}  // namespace causeway::bench
