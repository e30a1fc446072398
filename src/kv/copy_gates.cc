#include "kv/copy_gates.h"

#include "base/check.h"

namespace causeway::kv {

Result<CopyGate> CopyGates::take() {
  if (free_.empty()) {
    CAUSEWAY_ASSIGN(auto made, device_.make_semaphore());
    free_.push_back({.semaphore = made.get(), .value = 0});
    semaphores_.push_back(std::move(made));
  }
  CopyGate gate = free_.back();
  free_.pop_back();
  ++gate.value;
  return gate;
}

void CopyGates::give_back(const CopyGate& gate) {
  CAUSEWAY_CHECK(gate.open(), "a gate is given back that steps may wait for");
  free_.push_back(gate);
}

}  // namespace causeway::kv
