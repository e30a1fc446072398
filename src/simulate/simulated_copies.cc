#include "simulate/simulated_copies.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {
namespace {

using Reason = kv::KvCopy::Reason;

constexpr std::uint64_t kSpoilt = 0xDEADull;

}  // namespace

SimulatedCopies::SimulatedCopies(const SimulatedCopiesOptions& options, ShadowKv* shadow)
    : options_(options), shadow_(shadow), random_(options.seed) {
  CAUSEWAY_CHECK(options.bytes_in_per_second > 0 && options.bytes_out_per_second > 0,
                 "links of KV without a rate each way");
  links_[index_of(Direction::kIn)].bytes_per_second = options.bytes_in_per_second;
  links_[index_of(Direction::kOut)].bytes_per_second = options.bytes_out_per_second;
}

void SimulatedCopies::blame(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void SimulatedCopies::submit(std::span<const kv::KvCopy> copies, Nanos now) {
  std::vector<kv::KvCopy> in, out, eager;
  for (const kv::KvCopy& copy : copies) {
    const bool is_eager = copy.reason == Reason::kEager;
    (copy.direction == Direction::kIn ? in : is_eager ? eager : out).push_back(copy);
  }
  submit_one(Direction::kIn, std::move(in), false, now);
  submit_one(Direction::kOut, std::move(out), false, now);
  submit_one(Direction::kOut, std::move(eager), true, now);
}

Nanos SimulatedCopies::takes(const Link& link) const {
  return nanos_from_seconds(static_cast<double>(options_.frame.count) / link.bytes_per_second);
}

// Copies in go in the order of their submission, so that their ends are known.
void SimulatedCopies::submit_one(Direction direction, std::vector<kv::KvCopy> copies, bool eager,
                                 Nanos now) {
  if (copies.empty()) return;
  Link& link = links_[index_of(direction)];
  Submission& submission = submissions_.emplace_back();
  submission.copies = copies.size();
  submission.begins = now + options_.latency;
  submission.first = copies.front().id;
  if (options_.late_max > Nanos(0)) {
    constexpr std::int64_t kSlack = 4;
    const std::int64_t under_way = std::ssize(link.urgent) + std::ssize(link.eager) +
                                   (link.under_way ? 1 : 0) + std::ssize(copies);
    submission.late_from =
        submission.begins + options_.late_max + takes(link) * (kSlack * under_way);
  }
  if (random_.chance(options_.stall_rate)) {
    submission.begins += Nanos(static_cast<std::int64_t>(
        random_.uniform() * static_cast<double>(options_.stall_max.count)));
  }
  if (direction == Direction::kIn) {
    Nanos free = link.ends;
    for (const Copy& before : link.urgent) free = before.submission->ready;
    submission.ready = std::max(free, submission.begins) + takes(link) * std::ssize(copies);
  }
  std::deque<Copy>& queue = eager ? link.eager : link.urgent;
  for (const kv::KvCopy& copy : copies) {
    submission.first = std::min(submission.first, copy.id);
    submission.ids.push_back(copy.id);
    queue.push_back(take_source(copy, submission));
  }
  if (!link.under_way) start_next(link);
}

// The source may be read at any time from now on, and the target written.
SimulatedCopies::Copy SimulatedCopies::take_source(const kv::KvCopy& copy, Submission& submission) {
  Copy taken{.copy = copy, .submission = &submission};
  if (shadow_ == nullptr) return taken;
  if (copy.direction == Direction::kOut) {
    taken.source = shadow_->words_of(copy.frame);
  } else {
    const auto twin = twins_.find(copy.twin);
    if (twin == twins_.end()) {
      blame("twin " + std::to_string(copy.twin.value) + " is copied in, and holds nothing");
    } else {
      taken.source = twin->second;
    }
  }
  spoil_target(copy);
  return taken;
}

void SimulatedCopies::spoil_target(const kv::KvCopy& copy) {
  if (copy.direction == Direction::kIn) return shadow_->spoil(copy.frame);
  twins_.erase(copy.twin);
}

void SimulatedCopies::start_next(Link& link) {
  std::deque<Copy>& queue = link.urgent.empty() ? link.eager : link.urgent;
  if (queue.empty()) return;
  link.under_way = std::move(queue.front());
  queue.pop_front();
  link.ends = std::max(link.ends, link.under_way->submission->begins) + takes(link);
}

std::optional<Nanos> SimulatedCopies::next_end() const {
  std::optional<Nanos> next;
  for (const Link& link : links_) {
    if (link.under_way) next = std::min(next.value_or(link.ends), link.ends);
  }
  const Submission* const late = const_cast<SimulatedCopies*>(this)->next_late();
  if (late != nullptr) next = std::min(next.value_or(*late->late_from), *late->late_from);
  return next;
}

SimulatedCopies::Submission* SimulatedCopies::next_late() {
  Submission* next = nullptr;
  for (Submission& one : submissions_) {
    if (one.given_up || !one.late_from) continue;
    if (next == nullptr || *one.late_from < *next->late_from) next = &one;
  }
  return next;
}

void SimulatedCopies::advance(Nanos now) {
  for (auto next = next_end(); next && *next <= now; next = next_end()) {
    for (Link& link : links_) {
      if (link.under_way && link.ends == *next) end_copy(link);
    }
    Submission* const late = next_late();
    if (late != nullptr && *late->late_from == *next) give_up(*late);
  }
}

void SimulatedCopies::give_up(Submission& submission) {
  submission.given_up = true;
  given_up_ += std::ssize(submission.ids);
  for (const kv::CopyId copy : submission.ids) {
    ends_.push_back({.copy = copy,
                     .outcome = kv::KvCopyEnd::Outcome::kGivenUp,
                     .why = "simulated: the copy is late"});
  }
}

void SimulatedCopies::end_copy(Link& link) {
  const Copy ended = std::move(*link.under_way);
  link.under_way.reset();
  start_next(link);
  const bool ok = !random_.chance(options_.error_rate);
  failures_ += ok ? 0 : 1;
  if (shadow_ != nullptr) move(ended, ok);
  if (ok) moved_[index_of(ended.copy.direction)] += options_.frame;
  Submission& submission = *ended.submission;
  submission.ends.push_back(
      {.copy = ended.copy.id,
       .outcome = ok ? kv::KvCopyEnd::Outcome::kOk : kv::KvCopyEnd::Outcome::kFailed,
       .why = ok ? "" : "simulated: the copy failed"});
  if (submission.ends.size() < submission.copies) return;
  ends_.insert(ends_.end(), submission.ends.begin(), submission.ends.end());
  submissions_.remove_if([&](const Submission& one) { return &one == &submission; });
}

void SimulatedCopies::move(const Copy& ended, bool ok) {
  const kv::KvCopy& copy = ended.copy;
  if (copy.direction == Direction::kOut && shadow_->words_of(copy.frame) != ended.source) {
    blame("frame " + std::to_string(copy.frame.value) + " changes while it is copied out");
  }
  // The target of a copy that was given up may be written, by steps whose result is not asked for.
  if (copy.direction == Direction::kIn && !ended.submission->given_up) {
    const ShadowKv::Words spoilt(shadow_->words_of(copy.frame).size(), kSpoilt);
    if (shadow_->words_of(copy.frame) != spoilt) {
      blame("frame " + std::to_string(copy.frame.value) + " is written while it is copied in");
    }
  }
  if (!ok) return;
  if (copy.direction == Direction::kIn) {
    if (!ended.source.empty()) shadow_->put(copy.frame, ended.source);
  } else {
    twins_[copy.twin] = ended.source;
  }
}

Nanos SimulatedCopies::ready_at(kv::CopyId until) const {
  Nanos ready(std::numeric_limits<std::int64_t>::min());
  for (const Submission& submission : submissions_) {
    if (submission.given_up || submission.ready == Nanos(0) || until < submission.first) continue;
    ready = std::max(ready, std::min(submission.ready, submission.late_from.value_or(kNever)));
  }
  return ready;
}

bool SimulatedCopies::copies_in_at(Nanos at) const {
  const Link& in = links_[index_of(Direction::kIn)];
  const Nanos last = in.urgent.empty() ? in.ends : in.urgent.back().submission->ready;
  return in.under_way.has_value() && last > at;
}

std::vector<kv::KvCopyEnd> SimulatedCopies::take_ends() { return std::exchange(ends_, {}); }

}  // namespace causeway::simulate
