// What the driver knows of the memory behind an address.
#pragma once

#include <optional>
#include <vector>

#include "preload/decide.h"
#include "preload/native.h"

namespace causeway::preload {

// The ends of one copy, or of a batch: neighbours in an allocation are asked about once. Not
// thread-safe; serves one call of the program.
class Pointers {
 public:
  // `primaries`: the primary context of each GPU, nullptr where it is not known.
  Pointers(const Native& native, const std::vector<CUctx_st*>& primaries)
      : native_(native), primaries_(primaries) {}

  // Of [address, address + bytes). Memory mapped in pieces is followed piece by piece.
  Memory at(CudaDevicePointer address, std::size_t bytes);

 private:
  struct Range {
    CudaDevicePointer begin = 0;
    CudaDevicePointer end = 0;
    Memory memory;
  };
  Range ask(CudaDevicePointer address) const;
  // Whether a GPU may read and write memory of mapped addresses; nullopt: it is none.
  std::optional<bool> mapped_for(int gpu, CudaDevicePointer address) const;
  // Whether every GPU that takes part sees host memory as pinned.
  bool pinned_for_all(CudaDevicePointer address, const CUctx_st* context) const;
  const Range& range_of(CudaDevicePointer address);

  const Native& native_;
  const std::vector<CUctx_st*>& primaries_;
  std::vector<Range> ranges_;  // the latest last
};

}  // namespace causeway::preload
