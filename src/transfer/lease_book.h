// The book of the links that several processes share, kept by their supervisor: which of them may
// count on how much (link_lease.h). Each asks for what its copies could use; the links are divided
// as LinkShares divides them, the most urgent purpose first and fairly within one. A process gets
// no more than what the leases leave that others may still use: those that have not ended, and of
// which they have not said that a later one applies. So a share that is to grow waits for the
// shares that shrink for it, or for their end.
//
//   resource │ least of a │ least of b │ leased by a │ leased by b │ left │
//
// The least is there in any case: it needs no lease, and is leased to no other.
//
// Decisions are pure, with the time as a parameter. Thread-safe; its lock is a leaf.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transfer/link_lease.h"
#include "transfer/link_shares.h"

namespace causeway::transfer {

class LeaseBook {
 public:
  // A process's ways: what its bytes take of the resources, and how many a second it can use.
  struct Ways {
    LinkRoute in;
    LinkRoute out;
  };
  // `capacities`: of the resources, > 0. What all together have in any case is a tenth of them.
  LeaseBook(std::vector<double> capacities, std::vector<Ways> members);
  // A book with a process for each of these GPUs, numbered as in the profile of `links`, over its
  // own link. kUnsupported where that does not reach host memory.
  static Result<std::unique_ptr<LeaseBook>> create(const LinkShares& links,
                                                   const std::vector<int>& gpus);

  // Whether there is something to lease: a resource that two members cross.
  bool shared() const;
  LinkRates least(int member) const;

  // The member asks. kCorrupt: what it says makes no sense.
  Status ask(int member, const LinkAsk& ask, Nanos now);
  // What it is to be sent now, if anything: an answer, or news of its share. It counts as leased
  // from now on, whether it arrives or not. Quick where nothing is new.
  std::optional<LinkLease> take(int member, Nanos now);
  // Its process has gone. What it has leased ends by itself: copies may still be under way.
  void forget(int member);

  // The most of each way that a member may be counting on.
  LinkRates held(int member, Nanos now) const;
  // A CHECK fails unless what all members together may be counting on is at most the capacity of
  // every resource.
  void check_integrity(Nanos now) const;

 private:
  struct Held {
    std::int64_t number = 0;  // the last lease that was the same
    LinkRates rates;
    Nanos ends;  // by the slowest of clocks
  };
  struct Member {
    Ways ways;
    LinkRates least;
    std::optional<LinkAsk> asked;  // of a process that is there
    Nanos heard;
    bool answered = false;
    LinkLease sent;
    std::vector<Held> held;  // that it may be using, by number
  };

  // With mutex_ held.
  std::vector<LinkWants> wants(Nanos now) const;
  std::vector<LinkRates> divide(const std::vector<LinkWants>& wants) const;
  // What is wanted now, divided; done anew when that has changed.
  const std::vector<LinkRates>& divided(Nanos now);
  LinkRates offer(int member, std::vector<LinkWants> wants) const;
  // As much of `wanted` as others leave.
  LinkRates fitting(int member, LinkRates wanted, Nanos now) const;
  // The most that it may use of each resource.
  std::vector<double> used(const Member& member, Nanos now) const;
  // Whether a share is another than the one that was sent last.
  static bool news(const Member& member, const LinkRates& share);

  const std::vector<double> capacities_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Member> members_;
  std::vector<LinkRates> divided_;
  Nanos divided_until_;  // that it holds, unless one asks for something else
};

}  // namespace causeway::transfer
