#include "weights/expert_maps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace causeway::weights {

namespace {

// The map that was found counts as much as so many of a layer's choices in the running sequence.
constexpr float kTrust = 128;

std::vector<float> unit(std::span<const std::uint32_t> chosen) {
  std::vector<float> key(chosen.begin(), chosen.end());
  const float length = std::sqrt(std::inner_product(key.begin(), key.end(), key.begin(), 0.0F));
  if (length > 0) {
    for (float& value : key) value /= length;
  }
  return key;
}

}  // namespace

std::vector<float> ExpertMaps::shares_of(const std::vector<float>& counts) const {
  std::vector<float> shares(counts);
  for (auto layer = shares.begin(); layer != shares.end(); layer += experts_) {
    const float all = std::accumulate(layer, layer + experts_, 0.0F);
    if (all > 0) std::for_each(layer, layer + experts_, [all](float& share) { share /= all; });
  }
  return shares;
}

const ExpertMaps::Map* ExpertMaps::nearest(const std::vector<float>& key) const {
  const auto likeness = [&key](const Map& map) {
    return std::inner_product(key.begin(), key.end(), map.key.begin(), 0.0F);
  };
  const auto best = std::max_element(maps_.begin(), maps_.end(), [&](const Map& a, const Map& b) {
    return likeness(a) < likeness(b);
  });
  return best == maps_.end() ? nullptr : &*best;
}

void ExpertMaps::sequence_begins() {
  const bool chose = std::any_of(counts_.begin(), counts_.end(), [](float n) { return n > 0; });
  if (!key_.empty() && chose) {
    if (std::ssize(maps_) == maps_max_) maps_.pop_front();
    maps_.push_back({std::exchange(key_, {}), shares_of(counts_)});
  }
  key_.clear();
  found_.clear();
  counts_.clear();
}

void ExpertMaps::learn(std::span<const std::uint32_t> chosen) {
  if (key_.empty()) {
    key_ = unit(chosen);
    counts_.assign(chosen.size(), 0);
    const Map* map = nearest(key_);
    found_ = map == nullptr ? shares_of({chosen.begin(), chosen.end()}) : map->shares;
    expected_ = found_;
    return;
  }
  for (std::size_t e = 0; e < chosen.size(); ++e) counts_[e] += static_cast<float>(chosen[e]);
  const auto experts = static_cast<std::size_t>(experts_);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers_); ++layer) {
    const std::size_t first = layer * experts;
    const auto at = counts_.begin() + static_cast<std::ptrdiff_t>(first);
    const float all = std::accumulate(at, at + experts_, 0.0F);
    for (std::size_t e = first; e < first + experts; ++e) {
      expected_[e] = (counts_[e] + kTrust * found_[e]) / (all + kTrust);
    }
  }
}

}  // namespace causeway::weights
