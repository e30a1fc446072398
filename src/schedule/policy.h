// The order of sequences, which is the only difference between scheduling policies. A policy maps a
// sequence's facts to an urgency; the scheduler admits and runs the most urgent first and preempts
// the least urgent. Among equal urgencies the earlier arrival comes first, then the smaller request
// id.
//
// Pure: the same facts and `now` give the same urgency. A policy whose urgencies change with time
// (virtual lag time and its kin) says so in its traits, and is asked for every sequence in every
// iteration; one whose urgencies are fixed is asked once, when a sequence arrives.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "request/request.h"

namespace causeway::schedule {

// The facts of a sequence that a policy may look at.
struct SequenceFacts {
  // These are read for every running sequence by every decision.
  RequestId request;
  Tokens known;     // prompt and output so far
  Tokens computed;  // of known, those whose KV is valid
  // These are read at the end of a step.
  ModelId model;
  Nanos arrival;
  Nanos last_progress;  // when its last step ended; its arrival before the first
  std::int32_t priority = 0;
  bool running = false;  // holds frames
  // Facts for policies that rotate (rotation_policy.h).
  bool rotary = false;        // its KV is in host memory
  bool answered = false;      // at least one token of it was sent
  bool late = false;          // waits outside HBM, past its first token's target
  Nanos first_token;          // when it was sent; the arrival before that
  Nanos last_token;           // likewise for the latest token
  Nanos running_since;        // when it last came into HBM
  Tokens output{0};           // tokens answered
  double alpha = 3.0;         // its model's
  Tokens output_expected{0};  // in total, as far as the policy knows
  request::Slo slo;
};

class Policy {
 public:
  struct Traits {
    bool varies_with_time = false;    // urgency() depends on `now` or on progress
    bool admission_preempts = false;  // a waiting sequence of strictly larger urgency may displace
                                      // running ones; otherwise only growth does
  };

  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;
  // A larger value is more urgent. Any finite number.
  virtual double urgency(const SequenceFacts& sequence, Nanos now) const = 0;
};

enum class PolicyKind {
  kFcfs,      // by arrival
  kPriority,  // by request priority, then arrival; a higher priority displaces a lower
  // Policies that rotate only (rotation_policy.h).
  kRotary,
  kWaitingFirst,
  kSwappedFirst,
  kArtifact,
  kSjfOracle,
  kRanked,
  kPastFuture,
};

// What happens to a victim's KV.
enum class PreemptionKind {
  kRecompute,  // dropped, and computed again when it runs again
  kRotate,     // moved to host memory; dropped when there is no room
  kAuto,       // whichever is predicted to take less time
};

// Makes the policy kFcfs or kPriority; the others have no fixed urgencies.
std::unique_ptr<Policy> make_policy(PolicyKind kind);
std::string_view name_of(PolicyKind kind);
std::string_view name_of(PreemptionKind kind);
// The policy of this name; kInvalidArgument lists the names.
Result<PolicyKind> parse_policy(std::string_view name);
Result<PreemptionKind> parse_preemption(std::string_view name);

}  // namespace causeway::schedule
