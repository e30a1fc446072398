#include "transfer/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/dcheck.h"
#include "base/spin.h"
#include "transfer/copies.h"
#include "transfer/engine_loop.h"
#include "transfer/express_lane.h"

namespace causeway::transfer {

namespace {

constexpr Nanos kLoopSpin = millis(1);

}  // namespace

class TransferEngine::State {
 public:
  State(TransferEngineOptions engine_options, const std::vector<EngineLink>& links, PathFacts facts,
        const Clock& engine_clock)
      : options(std::move(engine_options)),
        clock(engine_clock),
        loop(options, movers(links), std::move(facts), board),
        express_bytes_end(end_of_express(options.dispatch, links.size())) {
    for (std::size_t link = 0; link < links.size(); ++link) {
      for (const device::Device* slice : links[link].slices) {
        link_of.emplace_back(slice->id(), static_cast<int>(link));
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

  Result<Completion> submit(TransferRequest&& request) {
    const std::optional<int> link = link_to(request.target);
    if (!link || !well_formed(request)) [[unlikely]]
      return what_is_wrong(request);
    CAUSEWAY_DCHECK(*link >= 0 && *link < std::ssize(express), "a link without a lane");
    auto& lane = *express[static_cast<std::size_t>(*link)][index_of(request.direction)];
    if (is_small(request, lane)) {
      if (ExpressTicket ticket = copy_at_once(lane, request)) return Completion(std::move(ticket));
      // When the stream refuses the copy, the engine's lanes may still do it, or give a better
      // error.
    }
    return submit_to_loop(std::move(request), *link);
  }

  // Every small transfer passes these two functions, so the texts of errors are elsewhere.
  std::optional<int> link_to(device::DeviceId target) const {
    for (const auto& [device, link] : link_of) {
      if (device == target) return link;
    }
    return std::nullopt;
  }
  bool well_formed(const TransferRequest& request) const {
    for (const Segment& segment : request.segments) {
      if (!segment.host.device.valid() && segment.device.device != request.target) return false;
    }
    return request.only.empty() || (request.only & all_links()) == request.only;
  }
  LinkSet all_links() const { return LinkSet::first(static_cast<int>(express.size())); }

  Error what_is_wrong(const TransferRequest& request) const {
    if (!link_to(request.target)) {
      return invalid_argument("a transfer to or from device " +
                              std::to_string(request.target.value) +
                              ", which the engine does not serve");
    }
    if ((request.only & all_links()) != request.only) {
      return invalid_argument("a transfer asks for links " + text_of(request.only) +
                              "; the engine has " + std::to_string(express.size()));
    }
    return invalid_argument("a segment lies on another device than the transfer's target");
  }

  Result<Completion> submit_to_loop(TransferRequest&& request, int link) {
    CAUSEWAY_ASSIGN(SegmentTable segments, SegmentTable::make(std::move(request.segments)));
    Submission submission;
    CAUSEWAY_DCHECK(segments.total() >= Bytes(0), "a transfer of a negative size");
    submission.task.target = link;
    submission.task.direction = request.direction;
    submission.task.priority = request.priority;
    submission.task.only = request.only;
    submission.task.segments = std::move(segments);
    submission.after = request.after;
    submission.signal = {request.signal, request.signal_value};
    submission.ticket = board.open(request.listener);
    TicketReference reference(board, submission.ticket);
    hand_over(std::move(submission));
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
        for (int p = 0; p < device::kCopyPriorities; ++p) {
          const Bytes moved =
              express[link][index_of(direction)]->moved(static_cast<device::CopyPriority>(p));
          CAUSEWAY_DCHECK(moved >= Bytes(0), "a lane moved less than nothing");
          stats.links[link][index_of(direction)].direct += moved;
          stats.by_purpose[static_cast<std::size_t>(p)][index_of(direction)] += moved;
        }
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

  // Waiting in a stream that others share would delay them, so only copies that can start at once
  // are small.
  bool is_small(const TransferRequest& request, ExpressLane& lane) const {
    if (request.listener != nullptr || !request.only.empty() ||
        std::ssize(request.segments) > options.dispatch.chunk_segments) {
      return false;
    }
    Bytes total;
    for (const Segment& segment : request.segments) {
      if (segment.bytes < Bytes(0) || segment.bytes >= express_bytes_end) return false;
      total += segment.bytes;
    }
    if (total == Bytes(0) || total >= express_bytes_end) return false;
    // One such copy at a time, so that no more bytes stand before an urgent copy than those of a
    // chunk. A caller that drops its handle before the end allows the next one.
    if (total >= options.dispatch.multipath_bytes_min && !lane.idle()) return false;
    return request.after == nullptr || is_done(*request.after);
  }
  static bool is_done(const device::Event& event) {
    const Result<bool> done = event.done();
    return done.ok() && *done;
  }

  // Where no GPU can relay, a copy of one chunk does not need the engine's thread either.
  static Bytes end_of_express(const DispatchOptions& dispatch, std::size_t links) {
    if (links > 1) return dispatch.multipath_bytes_min;
    return std::max(dispatch.multipath_bytes_min, dispatch.chunk_bytes_direct + Bytes(1));
  }

  static device::Copy copy_of(const Segment& segment, Direction direction) {
    const bool in = direction == Direction::kIn;
    return {in ? segment.device : segment.host, in ? segment.host : segment.device, segment.bytes};
  }

  static ExpressTicket copy_at_once(ExpressLane& lane, const TransferRequest& request) {
    if (request.segments.size() != 1) return copy_many(lane, request);
    const device::Copy one = copy_of(request.segments.front(), request.direction);
    return lane.copy({&one, 1}, request.priority, {request.signal, request.signal_value});
  }
  static ExpressTicket copy_many(ExpressLane& lane, const TransferRequest& request) {
    std::vector<device::Copy> copies;
    copies.reserve(request.segments.size());
    for (const Segment& segment : request.segments) {
      append_copy(copies, copy_of(segment, request.direction));
    }
    return lane.copy(copies, request.priority, {request.signal, request.signal_value});
  }

  // The engine's thread takes 50 µs to wake up, on some hosts 200 µs. When it sleeps, the submitter
  // sets the links to work itself; when it is awake, it sees the inbox soon.
  void hand_over(Submission submission) {
    const std::unique_lock at_work(loop_mutex, std::try_to_lock);
    const bool here = at_work.owns_lock() && submission.after == nullptr;
    const auto [target, direction] = std::pair(submission.task.target, submission.task.direction);
    const Nanos now = clock.now();
    if (here) {
      loop.accept(std::move(submission), now);
      loop.begin_own(target, direction, now);  // waking the other thread takes microseconds
    }
    {
      const std::lock_guard lock(mutex);
      if (!here) inbox.push_back(std::move(submission));
      woken = true;
      changed.notify_all();
    }
    if (here) loop.begin(target, direction, clock, awake);
  }

  void run() {
    std::vector<Submission> arrived;
    Nanos pause = options.poll_pause;
    Nanos busy_until;
    Nanos idle_until;
    Look look;
    while (true) {
      {
        std::unique_lock lock(mutex);
        if (look.idle && clock.now() >= idle_until) {
          awake.store(false, std::memory_order_relaxed);
          changed.wait(lock, [&] { return stop || woken; });
          awake.store(true, std::memory_order_relaxed);
        }
        if (stop) return;
        arrived.swap(inbox);
        woken = false;
      }
      look = look_once(arrived);
      arrived.clear();
      if (look.any) {
        pause = options.poll_pause;
        busy_until = look.at + options.poll_spin;
        idle_until = look.at + options.idle_spin;
        continue;
      }
      // A link has work for only some 100 µs at a time, so a sleeping thread would leave it idle.
      if ((look.copying && look.at < busy_until) || (look.idle && look.at < idle_until)) {
        std::this_thread::yield();
        continue;
      }
      if (look.idle) continue;
      std::unique_lock lock(mutex);
      awake.store(false, std::memory_order_relaxed);
      changed.wait_for(lock, std::chrono::nanoseconds(pause.count), [&] { return stop || woken; });
      awake.store(true, std::memory_order_relaxed);
      CAUSEWAY_DCHECK(pause >= Nanos(0), "a pause of a negative length");
      pause = std::min(pause + pause / 8, options.poll_pause_max);
    }
  }

  struct Look {
    Nanos at;
    bool any = false;  // something happened
    bool copying = false;
    bool idle = true;
  };
  // A submitter that holds the loop's lock releases it soon; sleeping until then would take longer.
  // The time is read once the lock is held, because otherwise ends would seem to be seen before
  // they happened.
  Look look_once(std::vector<Submission>& arrived) {
    std::unique_lock at_work(loop_mutex, std::defer_lock);
    if (!spin_until([&] { return at_work.try_lock(); }, kLoopSpin)) at_work.lock();
    const Nanos now = clock.now();
    for (Submission& submission : arrived) loop.accept(std::move(submission), now);
    Look look;
    look.at = now;
    look.any = loop.step(now) || !arrived.empty();
    if (look.any) {
      publish();  // before a listener or a waiter hears of an end
      loop.report();
    }
    CAUSEWAY_DCHECK(arrived.empty() || look.any, "what arrived is something that happened");
    look.copying = loop.copying();
    look.idle = loop.idle();
    return look;
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
  std::mutex loop_mutex;  // guards `loop`; taken before `mutex`
  EngineLoop loop;
  // The next three never change once the engine has started. Every submitter reads them, so they
  // stand on a cache line that the engine's thread does not write.
  alignas(kCacheLine) const Bytes express_bytes_end;
  std::vector<std::pair<device::DeviceId, int>> link_of;  // few, and searched for each transfer
  std::vector<std::array<std::unique_ptr<ExpressLane>, kDirections>> express;
  alignas(kCacheLine) mutable std::mutex mutex;  // guards what follows; a leaf
  std::condition_variable changed;
  std::vector<Submission> inbox;
  TransferStats seen;
  // Whether the engine's thread is at work, or will be without being woken.
  std::atomic<bool> awake{true};
  bool woken = false;  // there is something to look at
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
