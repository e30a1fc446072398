#include "base/nearest_word.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace causeway {
namespace {

constexpr std::size_t kLongestWord = 64;
constexpr std::size_t kChangesMax = 3;

// How many changes make `to` of `from` (optimal string alignment); neither is longer than
// kLongestWord. Row i holds the changes from i characters of `from` to each beginning of `to`.
std::size_t changes_between(std::string_view from, std::string_view to) {
  using Row = std::array<std::size_t, kLongestWord + 1>;
  Row before{}, last{}, row{};
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = std::exchange(last, row);
  }
  return last[to.size()];
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > kLongestWord) return {};
  std::string_view nearest;
  std::size_t fewest = std::min(kChangesMax, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    if (candidate.empty() || candidate.size() > kLongestWord) continue;
    const std::size_t changes = changes_between(word, candidate);
    if (changes < fewest) {
      fewest = changes;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace causeway
