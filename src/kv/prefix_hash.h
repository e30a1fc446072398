// The identity of a full KV block: a hash over its model, the identity of the block before it and
// its tokens. Equal identity means equal tokens from the sequence's start.
//
// The index compares these 128 bits and not the tokens themselves, so a collision would give one
// user's KV to another. Therefore the hash is SipHash-2-4 with 128-bit output (Aumasson and
// Bernstein, 2012) and a key: without the key a collision cannot be crafted, and a chance one among
// 10^9 blocks has a probability of about 10^-21.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>

#include "base/units.h"

namespace causeway::kv {

struct PrefixHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  constexpr auto operator<=>(const PrefixHash&) const = default;
};

struct HashKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// SipHash-2-4-128 of a message given as 64-bit words (lowest byte first) and a tail.
class SipHash {
 public:
  explicit SipHash(HashKey key);
  void add(std::uint64_t word);
  // `tail` holds the last `tail_bytes` (0 … 7) bytes of the message, lowest first.
  PrefixHash finish(std::uint64_t tail, int tail_bytes);

 private:
  void round();
  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t length_ = 0;
};

// The identity of the block of `tokens` after the block `parent` (all zero: the first block).
PrefixHash hash_block(HashKey key, ModelId model, PrefixHash parent,
                      std::span<const TokenId> tokens);

}  // namespace causeway::kv

template <>
struct std::hash<causeway::kv::PrefixHash> {
  std::size_t operator()(const causeway::kv::PrefixHash& of) const noexcept { return of.low; }
};
