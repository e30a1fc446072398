#include "preload/session.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/random.h"
#include "preload/own_threads.h"
#include "preload/testing/fake_driver.h"

extern "C" {
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes);
int cuMemAllocManaged(unsigned long long* memory, std::size_t bytes, unsigned flags);
int cuStreamSynchronize(CUstream_st* stream);
int cuStreamBeginCapture_v2(CUstream_st* stream, int mode);
int cuStreamEndCapture(CUstream_st* stream, void** graph);
}

namespace causeway::preload::session_test {
namespace {

constexpr std::size_t kLarge = std::size_t{4} << 20;

void pause_for(Nanos time) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::nanoseconds(time.count));
}

// A gate at which a stream waits until the test opens it.
struct Door {
  std::atomic<bool> open{false};
  static void wait(void* door) {
    while (!static_cast<Door*>(door)->open.load()) pause_for(micros(50));
  }
};

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : native_(load_native(fake_symbol)) {
    fake_fault(static_cast<int>(FakeFault::kNone), -1);
    fake_gpus(4);
    options_.settings.threshold = mib(1);
    options_.settings.chunk = kib(256);
    options_.engine.dispatch.chunk_bytes_min = kib(64);
    options_.look_every = millis(5);
    options_.settings.async = Async::kHold;
    CUctx_st* context = nullptr;
    native_.api.cuDevicePrimaryCtxRetain(&context, 0);
    native_.api.cuCtxPushCurrent_v2(context);
  }
  ~SessionTest() override {
    session_.reset();
    CUctx_st* context = nullptr;
    native_.api.cuCtxPopCurrent_v2(&context);
    fake_fault(static_cast<int>(FakeFault::kNone), -1);
  }

  void open() {
    auto session = Session::open(native_, options_, statistics_, clock_);
    ASSERT_TRUE(session.ok()) << session.error().message;
    session_ = std::move(session).value();
  }

  CUstream_st* make_stream() const {
    CUstream_st* stream = nullptr;
    EXPECT_EQ(native_.api.cuStreamCreateWithPriority(&stream, 1, 0), 0);
    return stream;
  }
  static CudaDevicePointer on_gpu(std::size_t bytes) {
    CudaDevicePointer memory = 0;
    EXPECT_EQ(cuMemAlloc_v2(&memory, bytes), 0);
    return memory;
  }
  unsigned char* pinned(std::size_t bytes, unsigned seed = 0) const {
    void* memory = nullptr;
    EXPECT_EQ(native_.cuMemHostAlloc(&memory, bytes, 0), 0);
    fill(memory, bytes, seed);
    return static_cast<unsigned char*>(memory);
  }
  static void fill(void* memory, std::size_t bytes, unsigned seed) {
    Random random(seed + 1);
    auto* words = static_cast<std::uint64_t*>(memory);
    for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = random.bits();
  }
  static CudaDevicePointer address(const void* pointer) {
    return reinterpret_cast<CudaDevicePointer>(pointer);
  }

  bool copy(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
            CUstream_st* stream, bool wait = false) {
    const CopyCall call{target, source, bytes};
    return session_->copy({&call, 1}, stream, wait);
  }
  // Until nothing is pending; false after ten seconds.
  bool settles() {
    for (int i = 0; i < 10'000 && session_->pending() > 0; ++i) pause_for(millis(1));
    return session_->pending() == 0;
  }
  Bytes relayed() const {
    Bytes bytes;
    for (const auto& link : session_->traffic().links) {
      for (const auto& way : link) bytes += way.relayed;
    }
    return bytes;
  }

  const Native native_;
  SessionOptions options_;
  Statistics statistics_;
  RealClock clock_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, MovesBytesBothWaysOverSeveralLinks) {
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 1);
  unsigned char* const back = pinned(kLarge, 2);
  ASSERT_TRUE(copy(device, address(host), kLarge, stream));
  ASSERT_TRUE(copy(address(back), device, kLarge, stream));
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  EXPECT_EQ(std::memcmp(back, host, kLarge), 0);
  ASSERT_TRUE(settles());
  EXPECT_EQ(statistics_.calls(Verdict::kMultipath), 2);
  EXPECT_GT(relayed(), Bytes(0));
}

