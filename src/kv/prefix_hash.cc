#include "kv/prefix_hash.h"

#include <bit>

namespace causeway::kv {

SipHash::SipHash(HashKey key)
    : v0_(key.low ^ 0x736f6d6570736575ull),
      v1_(key.high ^ 0x646f72616e646f6dull ^ 0xee),
      v2_(key.low ^ 0x6c7967656e657261ull),
      v3_(key.high ^ 0x7465646279746573ull) {}

inline void SipHash::round() {
  v0_ += v1_;
  v1_ = std::rotl(v1_, 13) ^ v0_;
  v0_ = std::rotl(v0_, 32);
  v2_ += v3_;
  v3_ = std::rotl(v3_, 16) ^ v2_;
  v0_ += v3_;
  v3_ = std::rotl(v3_, 21) ^ v0_;
  v2_ += v1_;
  v1_ = std::rotl(v1_, 17) ^ v2_;
  v2_ = std::rotl(v2_, 32);
}

inline void SipHash::add(std::uint64_t word) {
  v3_ ^= word;
  round();
  round();
  v0_ ^= word;
  length_ += 8;
}

PrefixHash SipHash::finish(std::uint64_t tail, int tail_bytes) {
  const std::uint64_t length = length_ + static_cast<std::uint64_t>(tail_bytes);
  add(tail | (length << 56));
  v2_ ^= 0xee;
  for (int i = 0; i < 4; ++i) round();
  const std::uint64_t low = v0_ ^ v1_ ^ v2_ ^ v3_;
  v1_ ^= 0xdd;
  for (int i = 0; i < 4; ++i) round();
  return {low, v0_ ^ v1_ ^ v2_ ^ v3_};
}

PrefixHash hash_block(HashKey key, ModelId model, PrefixHash parent,
                      std::span<const TokenId> tokens) {
  SipHash sip(key);
  sip.add(parent.low);
  sip.add(parent.high);
  sip.add(static_cast<std::uint64_t>(model.value));
  // Token ids are read as 32-bit words, lowest first, as they lie in memory.
  std::size_t i = 0;
  for (; i + 1 < tokens.size(); i += 2) {
    sip.add(static_cast<std::uint32_t>(tokens[i]) |
            (static_cast<std::uint64_t>(static_cast<std::uint32_t>(tokens[i + 1])) << 32));
  }
  if (i == tokens.size()) return sip.finish(0, 0);
  return sip.finish(static_cast<std::uint32_t>(tokens[i]), 4);
}

}  // namespace causeway::kv
