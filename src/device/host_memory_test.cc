#include "device/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "device/memory_headroom.h"

namespace causeway::device::host_memory_test {
namespace {

namespace fs = std::filesystem;

HostRegionOptions region_of(Bytes bytes, std::string name = "test") {
  return {.name = std::move(name), .bytes = bytes};
}

TEST(HostMemory, RegionIsZeroedWritableAndAtLeastAsLargeAsAsked) {
  HostMemory memory;
  const RegionId region = memory.allocate(region_of(Bytes(100'001))).value();
  EXPECT_GE(memory.region_bytes(region), Bytes(100'001));
  EXPECT_EQ(memory.region_bytes(region) % Bytes(4096), Bytes(0));
  const auto bytes = memory.resolve({region, Bytes(0)}, Bytes(100'001));
  EXPECT_TRUE(
      std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; }));
  bytes[100'000] = std::byte{7};
  EXPECT_EQ(memory.resolve({region, Bytes(100'000)}, Bytes(1))[0], std::byte{7});
}

TEST(HostMemory, DescriptorSharesTheBytes) {
  HostMemory memory;
  const Bytes size = mib(5);
  const RegionId region = memory.allocate(region_of(size)).value();
  const auto bytes = memory.resolve({region, Bytes(0)}, size);
  void* second = ::mmap(nullptr, to_size(size), PROT_READ | PROT_WRITE, MAP_SHARED,
                        memory.file_descriptor(region), 0);
  ASSERT_NE(second, MAP_FAILED);
  auto* other = static_cast<std::byte*>(second);
  bytes[4'999'999] = std::byte{42};
  EXPECT_EQ(other[4'999'999], std::byte{42});
  other[0] = std::byte{43};
  EXPECT_EQ(bytes[0], std::byte{43});
  // The process that shares it cannot shrink it, which would turn our next access into a SIGBUS.
  EXPECT_NE(::ftruncate(memory.file_descriptor(region), 0), 0);
  // What is mapped outlives the region.
  ASSERT_TRUE(memory.release(region).ok());
  EXPECT_EQ(other[4'999'999], std::byte{42});
  ::munmap(second, to_size(size));
}

TEST(HostMemory, EveryPageIsTouched) {
  HostMemory memory;
  const Bytes size = mib(67);  // two slices and a part
  const RegionId region =
      memory.allocate({.name = "touched", .bytes = size, .huge_pages = false, .touch_threads = 3})
          .value();
  const auto bytes = memory.resolve({region, Bytes(0)}, size);
  std::vector<unsigned char> resident(to_size(size) / 4096);
  ASSERT_EQ(::mincore(bytes.data(), bytes.size(), resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](auto r) { return (r & 1) != 0; }));
}

TEST(HostMemory, RegionsBeginWhereHugePagesCan) {
  HostMemory memory;
  for (const bool huge : {true, false}) {
    const auto region = memory.allocate({.name = "aligned", .bytes = mib(5), .huge_pages = huge});
    ASSERT_TRUE(region.ok()) << region.error().message;
    const auto bytes = memory.resolve({*region, Bytes(0)}, mib(5));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % to_size(mib(2)), 0u);
    bytes.front() = bytes.back() = std::byte{1};
  }
}

TEST(HostMemory, RefusesWhatTheMachineHasNot) {
  HostMemory memory;
  const auto refused = memory.allocate(region_of(gib(1 << 18), "catalogue"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("'catalogue' needs 268435456 MiB"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

TEST(HostMemory, RefusesAbsurdSizesAndNames) {
  HostMemory memory;
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(memory.allocate(region_of(Bytes(bytes))).error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(memory.allocate(region_of(kib(4), std::string(300, 'x'))).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(HostMemory, ReleaseGivesBackAndOnlyOnce) {
  HostMemory memory;
  const RegionId a = memory.allocate(region_of(kib(64))).value();
  const RegionId b = memory.allocate(region_of(kib(128))).value();
  EXPECT_NE(a, b);
  EXPECT_EQ(memory.total_bytes(), kib(192));
  EXPECT_TRUE(memory.release(a).ok());
  EXPECT_EQ(memory.total_bytes(), kib(128));
  EXPECT_EQ(memory.release(a).error().code, ErrorCode::kNotFound);
}

TEST(HostMemory, ManyThreadsAllocateResolveAndRelease) {
  HostMemory memory;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 20; ++i) {
        const RegionId region = memory.allocate(region_of(kib(256))).value();
        const auto bytes = memory.resolve({region, kib(4)}, kib(252));
        std::memset(bytes.data(), t, bytes.size());
        EXPECT_EQ(bytes.back(), static_cast<std::byte>(t));
        EXPECT_TRUE(memory.release(region).ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

// Maps small pieces all the time, as malloc of another thread does, and looks at those it has.
class Neighbour {
 public:
  ~Neighbour() {
    for (void* piece : pieces_) ::munmap(piece, kBytes);
  }
  void run(const std::atomic<bool>& stop) {
    while (!stop.load()) {
      void*& piece = pieces_[next_++ % std::size(pieces_)];
      if (piece != nullptr) {
        lost_ += is_marked(piece) ? 0 : 1;
        ::munmap(piece, kBytes);
      }
      piece = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CAUSEWAY_CHECK(piece != MAP_FAILED, "no memory for a small piece");
      std::memcpy(piece, &kMark, sizeof(kMark));
    }
  }
  long lost() const { return lost_; }

 private:
  static constexpr std::size_t kBytes = 256 << 10;
  static constexpr std::uint64_t kMark = 0x6d61726b65640a21;

  // By a call that fails, where a read would be a fault.
  static bool is_marked(void* piece) {
    std::uint64_t mark = 0;
    const iovec to{&mark, sizeof(mark)}, from{piece, sizeof(mark)};
    return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == sizeof(mark) && mark == kMark;
  }

  void* pieces_[16] = {};
  std::size_t next_ = 0;
  long lost_ = 0;
};

TEST(HostMemory, ARegionTakesNoAddressesThatAnotherThreadHas) {
  HostMemory memory;
  std::atomic<bool> stop{false};
  Neighbour neighbour;
  std::thread thread([&] { neighbour.run(stop); });
  const RealClock clock;
  const Nanos end = clock.now() + seconds(1);
  do {
    // Too large for any machine: looks for huge pages, and touches nothing.
    EXPECT_FALSE(memory.allocate(region_of(gib(16 << 10))).ok());
    const auto region = memory.allocate(region_of(mib(2)));
    CAUSEWAY_CHECK(region.ok(), "no memory for a region");
    EXPECT_TRUE(memory.release(*region).ok());
  } while (clock.now() < end);
  stop = true;
  thread.join();
  EXPECT_EQ(neighbour.lost(), 0);
}

TEST(HostMemoryDeath, AddressesAreChecked) {
  HostMemory memory;
  const RegionId region = memory.allocate(region_of(kib(4))).value();
  EXPECT_EQ(memory.resolve({region, kib(4)}, Bytes(0)).size(), 0u);
  EXPECT_DEATH(memory.resolve({region, Bytes(1)}, kib(4)), "out of its region");
  EXPECT_DEATH(memory.resolve({region, Bytes(-1)}, Bytes(1)), "out of its region");
  EXPECT_DEATH(memory.resolve({region, Bytes(0)}, Bytes(-1)), "out of its region");
  EXPECT_DEATH(memory.resolve({region, Bytes(INT64_MAX)}, Bytes(INT64_MAX)), "out of its region");
  EXPECT_DEATH(memory.resolve({RegionId(99), Bytes(0)}, Bytes(0)), "no host region");
}

// Two memories of one process stand for those of two processes.
TEST(HostMemory, AnothersRegionIsSharedAndOutlivesIt) {
  HostMemory worker;
  RegionId shared;
  {
    HostMemory owner;
    const RegionId region = owner.allocate({.name = "shared", .bytes = kib(12)}).value();
    owner.resolve({region, kib(8)}, Bytes(1))[0] = std::byte{7};
    shared = worker.adopt(owner.file_descriptor(region), kib(10), HostAccess::kRead).value();
    owner.resolve({region, kib(4)}, Bytes(1))[0] = std::byte{9};
  }
  EXPECT_EQ(worker.region_bytes(shared), kib(12));
  EXPECT_EQ(worker.resolve({shared, kib(8)}, Bytes(1))[0], std::byte{7});
  EXPECT_EQ(worker.resolve({shared, kib(4)}, Bytes(1))[0], std::byte{9});
  EXPECT_TRUE(worker.release(shared).ok());
  EXPECT_EQ(worker.total_bytes(), Bytes(0));
}

TEST(HostMemory, ASharedRegionIsWrittenOnlyByThoseWhoMay) {
  HostMemory owner, worker;
  const RegionId region = owner.allocate({.name = "shared", .bytes = mib(4)}).value();
  const int fd = owner.file_descriptor(region);
  const RegionId writes = worker.adopt(fd, mib(4), HostAccess::kWrite).value();
  worker.resolve({writes, mib(3)}, Bytes(1))[0] = std::byte{5};
  EXPECT_EQ(owner.resolve({region, mib(3)}, Bytes(1))[0], std::byte{5});
  const RegionId reads = worker.adopt(fd, mib(4), HostAccess::kRead).value();
  EXPECT_DEATH(worker.resolve({reads, mib(3)}, Bytes(1))[0] = std::byte{6}, "");
}

TEST(HostMemory, WhatIsNoSealedRegionIsNotAdopted) {
  HostMemory owner, worker;
  const RegionId region = owner.allocate({.name = "shared", .bytes = kib(4)}).value();
  const int small = owner.file_descriptor(region);
  EXPECT_EQ(worker.adopt(small, kib(5), HostAccess::kRead).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(worker.adopt(small, Bytes(0), HostAccess::kRead).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(worker.adopt(-1, kib(4), HostAccess::kRead).error().code, ErrorCode::kCorrupt);
  const int shrinks = ::memfd_create("shrinks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(shrinks, 4096), 0);
  EXPECT_EQ(worker.adopt(shrinks, kib(4), HostAccess::kRead).error().code, ErrorCode::kCorrupt);
  ::close(shrinks);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(worker.adopt(ends[0], kib(4), HostAccess::kRead).error().code, ErrorCode::kCorrupt);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(worker.total_bytes(), Bytes(0));
}

// The kernel's files, forged.
class MemoryHeadroomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    paths_ = {(root_ / "proc").string(), (root_ / "cgroup").string()};
    write("proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:   2048 kB\nSwapFree: 5 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  TemporaryDirectory directory_;
  fs::path root_ = directory_.path();
  SystemPaths paths_;
};

TEST_F(MemoryHeadroomTest, TheMachineAlone) {
  EXPECT_EQ(read_memory_headroom(paths_)->bytes, mib(2));
}

TEST_F(MemoryHeadroomTest, TheTightestGroupAboveTheProcessLimits) {
  write("proc/self/cgroup", "0::/pod/box\n");
  write("cgroup/pod/box/memory.max", "max\n");
  write("cgroup/pod/box/memory.current", "5\n");
  write("cgroup/pod/memory.max", "1000000\n");
  write("cgroup/pod/memory.current", "600000\n");
  write("cgroup/pod/memory.stat", "anon 1\nactive_file 100000\ninactive_file 200000\n");
  const auto headroom = read_memory_headroom(paths_).value();
  EXPECT_EQ(headroom.bytes, Bytes(1'000'000 - 300'000));
  EXPECT_NE(headroom.limited_by.find("/pod"), std::string::npos);
}

TEST_F(MemoryHeadroomTest, VersionOne) {
  write("proc/self/cgroup", "4:cpu,memory:/a\n3:devices:/b\nnonsense\n");
  write("cgroup/memory/a/memory.limit_in_bytes", "500000\n");
  write("cgroup/memory/a/memory.usage_in_bytes", "600000\n");
  EXPECT_EQ(read_memory_headroom(paths_)->bytes, Bytes(0));
  write("cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read_memory_headroom(paths_)->bytes, mib(2));
}

TEST_F(MemoryHeadroomTest, NonsenseIsAnErrorOrNoLimit) {
  write("proc/self/cgroup", "0::" + std::string(5000, '/') + "\n");
  EXPECT_EQ(read_memory_headroom(paths_)->bytes, mib(2));
  write("proc/meminfo", "MemAvailable: many kB\n");
  EXPECT_EQ(read_memory_headroom(paths_).error().code, ErrorCode::kCorrupt);
  write("proc/meminfo", "MemAvailable: 99999999999999999999 kB\n");
  EXPECT_EQ(read_memory_headroom(paths_).error().code, ErrorCode::kCorrupt);
  fs::remove(root_ / "proc/meminfo");
  EXPECT_EQ(read_memory_headroom(paths_).error().code, ErrorCode::kIo);
}

TEST(MemoryHeadroom, ThisMachineHasSome) { EXPECT_GT(read_memory_headroom()->bytes, mib(1)); }

}  // namespace
}  // namespace causeway::device::host_memory_test
