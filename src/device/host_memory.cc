#include "device/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "device/memory_headroom.h"

// Newer than the C library's headers of some builds.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace causeway::device {
namespace {

constexpr Bytes kHugePage = mib(2);
constexpr Bytes kTouchSlice = mib(32);  // small enough to spread evenly, large enough to batch
constexpr int kTouchThreadsMax = 16;
constexpr int kMapAttemptsMax = 1000;  // each lost to another thread that mapped in between

// A mapped memfd. Move-only; unmaps and closes.
struct Mapping {
  int fd = -1;
  std::byte* base = nullptr;
  Bytes bytes;
  bool hugetlb = false;
  HostAccess access = HostAccess::kWrite;

  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : fd(std::exchange(other.fd, -1)),
        base(std::exchange(other.base, nullptr)),
        bytes(other.bytes),
        hugetlb(other.hugetlb),
        access(other.access) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (base != nullptr) ::munmap(base, to_size(bytes));
    if (fd >= 0) ::close(fd);
  }
};

// Memory that is kept back for the rest of the machine, because page tables, the heap and the
// kernel grow while a region is touched, after the check.
Bytes reserve_of(Bytes headroom) { return std::min(headroom / 32, mib(512)); }

Status check_headroom(const HostRegionOptions& options, Bytes bytes) {
  auto headroom = read_memory_headroom();
  if (!headroom.ok()) return headroom.error();
  const Bytes usable = headroom->bytes - reserve_of(headroom->bytes);
  if (bytes <= usable) return {};
  return exhausted("host region '" + options.name + "' needs " + in_mib(bytes) + ", but " +
                   headroom->limited_by + " leaves " + in_mib(usable) +
                   "; make the pool smaller or free memory");
}

