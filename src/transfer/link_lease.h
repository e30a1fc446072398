// Leases of links that processes of one machine share: what they say to each other, and the side of
// the process that leases (lease_book.h is the other side).
//
//   worker     ask ──────────────▶ lease arrives ────────── asks again ─────▶
//   its clock  ├─────────────── length ─────────────────┤
//   supervisor        ▶ grants ├─────────────── length and an eighth ───────────────┤
//
// A lease is counted from when it was asked for, by the clock of the process that asked: the other
// one sends that instant back unread, and counts from later. So neither how far the clocks are
// apart nor how late a message is lets two processes have the same bandwidth.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/units.h"
#include "device/link_profile.h"

namespace causeway::transfer {

// How long a lease lasts. It is asked for again when half of that has passed.
inline constexpr Nanos kLeaseLength = millis(500);

// Bytes per second by device::CopyPriority.
using RatesByPurpose = std::array<double, device::kCopyPriorities>;

// Bytes per second from host memory to devices, and back.
struct LinkRates {
  double in = 0;
  double out = 0;
};

// What copies that are under way could use.
struct LinkWants {
  RatesByPurpose in = {};
  RatesByPurpose out = {};

  bool operator==(const LinkWants&) const = default;
};

// To the supervisor.
struct LinkAsk {
  Nanos at = {};             // by the clock of the process that asks
  std::int64_t applied = 0;  // the last lease that it has taken; those before are given back
  LinkWants wants = {};
};

// From it.
struct LinkLease {
  std::int64_t number = 0;  // 1, 2, …
  Nanos asked = {};         // LinkAsk::at of the last one that had come
  Nanos length = {};        // from then on; ≤ kLeaseLength
  LinkRates share = {};     // what copies may count on
  LinkRates offer = {};     // what they would get if they began, where none are under way
};

// The lease of one process. Pure; one thread.
class HeldLease {
 public:
  // `least`: what the process has in any case. Until its first lease comes, or should have come,
  // it is offered whole links.
  HeldLease(LinkRates least, Nanos now);

  // What is to be said to the supervisor, if anything: what is wanted has changed, the share has
  // shrunk, or half of the length has passed. What is not wanted any more is given back a little
  // later, as copies often follow each other. The share that was taken last applies before it is
  // said.
  std::optional<LinkAsk> ask(const LinkWants& wants, Nanos now);
  // A lease has come; one that is too late changes nothing. kCorrupt: it makes no sense.
  Status take(const LinkLease& lease, Nanos now);

  // What the book of the process may divide: each way the share where copies are under way, else
  // the offer.
  LinkRates rates(Nanos now) const;
  // Never less than `least`, which is all that is left of a lease that has ended.
  LinkRates share(Nanos now) const;
  // When ask() or rates() is next to be called.
  Nanos next(Nanos now) const;

 private:
  struct Way {
    RatesByPurpose wanted = {};
    std::array<Nanos, device::kCopyPriorities> seen = {};  // when so much was

    bool any() const;
    // Whether it wants something else now.
    bool update(const RatesByPurpose& now_wanted, Nanos now);
  };

  LinkRates least_;
  Way in_, out_;
  LinkRates share_, offer_;
  Nanos ends_;
  std::int64_t applied_ = 0;
  bool shrank_ = false;
  std::optional<Nanos> asked_;
};

// The resources of a book that stand for what its process leases: one each way, which every path
// between host memory and a device crosses. They limit nothing until LinkShares::set_capacity().
struct LeasedWays {
  int in = 0;
  int out = 0;
};
LeasedWays add_leased_ways(device::LinkProfile& profile);

}  // namespace causeway::transfer
