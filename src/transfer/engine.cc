#include "transfer/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "transfer/engine_loop.h"
#include "transfer/express_lane.h"

namespace causeway::transfer {

class TransferEngine::State {
 public:
  State(TransferEngineOptions engine_options, const std::vector<EngineLink>& links, PathFacts facts,
        const Clock& engine_clock)
      : options(std::move(engine_options)),
        clock(engine_clock),
        loop(options, movers(links), std::move(facts), board) {
    for (std::size_t link = 0; link < links.size(); ++link) {
      for (const device::Device* slice : links[link].slices) {
        link_of[slice->id()] = static_cast<int>(link);
      }
    }
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
      changed.notify_all();
    }
    if (thread.joinable()) thread.join();
    for (Submission& submission : inbox) loop.accept(std::move(submission), clock.now());
    loop.shut_down();
  }

  Status start(const std::vector<EngineLink>& links) {
    CAUSEWAY_TRY(loop.set_up());
    for (const EngineLink& link : links) {
      auto& lanes = express.emplace_back();
      for (const Direction direction : kBothDirections) {
        CAUSEWAY_ASSIGN(lanes[index_of(direction)],
                        ExpressLane::create(*link.slices.front(),
                                            "express." + std::string(name_of(direction))));
      }
    }
    seen = loop.stats();
    try {
      thread = std::thread([this] { run(); });
    } catch (const std::system_error& failure) {
      return exhausted(std::string("no thread for the transfer engine: ") + failure.what());
    }
    return {};
  }

  Result<Completion> submit(TransferRequest request) {
    const auto link = link_of.find(request.target);
    if (link == link_of.end()) {
      return invalid_argument("a transfer to or from device " +
                              std::to_string(request.target.value) +
                              ", which the engine does not serve");
    }
    for (const Segment& segment : request.segments) {
      if (segment.host.device.valid() || segment.device.device == request.target) continue;
      return invalid_argument("a segment lies on another device than the transfer's target");
    }
    if ((request.only & LinkSet::first(static_cast<int>(express.size()))) != request.only) {
      return invalid_argument("a transfer asks for links " + text_of(request.only) +
                              "; the engine has " + std::to_string(express.size()));
    }
    CAUSEWAY_ASSIGN(SegmentTable segments, SegmentTable::make(std::move(request.segments)));
    auto& lane = *express[static_cast<std::size_t>(link->second)][index_of(request.direction)];
    if (request.only.empty() && is_small(segments, request.after)) {
      auto ticket = lane.copy(copies_of(segments, request.direction), request.priority);
      // What its stream cannot do may still go another way, or be said better.
      if (ticket.ok()) return Completion(std::move(ticket).value());
    }
    Submission submission;
    submission.task.target = link->second;
    submission.task.direction = request.direction;
    submission.task.priority = request.priority;
    submission.task.only = request.only;
    submission.task.segments = std::move(segments);
    submission.after = request.after;
    submission.ticket = board.open();
    TicketReference reference(board, submission.ticket);
    const std::lock_guard lock(mutex);
    inbox.push_back(std::move(submission));
    changed.notify_all();
    return Completion(std::move(reference));
  }

  TransferStats stats() const {
    TransferStats stats;
    {
      const std::lock_guard lock(mutex);
      stats = seen;
    }
    for (std::size_t link = 0; link < express.size(); ++link) {
      for (const Direction direction : kBothDirections) {
        stats.links[link][index_of(direction)].direct +=
            express[link][index_of(direction)]->moved();
      }
    }
    return stats;
  }

 private:
  static std::vector<device::Device*> movers(const std::vector<EngineLink>& links) {
    std::vector<device::Device*> devices;
    for (const EngineLink& link : links) devices.push_back(link.slices.front());
    return devices;
  }

  // Waiting in a stream that others share would hold them up, so only what can go at once does.
  bool is_small(const SegmentTable& segments, const device::Event* after) const {
    if (segments.total() == Bytes(0) || segments.total() >= options.dispatch.multipath_bytes_min ||
        segments.size() > options.dispatch.chunk_segments) {
      return false;
    }
    if (after == nullptr) return true;
    const Result<bool> done = after->done();
    return done.ok() && *done;
  }

