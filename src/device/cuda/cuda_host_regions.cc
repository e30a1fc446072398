#include "device/cuda/cuda_host_regions.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "device/host_memory.h"

namespace causeway::device {
namespace {

// The size of the pieces of memory that is used before it was made reachable.
constexpr Bytes kStep = mib(8);

}  // namespace

CudaHostRegions::CudaHostRegions(HostMemory& memory, CudaStreamWaits& waits)
    : memory_(memory), waits_(waits) {
  memory_.watch(this);
}

CudaHostRegions::~CudaHostRegions() {
  memory_.unwatch(this);
  for (const auto& [id, region] : regions_) {
    for (const auto& [offset, piece] : region) unregister(piece);
  }
}

Status CudaHostRegions::make_reachable(HostAddress address, Bytes bytes, CudaContext& context) {
  (void)memory_.resolve(address, bytes);  // checks that the range lies inside
  Lock lock(mutex_);
  const Bytes end = address.offset + bytes;
  for (Bytes at = address.offset; at < end;) {
    CAUSEWAY_ASSIGN(const Found found,
                    piece_at(lock, address.region, {at, end}, context, Ahead::kYes));
    at = found.end();
  }
  return {};
}

bool CudaHostRegions::is_reachable(HostAddress address, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  const Bytes end = address.offset + bytes;
  for (Bytes at = address.offset; at < end;) {
    const auto found = known(address.region, at);
    if (!found || !found->piece.ready) return false;
    at = found->end();
  }
  return true;
}

Result<CudaHostRegions::Reach> CudaHostRegions::resolve(HostAddress address, Bytes bytes,
                                                        CudaContext& context, View& view) {
  Lock lock(mutex_);
  auto found = known(address.region, address.offset);
  if (!found || !found->piece.ready ||
      !inside(address.offset - found->begin, bytes, found->piece.bytes)) {
    const std::byte* const data = memory_.resolve(address, bytes).data();  // checks, as above
    if (bytes.count == 0) return Reach{reinterpret_cast<CudaDevicePointer>(data), bytes};
    const Range range{address.offset, address.offset + bytes};
    CAUSEWAY_ASSIGN(found, piece_at(lock, address.region, range, context, Ahead::kNo));
  }
  view = {address.region, found->begin, found->piece.bytes,
          found->piece.seen - static_cast<CudaDevicePointer>(found->begin.count), releases_.load()};
  return Reach{view.at + static_cast<CudaDevicePointer>(address.offset.count),
               std::min(bytes, found->end() - address.offset)};
}

Result<CudaDevicePointer> CudaHostRegions::address_of(HostAddress address, Bytes bytes,
                                                      CudaContext& context) {
  View view;
  CAUSEWAY_ASSIGN(const Reach first, resolve(address, bytes, context, view));
  for (Bytes at = first.bytes; at < bytes;) {
    CAUSEWAY_ASSIGN(const Reach next,
                    resolve({address.region, address.offset + at}, bytes - at, context, view));
    if (next.at != first.at + static_cast<CudaDevicePointer>(at.count)) {
      return unsupported("host region " + std::to_string(address.region.value) +
                         " is registered in pieces that are not neighbours in the addresses of " +
                         context.physical().label() + ", at offset " +
                         std::to_string((address.offset + at).count) +
                         ": kernels cannot read across; register it as one");
    }
    at += next.bytes;
  }
  return first.at;
}

std::optional<CudaHostRegions::Found> CudaHostRegions::known(RegionId id, Bytes at) const {
  const auto region = regions_.find(id);
  if (region == regions_.end()) return std::nullopt;
  const auto after = region->second.upper_bound(at);
  if (after == region->second.begin()) return std::nullopt;
  const auto& [begin, piece] = *std::prev(after);
  if (at >= begin + piece.bytes) return std::nullopt;
  return Found{begin, piece};
}

Result<CudaHostRegions::Found> CudaHostRegions::piece_at(Lock& lock, RegionId id, Range range,
                                                         CudaContext& context, Ahead ahead) {
  while (true) {
    const auto found = known(id, range.begin);
    if (found && found->piece.ready) return *found;
    if (found) {
      changed_.wait(lock);
    } else {
      CAUSEWAY_TRY(add(lock, id, missing(id, range, ahead), context, ahead));
    }
  }
}

CudaHostRegions::Range CudaHostRegions::missing(RegionId id, Range range, Ahead ahead) const {
  Range free{Bytes(0), memory_.region_bytes(id)};
  const auto entry = regions_.find(id);
  if (entry == regions_.end() && ahead == Ahead::kNo) return free;
  if (entry != regions_.end()) {
    const Region& region = entry->second;
    const auto next = region.upper_bound(range.begin);
    if (next != region.end()) free.end = next->first;
    if (next != region.begin()) {
      const auto& [begin, piece] = *std::prev(next);
      free.begin = begin + piece.bytes;
    }
  }
  const Bytes step = ahead == Ahead::kYes ? Bytes(::sysconf(_SC_PAGESIZE)) : kStep;
  return {std::max(free.begin, step * (range.begin / step)),
          std::min(free.end, round_up(range.end, step))};
}

Status CudaHostRegions::add(Lock& lock, RegionId id, Range range, CudaContext& context,
                            Ahead ahead) {
  regions_[id][range.begin].bytes = range.end - range.begin;
  lock.unlock();
  // A copy whose memory is not registered may be the one that a stream waits for.
  std::optional<CudaStreamWaits::Hold> hold;
  if (ahead == Ahead::kYes) hold.emplace(waits_);
  auto piece = register_piece(id, range, context);
  hold.reset();
  lock.lock();
  // It still exists, because a release of the region waits until its pieces are ready.
  Region& region = regions_.find(id)->second;
  if (piece.ok()) {
    region[range.begin] = *piece;
  } else {
    region.erase(range.begin);
    if (region.empty()) regions_.erase(id);
  }
  changed_.notify_all();
  return piece.ok() ? Status() : Status(piece.error());
}

Result<CudaHostRegions::Piece> CudaHostRegions::register_piece(RegionId id, Range range,
                                                               CudaContext& context) const {
  Piece piece;
  piece.bytes = range.end - range.begin;
  piece.ready = true;
  piece.base = memory_.resolve({id, range.begin}, piece.bytes).data();
  piece.physical = &context.physical();
  const Bytes whole = memory_.region_bytes(id);
  const std::string what = "making " +
                           (piece.bytes == whole ? ""
                                                 : in_mib(piece.bytes) + " at offset " +
                                                       std::to_string(range.begin.count) + " of ") +
                           "host region " + std::to_string(id.value) + " of " + in_mib(whole) +
                           " reachable for " + context.physical().label();
  CudaPhysical& physical = *piece.physical;
  const CudaApi& api = physical.api();
  CAUSEWAY_ASSIGN(CUctx_st * primary, physical.primary().with_context(what));
  const CudaScope scope(api, primary);
  CAUSEWAY_TRY(physical.check(scope.result(), "cuCtxPushCurrent").with_context(what));
  const unsigned flags = kCudaRegisterPortable | kCudaRegisterDeviceMap |
                         (memory_.access(id) == HostAccess::kRead ? kCudaRegisterReadOnly : 0u);
  CAUSEWAY_TRY(physical
                   .check(api.cuMemHostRegister_v2(piece.base, to_size(piece.bytes), flags),
                          "cuMemHostRegister")
                   .with_context(what));
  Status seen = physical
                    .check(api.cuMemHostGetDevicePointer_v2(&piece.seen, piece.base, 0),
                           "cuMemHostGetDevicePointer")
                    .with_context(what);
  if (seen.ok()) return piece;
  unregister(piece);
  return seen.error();
}

// Done in the primary context, which lives as long as the machine. An error means that the context
// is dead, and the registration with it.
void CudaHostRegions::unregister(const Piece& piece) const {
  CudaPhysical& physical = *piece.physical;
  if (physical.hung()) return;  // would wait for the work that hangs
  const CudaStreamWaits::Hold hold(waits_);
  const auto context = physical.primary();
  if (!context.ok()) return;
  const CudaScope scope(physical.api(), *context);
  (void)physical.check(physical.api().cuMemHostUnregister(piece.base), "cuMemHostUnregister").ok();
}

// The bytes stay until this returns, and no other thread uses them, so this takes no lock.
void CudaHostRegions::releasing(RegionId id) {
  Region region;
  {
    Lock lock(mutex_);
    region = take(lock, id, {Bytes(0), memory_.region_bytes(id)});
  }
  for (const auto& [offset, piece] : region) unregister(piece);
}

void CudaHostRegions::make_unreachable(HostAddress address, Bytes bytes) {
  (void)memory_.resolve(address, bytes);  // checks that the range lies inside
  Region pieces;
  {
    Lock lock(mutex_);
    pieces = take(lock, address.region, {address.offset, address.offset + bytes});
  }
  for (const auto& [offset, piece] : pieces) unregister(piece);
}

CudaHostRegions::Region CudaHostRegions::take(Lock& lock, RegionId id, Range range) {
  const auto settled = [&] {
    const auto entry = regions_.find(id);
    return entry == regions_.end() ||
           std::all_of(entry->second.lower_bound(range.begin), entry->second.lower_bound(range.end),
                       [](const auto& piece) { return piece.second.ready; });
  };
  changed_.wait(lock, settled);
  Region taken;
  const auto entry = regions_.find(id);
  if (entry == regions_.end()) return taken;
  Region& region = entry->second;
  while (true) {
    const auto piece = region.lower_bound(range.begin);
    if (piece == region.end() || piece->first >= range.end) break;
    taken.insert(region.extract(piece));
  }
  if (region.empty()) regions_.erase(entry);
  if (!taken.empty()) releases_.store(releases_.load() + 1, std::memory_order_release);
  return taken;
}

}  // namespace causeway::device
