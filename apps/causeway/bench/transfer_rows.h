// Rows of `causeway bench transfer` for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/transfer/rows.h"

namespace causeway::app {

// Prints rows as they come; a heading wherever the columns change.
class TransferTable {
 public:
  void show(const transfer::bench::BenchRow& row);

 private:
  std::string heading_;
};

nlohmann::ordered_json transfer_rows_json(const std::vector<transfer::bench::BenchRow>& rows);

// "12 bars met, 1 missed: sizes, in 1 MiB (≤ 2 % over native)"
std::string transfer_bars_text(const std::vector<transfer::bench::BenchRow>& rows);

}  // namespace causeway::app
