// A slice whose models compute nothing but checksums of their weights, for tests of what steps
// read. Everything else is a slice's own: cache, mover, transfers, engine.
//
//   step ── group by group, each behind its semaphore ──▶ Σ word · (2 · place + 1) ──▶ its tokens
//
// A model's arithmetic may round a wrong byte away, and never looks at most rows of an embedding.
// Here every step reads every byte of every group that is cached or arrives, on a stream of its own
// and with kernels of the backend's, and one wrong byte changes every token that it chooses.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "slice/machine.h"
#include "slice/slice.h"
#include "weights/residency.h"

namespace causeway::slice::testing {

// Checksums are of words of eight bytes, modulo 2^64. Odd factors lose no change of one word.
constexpr std::uint64_t factor_of_word(std::int64_t place) {
  return 2 * static_cast<std::uint64_t>(place) + 1;
}
std::uint64_t checksum(std::span<const std::byte> bytes);
// The checksum of all groups of a model.
std::uint64_t checksum(const weights::PlacedWeights& weights);

// What a model with this checksum answers once it knows `position` tokens; of 30 bits.
TokenId checksum_token(std::uint64_t sum, std::int64_t position);

// Reads weights on a backend.
class WeightSummer {
 public:
  static constexpr std::int64_t kParts = 64;
  virtual ~WeightSummer() = default;
  // Memory for `count` numbers that the host and the stream's work reach. Called once; the
  // summer's.
  virtual Result<std::uint64_t*> reserve(std::int64_t count) = 0;
  // In order with the stream's other work: the sum of `parts[0]` to `parts[kParts - 1]` becomes the
  // checksum of the `bytes` at `data`, whole words. They are 0 before.
  virtual Status enqueue(device::Stream& stream, std::span<const std::byte> data,
                         std::uint64_t* parts) = 0;
};

// On the CPU: on the stream's thread.
class HostSummer final : public WeightSummer {
 public:
  Result<std::uint64_t*> reserve(std::int64_t count) override;
  Status enqueue(device::Stream& stream, std::span<const std::byte> data,
                 std::uint64_t* parts) override;

 private:
  std::vector<std::uint64_t> sums_;
};

struct ChecksumSliceOptions {
  Bytes cache = {};  // for weights
  Bytes kv_frame = kib(16);
  double read_bytes_per_second = 1e10;       // of a step: when one may start that waits for copies
  weights::ResidencyOptions residency = {};  // extents and their size are the slice's to set
  engine::EngineOptions engine = {};         // frames are the slice's to set
  LinkFront link_front = {};
};

// All outlive the slice. The device is the machine's first.
struct ChecksumParts {
  Machine& machine;
  device::Device& device;
  WeightSummer& summer;
  engine::OutputSink& sink;
};
Result<std::unique_ptr<Slice>> open_checksum_slice(const ChecksumSliceOptions& options,
                                                   const ChecksumParts& parts);

}  // namespace causeway::slice::testing
