// Predicts the experts of a sequence from earlier sequences whose prompts chose similar experts:
// FineMoE's expert maps (arXiv 2502.05370), searched by the choices of the prompt, as its search by
// trajectory does. Its search by the prompt's embedding is left out, because a router's choices are
// made from that embedding. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace causeway::weights {

class ExpertMaps {
 public:
  // `maps_max`: the number of sequences that are remembered, the latest ones.
  ExpertMaps(std::int64_t layers, std::int64_t experts, std::int64_t maps_max)
      : layers_(layers), experts_(experts), maps_max_(maps_max) {}

  // A sequence begins. The one before is remembered if it chose experts after its prompt.
  void sequence_begins();
  // A step has ended: [layers][experts], the number of tokens that chose each expert. The first
  // step of a sequence has its prompt, or the first chunk of it.
  void learn(std::span<const std::uint32_t> chosen);
  // [layers][experts]: each expert's share of its layer's choices, in the remembered sequence whose
  // prompt is most similar together with the present sequence so far. Empty before the first step.
  const std::vector<float>& expected() const { return expected_; }

 private:
  struct Map {
    std::vector<float> key;     // the prompt's choices, as a vector of length 1
    std::vector<float> shares;  // each layer's shares after the prompt
  };

  std::vector<float> shares_of(const std::vector<float>& counts) const;
  const Map* nearest(const std::vector<float>& key) const;

  const std::int64_t layers_;
  const std::int64_t experts_;
  const std::int64_t maps_max_;
  std::deque<Map> maps_;       // the oldest first
  std::vector<float> key_;     // of the present sequence; empty: it has not begun
  std::vector<float> found_;   // the shares of the most similar map; empty: there is none
  std::vector<float> counts_;  // of the present sequence, after its prompt
  std::vector<float> expected_;
};

}  // namespace causeway::weights
