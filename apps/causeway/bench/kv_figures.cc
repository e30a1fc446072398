#include "bench/kv_figures.h"

#include <algorithm>
#include <utility>

namespace causeway::bench {

void KvWayRates::add(Bytes moved, Nanos took) {
  gb_per_s.add(static_cast<double>(moved.count) * 1e-9 / to_seconds(std::max(took, Nanos(1))));
}

std::vector<Figure> kv_figures(const std::vector<KvWayRates>& ways, double raw) {
  std::vector<Figure> figures;
  for (const KvWayRates& way : ways) {
    Figure figure = figure_of(way.what, way.gb_per_s,
                              {.value = raw,
                               .name = "plain copies, both ways at once",
                               .wanted = way.wanted * raw,
                               .at_least = true});
    figure.model = way.model;
    figures.push_back(std::move(figure).in("GB/s"));
  }
  return figures;
}

}  // namespace causeway::bench
