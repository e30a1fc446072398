#include "model/decode_chain.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "model/step_work.h"

namespace causeway::model {
namespace {

// A stage's tensors, as plan_weights() names them; norms are read where they are used.
struct Link {
  std::string_view name;
  std::array<std::string_view, 4> tensors;
  bool experts = false;  // of which only the chosen are read
  bool early = true;
};

constexpr Link kAttention[] = {{"qkv", {"input_norm", "qkv", "qkv_bias"}},
                               {"attention", {"q_norm", "k_norm"}},
                               {"o", {"o", "o_bias"}}};
constexpr Link kDense[] = {{"gate_up", {"attention_norm", "post_norm", "gate_up", "gate_up_bias"}},
                           {"down", {"down", "down_bias", "mlp_norm"}}};
constexpr Link kSparse[] = {{"router", {"post_norm", "router"}},
                            {"experts gate_up", {"experts_gate_up"}, true, false},
                            {"experts down", {"experts_down"}, true}};

double elements_of(const weights::PlannedTensor& tensor) {
  std::int64_t elements = 0;
  for (const auto& source : tensor.sources) elements += source.rows * source.cols;
  return static_cast<double>(elements);
}

// Elements of those of the group's tensors that the link names.
double elements_of(const weights::PlannedGroup& group, const Link& link) {
  double elements = 0;
  for (const auto& tensor : group.tensors) {
    if (std::ranges::find(link.tensors, tensor.name) != link.tensors.end()) {
      elements += elements_of(tensor);
    }
  }
  return elements;
}

class Chain {
 public:
  Chain(const ModelConfig& c, const DecodeReads& reads) : c_(c), reads_(reads) {}

  std::vector<ChainStage> stages() {
    const auto plan = plan_weights(c_, reads_.storage);
    std::int64_t layer = 0;
    for (const auto& group : plan.groups) {
      if (group.name == "embedding") continue;
      if (group.name == "head") {
        add_head(group);
      } else {
        add_layer(group, layer++);
      }
    }
    CAUSEWAY_CHECK(layer == c_.layers, "the plan has other layers than its config");
    return made_;
  }

 private:
  void add(std::string_view name, double elements, Bytes more, bool early) {
    const double bytes = elements * static_cast<double>(size_of(reads_.storage).count);
    made_.push_back({name, Bytes(static_cast<std::int64_t>(bytes)) + more, early});
  }

  void add_links(const weights::PlannedGroup& group, std::span<const Link> links) {
    const double share =
        c_.moe ? reads_.experts / static_cast<double>(sparse_layers(c_) * c_.moe->experts) : 1;
    for (const Link& link : links) {
      const Bytes kv = link.name == "attention" ? Bytes(reads_.kv.count / c_.layers) : Bytes(0);
      add(link.name, elements_of(group, link) * (link.experts ? share : 1), kv, link.early);
    }
  }

  void add_layer(const weights::PlannedGroup& group, std::int64_t layer) {
    add_links(group, kAttention);
    add_links(group, c_.is_sparse(layer) ? std::span<const Link>(kSparse) : kDense);
  }

  void add_head(const weights::PlannedGroup& group) {
    double elements =
        c_.tied_embeddings ? static_cast<double>(c_.vocab) * static_cast<double>(c_.hidden) : 0;
    for (const auto& tensor : group.tensors) elements += elements_of(tensor);
    add("head", elements, Bytes(0), true);
  }

  const ModelConfig& c_;
  const DecodeReads& reads_;
  std::vector<ChainStage> made_;
};

}  // namespace

std::vector<ChainStage> decode_chain(const ModelConfig& config, const DecodeReads& reads) {
  return Chain(config, reads).stages();
}

}  // namespace causeway::model