  static std::vector<device::Copy> copies_of(const SegmentTable& segments, Direction direction) {
    std::vector<device::Copy> copies;
    for (const auto& part : segments.parts({Bytes(0), segments.total()})) {
      const bool in = direction == Direction::kIn;
      copies.push_back({in ? part.device : part.host, in ? part.host : part.device, part.bytes});
    }
    return copies;
  }

  void run() {
    std::vector<Submission> arrived;
    Nanos pause = options.poll_pause;
    Nanos spin_until;
    while (true) {
      {
        std::unique_lock lock(mutex);
        if (loop.idle()) {
          changed.wait(lock, [&] { return stop || !inbox.empty(); });
        }
        if (stop) return;
        arrived.swap(inbox);
      }
      const Nanos now = clock.now();
      const bool any_arrived = !arrived.empty();
      for (Submission& submission : arrived) loop.accept(std::move(submission), now);
      arrived.clear();
      if (loop.step(now) || any_arrived) {
        pause = options.poll_pause;
        spin_until = now + options.poll_spin;
        publish();  // before anyone hears of an end
        loop.report();
        continue;
      }
      // A link has only chunks of some 100 µs to work on: a sleeping thread would leave it idle.
      if (loop.copying() && now < spin_until) {
        std::this_thread::yield();
        continue;
      }
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::nanoseconds(pause.count),
                       [&] { return stop || !inbox.empty(); });
      pause = std::min(pause + pause / 8, options.poll_pause_max);
    }
  }

  void publish() {
    TransferStats now = loop.stats();
    const std::lock_guard lock(mutex);
    seen = std::move(now);
  }

 public:
  const TransferEngineOptions options;
  const Clock& clock;
  CompletionBoard board;

 private:
  EngineLoop loop;  // the thread's while it runs
  std::map<device::DeviceId, int> link_of;
  std::vector<std::array<std::unique_ptr<ExpressLane>, kDirections>> express;
  mutable std::mutex mutex;  // guards what follows; a leaf
  std::condition_variable changed;
  std::vector<Submission> inbox;
  TransferStats seen;
  bool stop = false;
  std::thread thread;
};

TransferEngine::TransferEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
TransferEngine::~TransferEngine() = default;

Result<std::unique_ptr<TransferEngine>> TransferEngine::create(TransferEngineOptions options,
                                                               std::vector<EngineLink> links,
                                                               PathFacts facts,
                                                               const Clock& clock) {
  if (links.empty() || std::ssize(links) > kLinksMax || std::ssize(links) != facts.links) {
    return invalid_argument("a transfer engine needs 1 to 64 links and facts of as many");
  }
  const DispatchOptions& dispatch = options.dispatch;
  if (dispatch.depth < 1 || dispatch.chunk_segments < 1 || dispatch.chunk_bytes_min < Bytes(1) ||
      dispatch.chunk_bytes_direct < Bytes(1) ||
      std::min(dispatch.chunk_bytes[0], dispatch.chunk_bytes[1]) < dispatch.chunk_bytes_min) {
    return invalid_argument(
        "a transfer engine's depth and chunk sizes must be positive, and its "
        "chunks no smaller than the smallest allowed");
  }
  for (const EngineLink& link : links) {
    if (link.slices.empty()) return invalid_argument("a link of a transfer engine has no device");
    for (const device::Device* slice : link.slices) {
      options.dispatch.chunk_segments =
          std::min(options.dispatch.chunk_segments, slice->capabilities().copies_max);
    }
  }
  auto state = std::make_unique<State>(std::move(options), links, std::move(facts), clock);
  CAUSEWAY_TRY(state->start(links));
  return std::make_unique<TransferEngine>(std::move(state));
}

Result<Completion> TransferEngine::submit(TransferRequest request) {
  return state_->submit(std::move(request));
}

TransferStats TransferEngine::stats() const { return state_->stats(); }

}  // namespace causeway::transfer
