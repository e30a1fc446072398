// What a part of the benchmark reports: rows of named figures, some with a bar that is met or
// missed. Plain data; the program prints them and writes them as JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "transfer/transfer.h"

namespace causeway::transfer::bench {

// The median, the lowest and the highest value of several runs.
struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);  // not empty

struct Figure {
  std::string name;  // with its unit, such as "native GB/s"
  double value = 0;
};

struct Bar {
  std::string wanted;  // "≥ 0.95 of the best set"
  bool met = false;
};

struct BenchRow {
  std::string part;
  std::string what;
  std::vector<Figure> figures;  // the same names in all rows of a kind
  std::optional<Bar> bar;
};

// Gathers rows; each is shown at once.
class Report {
 public:
  explicit Report(std::function<void(const BenchRow&)> show) : show_(std::move(show)) {}
  void add(BenchRow row) {
    show_(row);
    rows_.push_back(std::move(row));
  }
  const std::vector<BenchRow>& rows() const { return rows_; }

 private:
  std::function<void(const BenchRow&)> show_;
  std::vector<BenchRow> rows_;
};

std::string size_text(Bytes bytes);  // "4 MiB"
constexpr double in_gb(double bytes) { return bytes * 1e-9; }

}  // namespace causeway::transfer::bench
