// What dependent launches that only read can reach on a GPU: a chain of kernels. Each of them
// reads its own bytes of memory with all SMs; it asks for the first of them before it waits for the
// kernel in front, as far as the share of shared memory goes that the chain gives it; then it reads
// the small vector which that one wrote, and writes one itself. No arithmetic. All are programmatic
// dependents in one CUDA graph.
//
//   kernel n    …bytes│vector│
//   kernel n+1    ask ·······│wait│vector, bytes…│vector│
//
// So the difference to reading all bytes in one go is what waiting for each other costs kernels
// that are launched one after the other. It says how near a real chain of kernels is to that; a
// lower bound of what has to be read it is not: fewer kernels, or ones that share, may be faster.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::bench {

struct ChainLink {
  Bytes bytes;
  bool early = true;  // may be asked for before the kernel in front has ended
};

struct ChainRead {
  std::vector<ChainLink> links;
  // Read one link after the other, each a multiple of 16 bytes from a multiple of 128, from its
  // beginning again at its end: far more than the L2 holds, or the links would find it there.
  const void* memory = nullptr;
  Bytes memory_bytes;
  void* scratch = nullptr;  // 2 × vector bytes of device memory, which are overwritten
  Bytes vector;             // what a kernel hands to the next: a multiple of 16, at most 64 KiB
  // For tests: not null, to this in device memory each link adds all 32-bit words it has read, as
  // they came. The kernels are the same but for that, and far slower.
  std::uint64_t* sum = nullptr;
};

// The chain as graphs: with two, three and four kernels' CTAs beside each other on an SM. Not
// thread-safe; the context it was made in is current in all calls, and its destructor too.
class CudaChain {
 public:
  // Enqueues nothing. kInvalidArgument: no links, memory of less than a piece, a bad vector.
  static Result<CudaChain> create(const ChainRead& chain, CudaStream stream);
  ~CudaChain();
  CudaChain(CudaChain&&) noexcept;
  CudaChain& operator=(CudaChain&&) noexcept;

  // Time of one pass over all links, the best of the graphs; each runs `times` times in a row.
  Result<Nanos> time(int times, CudaStream stream);

 private:
  class State;
  explicit CudaChain(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::bench
