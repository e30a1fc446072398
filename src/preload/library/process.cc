#include "preload/library/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>

#include "base/dcheck.h"
#include "preload/library/real_dlsym.h"
#include "preload/own_threads.h"

namespace causeway::preload {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();
constexpr Nanos kGraceMax = seconds(2);
constexpr Nanos kOpeningMax = seconds(20);

// The driver's library, which then stays loaded.
void* driver_library() {
  static std::atomic<void*> known{nullptr};
  if (void* const found = known.load()) return found;
  void* const found = ::dlopen(device::kCudaDriverLibrary, RTLD_NOLOAD | RTLD_LAZY);
  known.store(found);
  return found;
}

void* look_up_in_driver(const char* name) { return real_dlsym()(driver_library(), name); }

void say(const std::string& text) {
  const std::string line = "causeway-preload: " + text + "\n";
  // When this fails there is no other place to tell it.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

std::string with_process_id(std::string path) {
  const std::size_t at = path.find("%p");
  if (at != std::string::npos) path.replace(at, 2, std::to_string(::getpid()));
  return path;
}

std::string text_of(const transfer::TransferStats& traffic) {
  std::string text;
  for (std::size_t link = 0; link < traffic.links.size(); ++link) {
    for (const transfer::Direction direction : transfer::kBothDirections) {
      const transfer::LinkTraffic& moved = traffic.links[link][transfer::index_of(direction)];
      if (moved.direct.count + moved.relayed.count == 0) continue;
      text += "link " + std::to_string(link) + " " + std::string(transfer::name_of(direction)) +
              ": " + std::to_string(moved.direct.count) + " bytes direct, " +
              std::to_string(moved.relayed.count) + " relayed\n";
    }
  }
  if (traffic.retries > 0) text += "chunks moved again: " + std::to_string(traffic.retries) + "\n";
  if (traffic.relays_off > 0) text += "relays off: " + std::to_string(traffic.relays_off) + "\n";
  return text;
}

}  // namespace

std::atomic<std::size_t> Process::threshold_{kEverything};

Process& Process::get() {
  alignas(Process) static std::byte place[sizeof(Process)];
  static Process* const process = std::construct_at(reinterpret_cast<Process*>(place));
  return *process;
}

const Native* Process::native() {
  const Native* native = native_.load(std::memory_order_acquire);
  if (native != nullptr) return native;
  if (driver_library() == nullptr) return nullptr;
  // This takes no lock of ours: a library's constructor, which runs under the loader's lock, may
  // come here while another thread is about to wait for that lock.
  auto table = std::make_unique<const Native>(load_native(look_up_in_driver));
  if (native_.compare_exchange_strong(native, table.get())) return table.release();
  return native;
}

void Process::set_up() {
  CAUSEWAY_DCHECK(phase_.load() == Phase::kClosed, "the library is loaded before its first copy");
  settings_ = read_settings();
  for (const std::string& complaint : settings_.complaints) say(complaint);
  if (!settings_.statistics.empty()) std::atexit([] { Process::get().close(); });
  ::pthread_atfork(nullptr, nullptr, [] { Process::get().after_fork(); });
  if (settings_.off) return switch_off("CAUSEWAY_PRELOAD=off");
  threshold_.store(to_size(settings_.threshold));
}

// A forked process has neither our threads nor the driver's. If no session was opened before the
// fork, it may use the GPU like any other process.
void Process::after_fork() {
  settings_.statistics.clear();
  CAUSEWAY_DCHECK(phase_.load() != Phase::kClosed || session_.load() == nullptr,
                  "a session that was never opened does not exist");
  if (phase_.load() == Phase::kClosed) return;
  threshold_.store(kEverything);
  session_.store(nullptr);
  phase_.store(Phase::kOff);
}

void Process::switch_off(const std::string& why) {
  CAUSEWAY_DCHECK(session_.load() == nullptr, "an open session is retired, not switched off");
  threshold_.store(kEverything);
  const std::lock_guard lock(mutex_);
  why_off_ = why;
  phase_.store(Phase::kOff);
  changed_.notify_all();
}

std::optional<int> Process::copy(std::span<const CopyCall> copies, CUstream_st* stream,
                                 bool synchronous) {
  CAUSEWAY_DCHECK(!copies.empty() && stream != nullptr,
                  "hooks pass calls with their streams named");
  const bool never_ours = synchronous ? settings_.native_sync : settings_.async == Async::kNative;
  Session* session = session_.load(std::memory_order_acquire);
  if (session == nullptr && !never_ours) {
    // A captured copy is never taken over, and opening a session would end a capture of this
    // thread.
    const Native* const table = native();
    if (table == nullptr || !is_capturing(*table, stream)) begin_opening();
    session = session_.load(std::memory_order_acquire);
  }
  if (session != nullptr) {
    if (const int failure = session->failure()) return failure;
    if (session->copy(copies, stream, synchronous)) return device::kCudaSuccess;
    return {};
  }
  std::int64_t total = 0;
  for (const CopyCall& copy : copies) total += static_cast<std::int64_t>(copy.bytes);
  const Verdict otherwise = phase_.load() == Phase::kOff ? Verdict::kOff : Verdict::kOpening;
  const Verdict native = synchronous ? Verdict::kSynchronous : Verdict::kAsynchronous;
  statistics_.count(never_ours ? native : otherwise, Bytes(total));
  return {};
}

void Process::begin_opening() {
  Phase expected = Phase::kClosed;
  if (!phase_.compare_exchange_strong(expected, Phase::kOpening)) return;
  CAUSEWAY_DCHECK(session_.load() == nullptr, "a session is opened twice");
  // Registered after the driver's own, so that it runs before them.
  std::atexit([] { Process::get().close(); });
  if (settings_.wait_for_opening) return open();
  try {
    const OwnThreads ours;
    std::thread([this] {
      if (const Native* table = native(); table != nullptr && check_complete(*table).ok()) {
        relax_capture(*table);
      }
      open();
    }).detach();
  } catch (const std::system_error&) {
    switch_off("no thread to open the session with");
  }
}

void Process::open() {
  const Native* table = native();
  if (table == nullptr) return switch_off("the driver is not loaded");
  SessionOptions options;
  options.settings = settings_;
  options.say = say;
  auto opened = Session::open(*table, options, statistics_, clock_);
  if (!opened.ok()) return switch_off(opened.error().message);
  CAUSEWAY_DCHECK(phase_.load() == Phase::kOpening, "only begin_opening() opens");
  const std::lock_guard lock(mutex_);
  session_.store(std::move(opened).value().release(), std::memory_order_release);
  phase_.store(Phase::kOpen);
  changed_.notify_all();
}

void Process::close() {
  threshold_.store(kEverything);
  // A forked process lacks the thread that would unlock the mutex.
  if (phase_.load() != Phase::kOff) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(kOpeningMax.count),
                      [&] { return phase_.load() != Phase::kOpening; });
    if (phase_.load() == Phase::kClosed) phase_.store(Phase::kOff);
  }
  // The session stays, because another thread may be in it.
  if (Session* session = session_.load()) session->retire(kGraceMax);
  write_statistics();
}

// A session that is being opened uses contexts that may be destroyed at any moment, so its opening
// is waited for. Before that nothing of ours can be destroyed; many programs begin with a reset.
void Process::retire() {
  if (phase_.load() == Phase::kClosed || phase_.load() == Phase::kOff) return;
  threshold_.store(kEverything);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(kOpeningMax.count),
                      [&] { return phase_.load() != Phase::kOpening; });
  }
  if (Session* session = session_.load()) session->retire(kGraceMax);
}

void Process::write_statistics() {
  if (settings_.statistics.empty()) return;
  std::string text = statistics_.text();
  if (const Session* session = session_.load()) text += text_of(session->traffic());
  if (phase_.load() == Phase::kOff && !why_off_.empty()) text += "off: " + why_off_ + "\n";
  const std::string where = std::exchange(settings_.statistics, "");
  if (where != "stderr") {
    std::ofstream(with_process_id(where), std::ios::app) << text;
    return;
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    say(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace causeway::preload
