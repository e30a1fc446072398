// The host memory that the GPUs can reach. Memory is registered with the driver in pieces, for all
// contexts, whichever slice asks: in the primary context of its GPU, which outlives the slice. It
// is unregistered when its region is released. Registering pins every page and takes time (256 MiB:
// about 10 ms), and launches wait for it; therefore large pools are registered ahead of use, and
// unregistered ahead of their release, in small pieces.
//
//   region │ piece │ piece │ in progress │ ……not registered…… │ piece │
//
// A region without any piece becomes one piece on first use. In a region with pieces, memory that
// is used and not registered becomes further pieces, of 8 MiB. The lock is released while the
// driver registers, so that copies from other pieces do not wait.
//
// Private to device/cuda. Thread-safe; must be destroyed before the HostMemory and the contexts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_stream_waits.h"
#include "device/host_memory.h"

namespace causeway::device {

class CudaHostRegions final : public HostRegionWatcher {
 public:
  CudaHostRegions(HostMemory& memory, CudaStreamWaits& waits);
  ~CudaHostRegions() override;
  CudaHostRegions(const CudaHostRegions&) = delete;
  CudaHostRegions& operator=(const CudaHostRegions&) = delete;

  // Registers the missing parts of a range, which must lie inside its region. A range without any
  // piece becomes one piece, of whole pages.
  Status make_reachable(HostAddress address, Bytes bytes, CudaContext& context);
  // Whether all of the range is registered, which holds for every context.
  bool is_reachable(HostAddress address, Bytes bytes) const;
  // Unregisters the pieces that begin in a range, which must lie inside its region and must not be
  // in use any more. The lock is released while the driver works.
  void make_unreachable(HostAddress address, Bytes bytes);

  // A piece as GPUs see it, for callers that use the same one again and again.
  struct View {
    RegionId region;
    Bytes begin;  // of the piece, within the region
    Bytes bytes;
    CudaDevicePointer at = 0;    // of the region's first byte, were it registered as this piece is
    std::int64_t releases = -1;  // the count of releases when it was looked up
  };
  struct Reach {
    CudaDevicePointer at = 0;
    Bytes bytes;
  };
  // The GPUs' address of [address, address + bytes), which must lie inside its region, as far as
  // one piece reaches: copies do not cross its border. The context's GPU registers the missing
  // parts of the whole range. The piece is also stored in `view`.
  Result<Reach> resolve(HostAddress address, Bytes bytes, CudaContext& context, View& view);
  // The kernels' address of the whole range. kUnsupported when it lies in pieces that are not
  // neighbours in the GPU's addresses.
  Result<CudaDevicePointer> address_of(HostAddress address, Bytes bytes, CudaContext& context);
  // Whether a view still shows this range. Takes no lock: a region must not be released while it is
  // in use, so the result stays true for the caller.
  bool shows(const View& view, HostAddress address, Bytes bytes) const {
    return view.region == address.region &&
           inside(address.offset - view.begin, bytes, view.bytes) &&
           view.releases == releases_.load(std::memory_order_acquire);
  }

  void releasing(RegionId region) override;
  HostMemory& memory() const { return memory_; }

 private:
  struct Piece {
    Bytes bytes;
    bool ready = false;  // false: a thread is registering it
    std::byte* base = nullptr;
    CudaDevicePointer seen = 0;
    CudaPhysical* physical = nullptr;
  };
  using Region = std::map<Bytes, Piece>;  // by offset; none overlap
  struct Range {
    Bytes begin;
    Bytes end;
  };
  enum class Ahead { kYes, kNo };
  using Lock = std::unique_lock<std::mutex>;
  static bool inside(Bytes offset, Bytes bytes, Bytes whole) {
    return offset >= Bytes(0) && bytes >= Bytes(0) && bytes <= whole && offset <= whole - bytes;
  }
  struct Found {
    Bytes begin;
    Piece piece;
    Bytes end() const { return begin + piece.bytes; }
  };
  // With mutex_ held.
  std::optional<Found> known(RegionId id, Bytes at) const;
  // The ready piece that contains the range's first byte. If there is none, one is made as `ahead`
  // says. The lock is released meanwhile.
  Result<Found> piece_at(Lock& lock, RegionId id, Range range, CudaContext& context, Ahead ahead);
  // The range to register for a range whose first byte is in no piece.
  Range missing(RegionId id, Range range, Ahead ahead) const;
  Status add(Lock& lock, RegionId id, Range range, CudaContext& context, Ahead ahead);
  Result<Piece> register_piece(RegionId id, Range range, CudaContext& context) const;
  void unregister(const Piece& piece) const;
  // Removes the pieces that begin in a range from the table, once none of them is in progress.
  Region take(Lock& lock, RegionId id, Range range);

  HostMemory& memory_;
  CudaStreamWaits& waits_;
  std::atomic<std::int64_t> releases_{0};  // of pieces or regions; written with mutex_ held
  mutable std::mutex mutex_;               // guards what follows
  std::condition_variable changed_;        // a piece became ready, or failed
  std::map<RegionId, Region> regions_;     // each has a piece
};

}  // namespace causeway::device
