// What the preload library did with the copies it saw. Thread-safe; counts cost an addition.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "base/dcheck.h"
#include "preload/decide.h"

namespace causeway::preload {

class Statistics {
 public:
  void count(Verdict verdict, Bytes bytes) {
    CAUSEWAY_DCHECK(bytes >= Bytes(0), "a count has become smaller");
    Row& row = rows_[static_cast<std::size_t>(verdict)];
    row.calls.fetch_add(1, std::memory_order_relaxed);
    row.bytes.fetch_add(bytes.count, std::memory_order_relaxed);
  }
  std::int64_t calls(Verdict verdict) const {
    return rows_[static_cast<std::size_t>(verdict)].calls.load(std::memory_order_relaxed);
  }
  Bytes bytes(Verdict verdict) const {
    return Bytes(rows_[static_cast<std::size_t>(verdict)].bytes.load(std::memory_order_relaxed));
  }
  // Transfers that the engine could not complete, made by one native copy instead.
  std::atomic<std::int64_t> rescued{0};
  // Transfers that could not be completed by that copy either.
  std::atomic<std::int64_t> lost{0};

  // One line each; verdicts that were never reached are left out.
  std::string text() const;

 private:
  struct Row {
    std::atomic<std::int64_t> calls{0};
    std::atomic<std::int64_t> bytes{0};
  };
  std::array<Row, kVerdicts> rows_;
};

}  // namespace causeway::preload