TEST_F(SessionTest, KeepsTheOrderOfTheStream) {
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 3);
  Door before;
  native_.cuLaunchHostFunc(stream, Door::wait, &before);
  ASSERT_TRUE(copy(device, address(host), kLarge, stream));
  struct After {
    const void* device;
    const void* host;
    std::atomic<int> same{-1};
  } after{reinterpret_cast<const void*>(device), host};
  native_.cuLaunchHostFunc(
      stream,
      [](void* argument) {
        auto* const what = static_cast<After*>(argument);
        what->same = std::memcmp(what->device, what->host, kLarge) == 0 ? 1 : 0;
      },
      &after);
  pause_for(millis(20));
  // Memory may not be read or written before the stream comes to the copy.
  EXPECT_EQ(after.same.load(), -1);
  EXPECT_NE(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
  fill(host, kLarge, 4);
  before.open = true;
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  EXPECT_EQ(after.same.load(), 1);
}

TEST_F(SessionTest, WaitsForSynchronousCopies) {
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 5);
  ASSERT_TRUE(copy(device, address(host), kLarge, kLegacyStream, true));
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
}

TEST_F(SessionTest, MovesBatchesOfOneDirection) {
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 6);
  std::vector<CopyCall> calls;
  constexpr std::size_t kEach = 65'536;
  for (std::size_t at = 0; at < kLarge; at += kEach) {
    calls.push_back({device + at, address(host + kLarge - kEach - at), kEach});
  }
  ASSERT_TRUE(session_->copy(calls, stream, true));
  for (std::size_t at = 0; at < kLarge; at += kEach) {
    EXPECT_EQ(
        std::memcmp(reinterpret_cast<const void*>(device + at), host + kLarge - kEach - at, kEach),
        0);
  }
  calls.push_back({address(host), device, kEach});
  EXPECT_FALSE(session_->copy(calls, stream, false));
  EXPECT_EQ(statistics_.calls(Verdict::kNotHostGpu), 1);
}

TEST_F(SessionTest, LeavesTheRestToTheDriver) {
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge);
  std::vector<unsigned char> pageable(kLarge);
  EXPECT_FALSE(copy(device, address(host), 1000, stream));
  EXPECT_FALSE(copy(device, address(pageable.data()), kLarge, stream));
  EXPECT_FALSE(copy(device, on_gpu(kLarge), kLarge, stream));
  EXPECT_FALSE(copy(device, address(host), kLarge + 8, stream));
  CudaDevicePointer managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, kLarge, 1), 0);
  EXPECT_FALSE(copy(managed, address(host), kLarge, stream));
  cuStreamBeginCapture_v2(stream, 0);
  EXPECT_FALSE(copy(device, address(host), kLarge, stream));
  void* graph = nullptr;
  cuStreamEndCapture(stream, &graph);
  for (const Verdict verdict : {Verdict::kSmall, Verdict::kPageable, Verdict::kNotHostGpu,
                                Verdict::kPartial, Verdict::kManaged, Verdict::kCapturing}) {
    EXPECT_EQ(statistics_.calls(verdict), 1) << name_of(verdict);
  }
  EXPECT_EQ(session_->pending(), 0);
}

TEST_F(SessionTest, ThereIsNoneWithoutHelp) {
  fake_gpus(1);
  EXPECT_FALSE(Session::open(native_, options_, statistics_, clock_).ok());
  fake_gpus(4);
  fake_fault(static_cast<int>(FakeFault::kNoPeers), -1);
  EXPECT_FALSE(Session::open(native_, options_, statistics_, clock_).ok());
  fake_fault(static_cast<int>(FakeFault::kNone), -1);
  options_.settings.relays = std::vector<int>();
  EXPECT_FALSE(Session::open(native_, options_, statistics_, clock_).ok());
}

TEST_F(SessionTest, AGpuWithoutMemoryDoesNotRelay) {
  fake_fault(static_cast<int>(FakeFault::kNoMemory), 1);
  options_.settings.gpus = std::vector<int>{0, 1, 2};
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 7);
  ASSERT_TRUE(copy(device, address(host), kLarge, make_stream(), true));
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
  const auto traffic = session_->traffic();
  EXPECT_EQ(traffic.links[1][0].relayed, Bytes(0));
  EXPECT_GT(traffic.links[2][0].relayed, Bytes(0));
}

TEST_F(SessionTest, ChunksOfAFailingRelayGoDirectly) {
  open();
  fake_fault(static_cast<int>(FakeFault::kCopiesFail), 2);
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 8);
  ASSERT_TRUE(copy(device, address(host), kLarge, make_stream(), true));
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
  EXPECT_GT(session_->traffic().retries, 0);
}