// Addresses that nothing used a moment ago, at a multiple of the huge page size; null and errno.
std::byte* find_aligned_room(Bytes bytes) {
  const std::size_t looked_for = to_size(bytes + kHugePage);
  void* const address =
      ::mmap(nullptr, looked_for, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  ::munmap(address, looked_for);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto page = static_cast<std::uintptr_t>(kHugePage.count);
  return static_cast<std::byte*>(address) + (page - at % page) % page;
}

// Maps the descriptor at a multiple of the huge page size, because otherwise no page of it can be
// huge; null and errno on failure. Never over anything (MAP_FIXED): where that fails, as it does
// for huge pages that are not reserved, what it replaced is gone already, another thread's malloc
// may be there a moment later, and giving the addresses back would take its memory away. Instead a
// thread that maps something between the search and the mapping keeps it, and room is looked for
// again.
std::byte* map_aligned(int fd, Bytes bytes, int protection) {
  for (int attempt = 0; attempt < kMapAttemptsMax; ++attempt) {
    std::byte* const room = find_aligned_room(bytes);
    if (room == nullptr) return nullptr;
    void* const address =
        ::mmap(room, to_size(bytes), protection, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (address == room) return room;
    if (address == MAP_FAILED && errno != EEXIST) return nullptr;
    if (address != MAP_FAILED) ::munmap(address, to_size(bytes));  // before Linux 4.17: a hint
  }
  errno = ENOMEM;
  return nullptr;
}

// Opens and maps without touching. With `hugetlb` the kernel reserves the pages here, or fails.
Result<Mapping> map_region(const std::string& name, Bytes bytes, bool hugetlb) {
  Mapping mapping;
  mapping.bytes = bytes;
  mapping.hugetlb = hugetlb;
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (hugetlb ? MFD_HUGETLB : 0u);
  mapping.fd = ::memfd_create(name.c_str(), flags);
  if (mapping.fd < 0) return io_error("memfd_create '" + name + "'", errno);
  if (::ftruncate(mapping.fd, bytes.count) != 0) {
    return io_error("sizing host region '" + name + "' to " + in_mib(bytes), errno);
  }
  // Other processes that share the descriptor cannot shrink it.
  if (::fcntl(mapping.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return io_error("sealing host region '" + name + "'", errno);
  }
  mapping.base = map_aligned(mapping.fd, bytes, PROT_READ | PROT_WRITE);
  if (mapping.base == nullptr) {
    const int cause = errno;
    Error error = io_error("mapping host region '" + name + "' of " + in_mib(bytes), cause);
    if (cause == ENOMEM) error.code = ErrorCode::kResourceExhausted;
    return error;
  }
  ::madvise(mapping.base, to_size(bytes), MADV_DONTDUMP);
  return mapping;
}

// The whole size of what another process allocated, which that process cannot change any more.
Result<Mapping> map_shared(int fd, Bytes bytes, HostAccess access) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || ::fstat(fd, &status) != 0) return corrupt("what is shared is no memfd");
  if ((seals & F_SEAL_SHRINK) == 0) return corrupt("shared memory whose size may change");
  if (bytes < Bytes(1) || status.st_size < bytes.count) {
    return corrupt("shared memory of " + std::to_string(status.st_size) + " bytes, of which " +
                   std::to_string(bytes.count) + " are to be used");
  }
  Mapping mapping;
  mapping.access = access;
  mapping.bytes = Bytes(status.st_size);
  mapping.fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (mapping.fd < 0) return io_error("copying the descriptor of shared memory", errno);
  const int protection = access == HostAccess::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  mapping.base = map_aligned(mapping.fd, mapping.bytes, protection);
  if (mapping.base == nullptr) return io_error("mapping shared memory", errno);
  ::madvise(mapping.base, to_size(mapping.bytes), MADV_HUGEPAGE);  // as it was allocated
  ::madvise(mapping.base, to_size(mapping.bytes), MADV_DONTDUMP);
  return mapping;
}

int populate(std::byte* begin, Bytes length) {
  int result = 0;
  do {
    result = ::madvise(begin, to_size(length), MADV_POPULATE_WRITE);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Touches [offset, offset + length); returns 0 or an errno.
int touch(const Mapping& mapping, Bytes offset, Bytes length, bool huge_pages) {
  std::byte* begin = mapping.base + offset.count;
  if (huge_pages && !mapping.hugetlb) {
    // Touches one small page in each huge one; a collapse fills in the others. Many systems refuse
    // that, and then the call below uses the pages that there are.
    for (Bytes at; at + kHugePage <= length; at += kHugePage) {
      if (populate(begin + at.count, Bytes(1)) != 0) break;
      if (::madvise(begin + at.count, to_size(kHugePage), MADV_COLLAPSE) != 0) break;
    }
  }
  const int result = populate(begin, length);
  if (result == 0) return 0;
  if (errno != EINVAL) return errno;
  // Needed before Linux 5.14. Reserving first makes a full system an error instead of a SIGBUS.
  if (::fallocate(mapping.fd, 0, offset.count, length.count) != 0) return errno;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  for (std::int64_t at = 0; at < length.count; at += page) {
    static_cast<volatile std::byte*>(begin)[at] = std::byte{0};
  }
  return 0;
}

// Several threads touch the memory first: that is the slow part of new memory, and each thread's
// pages lie near its CPU, so a large region is spread over all sockets.
Status touch_all(const Mapping& mapping, const HostRegionOptions& options) {
  const std::int64_t slices = (mapping.bytes + kTouchSlice - Bytes(1)) / kTouchSlice;
  std::atomic<std::int64_t> next{0};
  std::atomic<int> failure{0};
  const auto work = [&] {
    for (std::int64_t slice; failure.load() == 0 && (slice = next.fetch_add(1)) < slices;) {
      const Bytes offset = kTouchSlice * slice;
      const Bytes length = std::min(kTouchSlice, mapping.bytes - offset);
      if (const int error = touch(mapping, offset, length, options.huge_pages); error != 0) {
        failure.store(error);
      }
    }
  };
  const int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int wanted = std::min(options.touch_threads > 0 ? options.touch_threads : cpus,
                              options.touch_threads > 0 ? 4 * kTouchThreadsMax : kTouchThreadsMax);
  std::vector<std::thread> threads;
  try {
    for (int i = 1; i < wanted && i < slices; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // With fewer threads it only takes longer.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure.load() == 0) return {};
  Error error = io_error("touching host region '" + options.name + "' of " + in_mib(mapping.bytes),
                         failure.load());
  error.code = ErrorCode::kResourceExhausted;
  return error;
}

}  // namespace

class HostMemory::State {
 public:
  // Held during the check and the touch, so that two allocations do not both count on the same
  // memory.
  std::mutex allocating;
  std::shared_mutex watching;  // guards `watchers`; shared while they are called
  std::vector<HostRegionWatcher*> watchers;
  mutable std::shared_mutex mutex;  // guards what follows
  std::map<RegionId, Mapping> regions;
  std::int64_t next_region = 0;

  RegionId add(Mapping mapping) {
    const std::unique_lock lock(mutex);
    const RegionId region(next_region++);
    regions.emplace(region, std::move(mapping));
    return region;
  }

  const Mapping& find(RegionId region) const {
    const auto found = regions.find(region);
    CAUSEWAY_CHECK(found != regions.end(), "no host region with this id");
    return found->second;
  }
};

HostMemory::HostMemory() : state_(std::make_unique<State>()) {}
HostMemory::~HostMemory() = default;

Result<RegionId> HostMemory::allocate(const HostRegionOptions& options) {
  // The kernel prefixes names with "memfd:" and takes 249 bytes.
  if (options.name.size() > 200 || options.name.find('\0') != std::string::npos) {
    return invalid_argument("the name of a host region must be at most 200 bytes without NUL");
  }
  if (options.bytes.count <= 0 || options.bytes > Bytes(std::int64_t{1} << 50)) {
    return invalid_argument("host region '" + options.name + "' cannot have " +
                            std::to_string(options.bytes.count) + " bytes");
  }
  const bool huge = options.huge_pages && options.bytes >= kHugePage;
  const Bytes page(::sysconf(_SC_PAGESIZE));
  const Bytes bytes = round_up(options.bytes, huge ? kHugePage : page);

  const std::lock_guard allocating(state_->allocating);
  std::optional<Mapping> mapping;
  if (huge) {  // explicit huge pages, where enough are reserved
    if (auto mapped = map_region(options.name, bytes, true); mapped.ok()) {
      mapping.emplace(std::move(mapped).value());
    }
  }
  if (!mapping) {
    CAUSEWAY_TRY(check_headroom(options, bytes));
    CAUSEWAY_ASSIGN(Mapping mapped, map_region(options.name, bytes, false));
    if (huge) ::madvise(mapped.base, to_size(bytes), MADV_HUGEPAGE);
    mapping.emplace(std::move(mapped));
  }
  CAUSEWAY_TRY(touch_all(*mapping, options));
  return state_->add(std::move(*mapping));
}

Result<RegionId> HostMemory::adopt(int file_descriptor, Bytes bytes, HostAccess access) {
  CAUSEWAY_ASSIGN(Mapping mapping, map_shared(file_descriptor, bytes, access));
  return state_->add(std::move(mapping));
}

void HostMemory::watch(HostRegionWatcher* watcher) {
  const std::lock_guard lock(state_->watching);
  state_->watchers.push_back(watcher);
}

void HostMemory::unwatch(HostRegionWatcher* watcher) {
  const std::lock_guard lock(state_->watching);
  std::erase(state_->watchers, watcher);
}

Status HostMemory::release(RegionId region) {
  {
    const std::shared_lock lock(state_->watching);
    for (HostRegionWatcher* watcher : state_->watchers) watcher->releasing(region);
  }
  // Unmapping gigabytes takes a while, so it follows after the lock, which resolve() takes.
  std::map<RegionId, Mapping>::node_type gone;
  const std::unique_lock lock(state_->mutex);
  gone = state_->regions.extract(region);
  if (gone.empty()) return not_found("no host region " + std::to_string(region.value));
  return {};
}

std::span<std::byte> HostMemory::resolve(HostAddress address, Bytes bytes) const {
  const std::shared_lock lock(state_->mutex);
  const Mapping& mapping = state_->find(address.region);
  CAUSEWAY_CHECK(address.offset.count >= 0 && bytes.count >= 0 && bytes <= mapping.bytes &&
                     address.offset <= mapping.bytes - bytes,
                 "host address out of its region");
  return {mapping.base + address.offset.count, to_size(bytes)};
}

int HostMemory::file_descriptor(RegionId region) const {
  const std::shared_lock lock(state_->mutex);
  return state_->find(region).fd;
}

Bytes HostMemory::region_bytes(RegionId region) const {
  const std::shared_lock lock(state_->mutex);
  return state_->find(region).bytes;
}

HostAccess HostMemory::access(RegionId region) const {
  const std::shared_lock lock(state_->mutex);
  return state_->find(region).access;
}

Bytes HostMemory::total_bytes() const {
  const std::shared_lock lock(state_->mutex);
  Bytes total;
  for (const auto& [region, mapping] : state_->regions) total += mapping.bytes;
  return total;
}

}  // namespace causeway::device
