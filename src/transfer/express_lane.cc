#include "transfer/express_lane.h"

namespace causeway::transfer {

ExpressLane::ExpressLane(device::Device& device, std::string name)
    : device_(device), name_(std::move(name)) {}

Result<std::unique_ptr<ExpressLane>> ExpressLane::create(device::Device& device, std::string name) {
  auto lane = std::make_unique<ExpressLane>(device, std::move(name));
  CAUSEWAY_ASSIGN(lane->stream_, device.make_stream(lane->name_));
  return lane;
}

Result<ExpressTicket> ExpressLane::copy(std::span<const device::Copy> copies,
                                        device::CopyPriority priority) {
  const std::lock_guard lock(mutex_);
  if (failed_.load()) {
    failed_.store(false);
    CAUSEWAY_ASSIGN(stream_, device_.make_stream(name_));
  }
  // What the caller waits for ends with the copy's call: what can come behind it does.
  if (free_.empty()) CAUSEWAY_TRY(free_an_event());
  const Status issued = stream_->copy_marked(copies, priority, *free_.back());
  auto event = std::move(free_.back());
  free_.pop_back();
  if (!issued.ok()) {
    // Refused for itself a copy leaves the stream as it was.
    if (issued.error().code != ErrorCode::kInvalidArgument) failed_.store(true);
    return issued.error();
  }
  std::int64_t moved = moved_.load(std::memory_order_relaxed);
  for (const device::Copy& copy : copies) moved += copy.bytes.count;
  moved_.store(moved, std::memory_order_relaxed);
  tickets_.store(tickets_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return ExpressTicket(*this, std::move(event));
}

// With mutex_ held.
Status ExpressLane::free_an_event() {
  if (!events_.empty()) {
    const auto done = events_.front()->done();
    if (!done.ok() || *done) {
      free_.push_back(std::move(events_.front()));
      events_.pop_front();
      return {};
    }
  }
  CAUSEWAY_ASSIGN(auto made, device_.make_mark());
  free_.push_back(std::move(made));
  return {};
}

void ExpressLane::give_back(std::unique_ptr<device::Event> event, bool done) {
  const std::lock_guard lock(mutex_);
  tickets_.store(tickets_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (done) {
    free_.push_back(std::move(event));
  } else {
    events_.push_back(std::move(event));
  }
}

}  // namespace causeway::transfer
