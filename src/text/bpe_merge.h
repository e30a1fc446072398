// The merging of byte-pair encoding: join the adjacent pair with the lowest rank, the leftmost of
// equals, until no pair can be joined. Both kinds of tokenizer use it; they differ in the lookup.
//
// Short words scan all pairs for each merge, which beats any structure there; long ones (a text
// without spaces) keep pairs in a heap over a linked list of symbols: O(n log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "text/tokenizer.h"

namespace causeway::text {

// A stretch of the word that is one token at this point. Symbols of a word are contiguous.
struct Symbol {
  TokenId id = -1;  // -1: not a token (SentencePiece); lookups must cope
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

inline constexpr std::uint32_t kNoMerge = std::numeric_limits<std::uint32_t>::max();

// What a pair becomes; a lower rank merges earlier.
struct Merge {
  std::uint32_t rank = kNoMerge;
  TokenId id = -1;
};

// Buffers of one encoding, kept from word to word.
struct MergeScratch {
  struct Candidate {
    std::uint64_t rank_and_position = 0;
    std::uint32_t end = 0;  // where the right symbol ended: differs once either has changed
    TokenId id = -1;
    bool operator<(const Candidate& other) const {  // std:: heaps put the largest first
      return rank_and_position > other.rank_and_position;
    }
  };
  struct Link {
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;
  std::vector<Candidate> heap;
  std::vector<Link> links;
};

// Scans all pairs for each merge: O(n^2).
template <typename Lookup>
void merge_by_scanning(MergeScratch& scratch, const Lookup& lookup) {
  auto& symbols = scratch.symbols;
  auto& merges = scratch.merges;  // merges[i] joins symbols i and i + 1; the last joins nothing
  merges.assign(symbols.size(), Merge{});
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
    merges[i] = lookup(symbols[i], symbols[i + 1]);
  while (symbols.size() > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < symbols.size(); ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoMerge) break;
    symbols[best].id = merges[best].id;
    symbols[best].size += symbols[best + 1].size;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
    const bool has_next = best + 1 < symbols.size();
    merges[best] = has_next ? lookup(symbols[best], symbols[best + 1]) : Merge{};
    if (best > 0) merges[best - 1] = lookup(symbols[best - 1], symbols[best]);
  }
}

// The same result by a heap: O(n log n).
template <typename Lookup>
void merge_by_heap(MergeScratch& scratch, const Lookup& lookup) {
  auto& symbols = scratch.symbols;
  auto& links = scratch.links;
  auto& heap = scratch.heap;
  const auto count = static_cast<std::int32_t>(symbols.size());
  links.resize(symbols.size());
  heap.clear();
  const auto end_of = [&](std::int32_t i) { return symbols[i].offset + symbols[i].size; };
  const auto propose = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return false;
    const Merge merge = lookup(symbols[left], symbols[right]);
    if (merge.rank == kNoMerge) return false;
    const auto position = static_cast<std::uint32_t>(left);
    heap.push_back({(std::uint64_t{merge.rank} << 32) | position, end_of(right), merge.id});
    return true;
  };
  for (std::int32_t i = 0; i < count; ++i) {
    links[i] = {i - 1, i + 1 < count ? i + 1 : -1};
    propose(i, links[i].next);
  }
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const MergeScratch::Candidate candidate = heap.back();
    heap.pop_back();
    const auto left = static_cast<std::int32_t>(candidate.rank_and_position & 0xFFFFFFFFu);
    const std::int32_t right = links[left].next;
    // Symbols only grow, so a pair that ends where it did is unchanged. Absorbed ones have size 0.
    if (symbols[left].size == 0 || right < 0 || end_of(right) != candidate.end) continue;
    symbols[left].id = candidate.id;
    symbols[left].size += symbols[right].size;
    symbols[right].size = 0;
    links[left].next = links[right].next;
    if (links[left].next >= 0) links[links[left].next].previous = left;
    if (propose(links[left].previous, left)) std::push_heap(heap.begin(), heap.end());
    if (propose(left, links[left].next)) std::push_heap(heap.begin(), heap.end());
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.size == 0; });
}

// Merges scratch.symbols, all of size > 0, as far as `lookup` (left, right) -> Merge allows.
template <typename Lookup>
void merge_symbols(MergeScratch& scratch, const Lookup& lookup) {
  constexpr std::size_t kScanMax = 48;
  if (scratch.symbols.size() <= kScanMax) {
    merge_by_scanning(scratch, lookup);
  } else {
    merge_by_heap(scratch, lookup);
  }
}

}  // namespace causeway::text
