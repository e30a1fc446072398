// What the driver tells about the memory behind an address.
#pragma once

#include <optional>
#include <vector>

#include "preload/decide.h"
#include "preload/native.h"

namespace causeway::preload {

// Looks up the ends of one copy, or of the copies of a batch; each allocation is asked about once.
// Not thread-safe; serves one call of the program.
class Pointers {
 public:
  // `primaries`: the primary context of each GPU; nullptr where it is unknown.
  Pointers(const Native& native, const std::vector<CUctx_st*>& primaries)
      : native_(native), primaries_(primaries) {}

  // The memory of [address, address + bytes). Memory that is mapped in pieces is asked about piece
  // by piece.
  Memory at(CudaDevicePointer address, std::size_t bytes);

 private:
  struct Range {
    CudaDevicePointer begin = 0;
    CudaDevicePointer end = 0;
    Memory memory;
  };
  Range ask(CudaDevicePointer address) const;
  // Whether a GPU may read and write memory of mapped addresses; nullopt: the address is not
  // mapped.
  std::optional<bool> mapped_for(int gpu, CudaDevicePointer address) const;
  // Whether every GPU that takes part sees host memory as pinned.
  bool pinned_for_all(CudaDevicePointer address, const CUctx_st* context) const;
  const Range& range_of(CudaDevicePointer address);

  const Native& native_;
  const std::vector<CUctx_st*>& primaries_;
  std::vector<Range> ranges_;  // the latest last
};

}  // namespace causeway::preload
