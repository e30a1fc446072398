// Who goes first: the one thing in which scheduling policies differ. A policy maps a sequence's
// facts to an urgency; the scheduler admits and runs the most urgent first and preempts the least
// urgent. Equal urgencies: earlier arrival first, then the smaller request id.
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

// What a policy may look at.
struct SequenceFacts {
  RequestId request;
  ModelId model;
  Nanos arrival;
  Nanos last_progress;  // when its last step ended; its arrival before the first
  request::Slo slo;
  std::int32_t priority = 0;
  Tokens known;          // prompt and output so far
  Tokens computed;       // of known, those whose KV is valid
  bool running = false;  // holds frames
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
  // Larger: sooner. Any finite number.
  virtual double urgency(const SequenceFacts& sequence, Nanos now) const = 0;
};

enum class PolicyKind {
  kFcfs,      // by arrival
  kPriority,  // by request priority, then arrival; a higher priority displaces a lower
};

std::unique_ptr<Policy> make_policy(PolicyKind kind);
// "fcfs" or "priority"; kInvalidArgument lists the names.
Result<PolicyKind> parse_policy(std::string_view name);

}  // namespace causeway::schedule
