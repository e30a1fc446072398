#include "schedule/policy.h"

#include <string>

#include "base/check.h"

namespace causeway::schedule {
namespace {

class Fcfs final : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }
  Traits traits() const override { return {}; }
  // All alike: the scheduler's tie-break, earlier arrival first, is the policy.
  double urgency(const SequenceFacts&, Nanos) const override { return 0; }
};

class Priority final : public Policy {
 public:
  std::string_view name() const override { return "priority"; }
  Traits traits() const override { return {.admission_preempts = true}; }
  double urgency(const SequenceFacts& sequence, Nanos) const override { return sequence.priority; }
};

}  // namespace

std::unique_ptr<Policy> make_policy(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kFcfs: return std::make_unique<Fcfs>();
    case PolicyKind::kPriority: return std::make_unique<Priority>();
  }
  CAUSEWAY_CHECK(false, "a policy kind that does not exist");
  return nullptr;
}

Result<PolicyKind> parse_policy(std::string_view name) {
  if (name == "fcfs") return PolicyKind::kFcfs;
  if (name == "priority") return PolicyKind::kPriority;
  return invalid_argument("scheduling policy '" + std::string(name) +
                          "' is not known: use fcfs or priority");
}

}  // namespace causeway::schedule
