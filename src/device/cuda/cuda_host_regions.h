// Which host memory the GPUs can reach. Memory is registered with the driver in pieces, for all
// contexts, whichever slice asks: in its GPU's primary context, which stays when the slice ends. It
// is unregistered when its region is released. Registering pins every page and takes
// time (256 MiB: about 10 ms), and launches wait for it; so large pools are registered ahead of
// use, and unregistered ahead of their release, in small pieces.
//
//   region │ piece │ piece │ in progress │ ……not registered…… │ piece │
//
// A region of which nothing is registered becomes one piece on first use. Where there are pieces,
// what is used and missing becomes more of them, of 8 MiB. The lock is open while the driver
// registers, so that copies from other pieces do not wait.
//
// Private to device/cuda. Thread-safe; must go before the HostMemory and the contexts.
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

  // Registers what is missing of a range, which must lie inside its region. A range of which
  // nothing is registered becomes one piece, of whole pages.
  Status make_reachable(HostAddress address, Bytes bytes, CudaContext& context);
  // Whether all of the range is registered; so for every context.
  bool is_reachable(HostAddress address, Bytes bytes) const;
  // Unregisters the pieces that begin in a range. The range must lie inside its region, and must
  // not be in use any more. The lock is open while the driver works.
  void make_unreachable(HostAddress address, Bytes bytes);

  // A piece as GPUs see it, for callers that ask for the same one again and again.
  struct View {
    RegionId region;
    Bytes begin;  // of the piece, within the region
    Bytes bytes;
    CudaDevicePointer at = 0;    // of the region's first byte, were it registered as this piece is
    std::int64_t releases = -1;  // so far when it was looked up
  };
  struct Reach {
    CudaDevicePointer at = 0;
    Bytes bytes;
  };
  // How GPUs see [address, address + bytes), which must lie inside its region, as far as one piece
  // goes: copies do not cross its border. The context's GPU registers what is missing of the whole
  // range. The piece is also in `view`.
  Result<Reach> resolve(HostAddress address, Bytes bytes, CudaContext& context, View& view);
  // How kernels see the whole range. kUnsupported when it lies in pieces that are not neighbours in
  // the GPU's addresses.
  Result<CudaDevicePointer> address_of(HostAddress address, Bytes bytes, CudaContext& context);
  // Whether a view still shows such a range. Takes no lock: a region must not be in use while it is
  // released, so what is true now stays so for the caller.
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
    bool ready = false;  // else a thread registers it
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
  // The piece that has the range's first byte, ready; if there is none, one that is made as `ahead`
  // says. The lock is open meanwhile.
  Result<Found> piece_at(Lock& lock, RegionId id, Range range, CudaContext& context, Ahead ahead);
  // What to register of a range whose first byte is in no piece.
  Range missing(RegionId id, Range range, Ahead ahead) const;
  Status add(Lock& lock, RegionId id, Range range, CudaContext& context, Ahead ahead);
  Result<Piece> register_piece(RegionId id, Range range, CudaContext& context) const;
  void unregister(const Piece& piece) const;
  // Takes the pieces that begin in a range out of the table, once none of them is in progress.
  Region take(Lock& lock, RegionId id, Range range);

  HostMemory& memory_;
  CudaStreamWaits& waits_;
  std::atomic<std::int64_t> releases_{0};  // of pieces or regions; written with mutex_ held
  mutable std::mutex mutex_;               // guards what follows
  std::condition_variable changed_;        // a piece became ready, or is not to be had
  std::map<RegionId, Region> regions_;     // each has a piece
};

}  // namespace causeway::device