TEST_F(SessionTest, TheStreamIsReleasedWhenNothingCanBeCopied) {
  open();
  fake_fault(static_cast<int>(FakeFault::kCopiesFail), 0);
  CUstream_st* const stream = make_stream();
  unsigned char* const host = pinned(kLarge);
  const CudaDevicePointer device = on_gpu(kLarge);
  EXPECT_TRUE(copy(device, address(host), kLarge, stream));
  ASSERT_TRUE(settles());
  EXPECT_EQ(statistics_.lost.load(), 1);
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  EXPECT_NE(session_->failure(), 0);  // and the program is told
}

TEST_F(SessionTest, ASynchronousCopyThatFailsIsTheDrivers) {
  open();
  fake_fault(static_cast<int>(FakeFault::kCopiesFail), 0);
  EXPECT_FALSE(copy(on_gpu(kLarge), address(pinned(kLarge)), kLarge, kLegacyStream, true));
  EXPECT_EQ(statistics_.calls(Verdict::kRefused), 1);
  EXPECT_EQ(session_->failure(), 0);
}

TEST_F(SessionTest, ACopyThatFailsSpoilsNoLaterOne) {
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 34);
  fake_fault(static_cast<int>(FakeFault::kCopiesFail), 0);
  EXPECT_FALSE(copy(device, address(host), kLarge, kLegacyStream, true));
  fake_fault(static_cast<int>(FakeFault::kNone), -1);
  ASSERT_TRUE(copy(device, address(host), kLarge, kLegacyStream, true));
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
}

TEST_F(SessionTest, AThreadIsNotCancelledInACopy) {
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 35);
  Door door;
  CUstream_st* const stream = make_stream();
  native_.cuLaunchHostFunc(stream, Door::wait, &door);
  std::atomic<int> taken{-1};
  std::thread copier([&] { taken = copy(device, address(host), kLarge, stream, true) ? 1 : 0; });
  pause_for(millis(100));  // longer than a waiter polls before it sleeps
  pthread_cancel(copier.native_handle());
  pause_for(millis(20));
  door.open = true;
  copier.join();
  EXPECT_EQ(taken.load(), 1);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
}

TEST_F(SessionTest, ThreadsLeaveSignalsToTheProgram) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  open();
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGUSR1), sigismember(&before, SIGUSR1));
  bool blocked = false;
  {
    const OwnThreads ours;
    std::thread([&] {
      sigset_t inherited;
      pthread_sigmask(SIG_SETMASK, nullptr, &inherited);
      blocked = sigismember(&inherited, SIGUSR1) == 1 && sigismember(&inherited, SIGSEGV) == 0;
    }).join();
  }
  EXPECT_TRUE(blocked);
}

// A driver that loads a kernel or frees memory behaves like this: it waits for all streams, and
// later work waits for it.
TEST_F(SessionTest, NothingHoldsUpTheDriverDuringSynchronousCopies) {
  options_.settings.async = Async::kWait;
  open();
  CUstream_st* const stream = make_stream();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    CUctx_st* context = nullptr;
    native_.api.cuDevicePrimaryCtxRetain(&context, 0);
    native_.api.cuCtxPushCurrent_v2(context);
    while (!stop.load()) EXPECT_EQ(native_.cuMemFree_v2(on_gpu(4096)), 0);
    native_.api.cuCtxPopCurrent_v2(&context);
  });
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 30);
  unsigned char* const back = pinned(kLarge, 31);
  for (int i = 0; i < 20; ++i) {
    fill(host, kLarge, static_cast<unsigned>(i));
    ASSERT_TRUE(copy(device, address(host), kLarge, kLegacyStream, true));
    // A stream may come to its start too late; the copy is then the driver's.
    if (!copy(address(back), device, kLarge, stream)) continue;
    EXPECT_EQ(std::memcmp(back, host, kLarge), 0);
  }
  stop = true;
  other.join();
}

TEST_F(SessionTest, AsynchronousCopiesAreTheDriversUnlessAskedFor) {
  options_.settings.async = Async::kNative;
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  EXPECT_FALSE(copy(device, address(pinned(kLarge)), kLarge, make_stream()));
  EXPECT_EQ(statistics_.calls(Verdict::kAsynchronous), 1);
  EXPECT_TRUE(copy(device, address(pinned(kLarge)), kLarge, kLegacyStream, true));
}

TEST_F(SessionTest, SynchronousCopiesAreTheDriversIfAskedFor) {
  options_.settings.native_sync = true;
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  EXPECT_FALSE(copy(device, address(pinned(kLarge)), kLarge, kLegacyStream, true));
  EXPECT_EQ(statistics_.calls(Verdict::kSynchronous), 1);
  EXPECT_TRUE(copy(device, address(pinned(kLarge)), kLarge, make_stream()));
}

