#include "schedule/policy.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::schedule {
namespace {

class Fcfs final : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }
  Traits traits() const override { return {}; }
  // All urgencies are equal, so the scheduler's tie-break, earlier arrival first, is the policy.
  double urgency(const SequenceFacts&, Nanos) const override { return 0; }
};

class Priority final : public Policy {
 public:
  std::string_view name() const override { return "priority"; }
  Traits traits() const override { return {.admission_preempts = true}; }
  double urgency(const SequenceFacts& sequence, Nanos) const override { return sequence.priority; }
};

constexpr std::pair<PolicyKind, std::string_view> kPolicies[] = {
    {PolicyKind::kFcfs, "fcfs"},
    {PolicyKind::kPriority, "priority"},
    {PolicyKind::kRotary, "rotary"},
    {PolicyKind::kWaitingFirst, "waiting-first"},
    {PolicyKind::kSwappedFirst, "swapped-first"},
    {PolicyKind::kArtifact, "artifact"},
    {PolicyKind::kSjfOracle, "sjf-oracle"},
    {PolicyKind::kRanked, "ranked"},
    {PolicyKind::kPastFuture, "past-future"},
};
constexpr std::pair<PreemptionKind, std::string_view> kPreemptions[] = {
    {PreemptionKind::kRecompute, "recompute"},
    {PreemptionKind::kRotate, "rotate"},
    {PreemptionKind::kAuto, "auto"},
};

template <typename Kind, std::size_t count>
std::string_view name_in(const std::pair<Kind, std::string_view> (&names)[count], Kind kind) {
  for (const auto& [known, name] : names) {
    if (known == kind) return name;
  }
  CAUSEWAY_CHECK(false, "a kind without a name");
  return {};
}

template <typename Kind, std::size_t count>
Result<Kind> parse_in(const std::pair<Kind, std::string_view> (&names)[count],
                      std::string_view text, const std::string& what) {
  std::string all;
  for (const auto& [kind, name] : names) {
    if (name == text) return kind;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return invalid_argument(what + " '" + std::string(text) + "' is not known: use one of " + all);
}

}  // namespace

std::unique_ptr<Policy> make_policy(PolicyKind kind) {
  if (kind == PolicyKind::kFcfs) return std::make_unique<Fcfs>();
  CAUSEWAY_CHECK(kind == PolicyKind::kPriority, "this policy has no fixed urgency");
  return std::make_unique<Priority>();
}

std::string_view name_of(PolicyKind kind) { return name_in(kPolicies, kind); }
std::string_view name_of(PreemptionKind kind) { return name_in(kPreemptions, kind); }

Result<PolicyKind> parse_policy(std::string_view name) {
  return parse_in(kPolicies, name, "scheduling policy");
}

Result<PreemptionKind> parse_preemption(std::string_view name) {
  return parse_in(kPreemptions, name, "preemption");
}

}  // namespace causeway::schedule
