// Figures of a benchmark, each beside its limit from the same run: as a table, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/samples.h"

namespace causeway::bench {

// Milliseconds unless the unit says otherwise.
struct Figure {
  std::string what;
  std::string model = {};  // whose, where several are measured
  std::string start = {};  // how, where that differs from the rest of the run: when its steps start
  std::string unit = "ms";
  std::int64_t samples = 0;
  double measured = 0;  // median
  double least = 0;     // of the runs
  double most = 0;
  double limit = 0;  // 0: none
  std::string limit_name = {};
  double wanted = 0;      // at most; 0: nothing is demanded
  bool at_least = false;  // `wanted` is at least: of rates

  bool met() const { return wanted <= 0 || (at_least ? measured >= wanted : measured <= wanted); }
  std::string label() const;  // what, whose and how
  Figure in(std::string other_unit) &&;
};

Figure figure_of(std::string what, const Samples& samples);
// The same, beside a limit. The rest as in Figure.
struct Limit {
  double value = 0;
  std::string name = {};
  double wanted = 0;
  bool at_least = false;
};
Figure figure_of(std::string what, const Samples& samples, const Limit& limit);

void print_figures(const std::vector<Figure>& figures);
nlohmann::ordered_json figures_json(const std::vector<Figure>& figures);

}  // namespace causeway::bench
