// What sequences before chose, found again by how a new one begins: FineMoE's expert maps
// (arXiv 2502.05370), looked up by the choices of a prompt, which is its search by trajectory. Its
// search by the prompt's embedding is not here: a router's choices are made of it. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace causeway::weights {

class ExpertMaps {
 public:
  // `maps_max`: sequences that are remembered, the latest.
  ExpertMaps(std::int64_t layers, std::int64_t experts, std::int64_t maps_max)
      : layers_(layers), experts_(experts), maps_max_(maps_max) {}

  // The sequence before has ended, and is remembered where it chose anything behind its prompt.
  void sequence_begins();
  // [layers][experts]: tokens of a step that chose each. The first step of a sequence has its
  // prompt, or the first chunk of that.
  void learn(std::span<const std::uint32_t> chosen);
  // Of the remembered sequence whose prompt chose most like this one's, and of this one so far: the
  // share of its layer's choices, [layers][experts]. Empty before the first step.
  const std::vector<float>& expected() const { return expected_; }

 private:
  struct Map {
    std::vector<float> key;     // the prompt's choices, of length 1
    std::vector<float> shares;  // of each layer's choices behind the prompt
  };

  std::vector<float> shares_of(const std::vector<float>& counts) const;
  const Map* nearest(const std::vector<float>& key) const;

  const std::int64_t layers_;
  const std::int64_t experts_;
  const std::int64_t maps_max_;
  std::deque<Map> maps_;       // the oldest first
  std::vector<float> key_;     // of this sequence; empty: it has not begun
  std::vector<float> found_;   // the nearest map's shares; empty: none
  std::vector<float> counts_;  // of this sequence, behind its prompt
  std::vector<float> expected_;
};

}  // namespace causeway::weights