TEST_F(SessionTest, ACopyThatIsWaitedForDoesNotWaitBehindOtherWork) {
  options_.settings.async = Async::kWait;
  options_.start_max = millis(50);
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 32);
  ASSERT_TRUE(copy(device, address(host), kLarge, stream));
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
  Door door;
  native_.cuLaunchHostFunc(stream, Door::wait, &door);
  fill(host, kLarge, 33);
  EXPECT_FALSE(copy(device, address(host), kLarge, stream));
  EXPECT_EQ(statistics_.calls(Verdict::kBusy), 1);
  EXPECT_EQ(session_->pending(), 0);
  EXPECT_NE(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
  door.open = true;
  EXPECT_EQ(cuStreamSynchronize(stream), 0);  // nothing holds it
}

TEST_F(SessionTest, EndsWithTheContextsThatItUses) {
  open();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge);
  ASSERT_TRUE(copy(device, address(host), kLarge, kLegacyStream, true));
  native_.cuDevicePrimaryCtxReset_v2(1);  // a reset that has no hook
  EXPECT_FALSE(copy(device, address(host), kLarge, kLegacyStream, true));
  EXPECT_EQ(statistics_.calls(Verdict::kOff), 1);
  EXPECT_TRUE(session_->gpus().stopped());
}

TEST_F(SessionTest, ARefusedStandInLeavesTheCopyToTheDriver) {
  open();
  fake_fault(static_cast<int>(FakeFault::kNoStandIns), -1);
  const CudaDevicePointer device = on_gpu(kLarge);
  EXPECT_FALSE(copy(device, address(pinned(kLarge)), kLarge, make_stream()));
  EXPECT_EQ(statistics_.calls(Verdict::kRefused), 1);
  EXPECT_EQ(session_->pending(), 0);
}

TEST_F(SessionTest, LetsGoOfWhatADeadContextHolds) {
  open();
  CUstream_st* const stream = make_stream();
  Door door;
  native_.cuLaunchHostFunc(stream, Door::wait, &door);
  const CudaDevicePointer device = on_gpu(kLarge);
  ASSERT_TRUE(copy(device, address(pinned(kLarge)), kLarge, stream));
  fake_fault(static_cast<int>(FakeFault::kContextDies), 0);
  EXPECT_TRUE(settles());
  EXPECT_NE(session_->failure(), 0);
  door.open = true;
  fake_fault(static_cast<int>(FakeFault::kNone), -1);  // streams of the fake live on
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
}

TEST_F(SessionTest, NothingIsTakenOverWhileADeviceIsWaitedFor) {
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 9);
  ASSERT_TRUE(copy(device, address(host), kLarge, stream));
  {
    const Session::Settled settled(*session_, Session::kShortWait);
    EXPECT_EQ(session_->pending(), 0);
    EXPECT_FALSE(copy(device, address(host), kLarge, stream));
    EXPECT_EQ(statistics_.calls(Verdict::kSettling), 1);
  }
  EXPECT_TRUE(copy(device, address(host), kLarge, stream));
}

TEST_F(SessionTest, CopiesThatWaitInTheDriverAreMadeOutside) {
  open();
  CUstream_st* const stream = make_stream();
  CUstream_st* const idle = make_stream();
  Door door;
  native_.cuLaunchHostFunc(stream, Door::wait, &door);
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 12);
  std::vector<unsigned char> pageable(kLarge);
  const CopyCall out{address(pageable.data()), device, kLarge};
  const CopyCall other{address(pageable.data()), address(host), kLarge};
  ASSERT_TRUE(copy(device, address(host), kLarge, stream));
  {
    const Session::Settled settled(*session_);
    EXPECT_EQ(session_->copy_outside({&other, 1}, idle), 0);
    EXPECT_EQ(session_->held(), 1);  // another stream is held
    EXPECT_EQ(std::memcmp(pageable.data(), host, kLarge), 0);
    EXPECT_FALSE(copy(device, address(host), kLarge, idle));
  }
  std::fill(pageable.begin(), pageable.end(), static_cast<unsigned char>(0));
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    pause_for(millis(100));
    opened = true;
    door.open = true;
  });
  {
    const Session::Settled settled(*session_);
    if (!session_->copy_outside({&out, 1}, stream)) {  // nothing was held any more
      EXPECT_EQ(native_.cuMemcpyDtoHAsync_v2(pageable.data(), device, kLarge, stream), 0);
    }
    EXPECT_TRUE(opened);
  }
  opener.join();
  EXPECT_EQ(std::memcmp(pageable.data(), host, kLarge), 0);
  ASSERT_TRUE(settles());
  const Session::Settled settled(*session_);
  EXPECT_EQ(session_->copy_outside({&out, 1}, stream), std::nullopt);
}

TEST_F(SessionTest, CopiesMadeOutsideMayBeOfAnotherGpuThanTheCurrentOne) {
  open();
  Door door;
  CUstream_st* const stream = make_stream();
  native_.cuLaunchHostFunc(stream, Door::wait, &door);
  ASSERT_TRUE(copy(on_gpu(kLarge), address(pinned(kLarge)), kLarge, stream));
  CUctx_st* second = nullptr;
  ASSERT_EQ(native_.api.cuDevicePrimaryCtxRetain(&second, 1), 0);
  ASSERT_EQ(native_.api.cuCtxPushCurrent_v2(second), 0);
  CUstream_st* const there = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  ASSERT_EQ(native_.api.cuCtxPopCurrent_v2(&second), 0);
  const std::vector<unsigned char> pageable(kLarge, 77);
  const CopyCall in{device, address(pageable.data()), kLarge};
  {
    const Session::Settled settled(*session_);
    EXPECT_EQ(session_->copy_outside({&in, 1}, there), 0);
  }
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), pageable.data(), kLarge), 0);
  door.open = true;
  EXPECT_TRUE(settles());
}

TEST_F(SessionTest, FreeingMemoryWhileCopiesArePendingEnds) {
  open();
  CUstream_st* const stream = make_stream();
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge, 10);
  for (int i = 0; i < 20; ++i) {
    const CudaDevicePointer other = on_gpu(4096);
    ASSERT_TRUE(copy(device, address(host), kLarge, stream));
    const Session::Settled settled(*session_, Session::kUntilIdle);
    EXPECT_EQ(native_.cuMemFree_v2(other), 0);  // holds the driver's lock
  }
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(device), host, kLarge), 0);
}

TEST_F(SessionTest, RetiringReleasesWhatIsPending) {
  open();
  CUstream_st* const stream = make_stream();
  Door door;
  native_.cuLaunchHostFunc(stream, Door::wait, &door);
  const CudaDevicePointer device = on_gpu(kLarge);
  unsigned char* const host = pinned(kLarge);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(copy(device, address(host), kLarge, stream));
  session_->retire(millis(10));
  EXPECT_FALSE(copy(device, address(host), kLarge, stream));
  door.open = true;
  EXPECT_EQ(cuStreamSynchronize(stream), 0);
}

// Random sizes and offsets on several threads and streams; everything is read back and compared.
TEST_F(SessionTest, ManyThreadsAtOnce) {
  open();
  constexpr int kThreads = 3;
  constexpr int kRounds = 12;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      CUctx_st* context = nullptr;
      native_.api.cuDevicePrimaryCtxRetain(&context, t % 2);
      native_.api.cuCtxPushCurrent_v2(context);
      Random random(static_cast<std::uint64_t>(t) + 77);
      CUstream_st* const stream = make_stream();
      const CudaDevicePointer device = on_gpu(kLarge);
      unsigned char* const host = pinned(kLarge, 20);
      unsigned char* const back = pinned(kLarge, 21);
      for (int round = 0; round < kRounds; ++round) {
        fill(host, kLarge, static_cast<unsigned>(t * 100 + round));
        const std::size_t bytes = kLarge / 2 + static_cast<std::size_t>(random.below(kLarge / 4));
        const std::size_t at = static_cast<std::size_t>(random.below(kLarge / 4));
        ASSERT_TRUE(copy(device + at, address(host + at), bytes, stream));
        ASSERT_TRUE(copy(address(back), device + at, bytes, stream, round % 2 == 0));
        const int synchronized = round % 2 == 0 ? 0 : cuStreamSynchronize(stream);
        ASSERT_EQ(synchronized, 0);
        ASSERT_EQ(std::memcmp(back, host + at, bytes), 0) << t << ", " << round;
      }
      native_.api.cuCtxPopCurrent_v2(&context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(settles());
  EXPECT_EQ(statistics_.calls(Verdict::kMultipath), 2 * kThreads * kRounds);
}

}  // namespace
}  // namespace causeway::preload::session_test
