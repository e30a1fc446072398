// How long a step takes on a machine once its weights are there: the roofline of its arithmetic and
// its memory traffic. Pure.
//
//   duration = overhead + layers × overhead of a layer
//                       + max(FLOPs of products / rate, weights / memory rate) + missed / home rate
//                       + max(FLOPs of attention / rate, KV / attention's memory rate)
//
// because products and attention are kernels of their own, one after the other. Attention over
// prompts has a rate of its own, and takes some time for each token in each layer beside.
// Mixture-of-experts layers read the experts that a uniform router is expected to hit; where these
// are cached one by one, those without a slot are missed, and read at home by the same kernels.
// While copies reach the device its memory is slower, by the profile's measure.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/units.h"
#include "kv/block_layout.h"
#include "model/config.h"
#include "request/batch.h"
#include "schedule/rotation_policy.h"
#include "simulate/hardware_profile.h"
#include "weights/weight_cache.h"

namespace causeway::simulate {

struct ModelShape {
  std::string name;
  Bytes weights;         // all of them
  Bytes weights_always;  // read by every step: all but experts and embedding table
  Bytes expert;          // of one expert, in all layers
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  double flops_per_token = 0;          // of matrix products with weights
  double flops_per_context_token = 0;  // of attention, for each pair of a token and its context
  Bytes kv_per_token;
  Tokens tokens_per_block{1};
  Tokens max_model_len{0};
  std::int64_t vocab = 0;
  // How the weights lie at home, and the order in which a step reads them.
  model::ModelConfig config;
  weights::WeightLayout layout;
  std::vector<weights::ReadingStep> reading;
  // How the weights lie in the device's memory: all of them, or some of them and a ring.
  weights::CachedModel cached;
  // The part of the weights that every step reads at home, because they are not to be in the
  // device's memory.
  double home_share = 0;
  Bytes max_resident;  // the most of the device's memory for its weights; zero: no limit of its own
  double rotary_alpha = schedule::kAlphaDefault;
};

// Makes the shape of a model that lies in the device's memory as a whole. kInvalidArgument when not
// even one token's KV fits a frame; kResourceExhausted for a model that no machine holds.
Result<ModelShape> shape_of(const std::string& name, const model::ModelConfig& config, Bytes frame);

// What a step has to move and compute.
struct StepWork {
  double product_flops = 0;
  double attention_flops = 0;
  // Read by the step: those that every step reads, and those of the experts that are hit.
  Bytes weights;
  Bytes missed;         // the part of `weights` that is read at home
  double kv_bytes = 0;  // read and written
  std::int64_t layers = 0;
  double tokens = 0;
  bool prompts = false;
};

// What the cost model needs to know of a batch.
struct StepTokens {
  double tokens = 0;
  double pairs = 0;      // pairs of a token and a token of its context
  double kv_tokens = 0;  // read and written
  bool prompts = false;

  // Adds a sequence that computes this many tokens behind a context.
  void add(double of_sequence, double context) {
    pairs += of_sequence * (context + (of_sequence + 1) / 2);
    kv_tokens += context + of_sequence;
    prompts = prompts || of_sequence > 1;
  }
  // Turns the counts into those of the next step, if that gives each of so many sequences one more
  // token.
  void advance(double sequences) {
    pairs += sequences;
    kv_tokens += sequences;
  }
};

StepTokens tokens_of(const request::Batch& batch);
StepWork work_of(const StepTokens& tokens, const ModelShape& shape);
inline StepWork work_of(const request::Batch& batch, const ModelShape& shape) {
  return work_of(tokens_of(batch), shape);
}

// How long steps take that differ only in their context: everything else is computed once.
// `copies`: some copies reach the device meanwhile.
class StepDurations {
 public:
  StepDurations(const StepWork& alike, const HardwareProfile& profile, bool copies = false);

  // The duration of the step with this much attention.
  Nanos of(double attention_flops, double kv_bytes) const {
    const double attention =
        std::max(attention_flops / attention_rate_, slower_ * kv_bytes / kv_rate_);
    return overhead_ + nanos_from_seconds(products_ + attention + beside_);
  }

 private:
  double slower_;
  double products_;  // seconds
  double beside_;    // seconds that attention over prompts takes for each token, in all layers
  double attention_rate_;
  double kv_rate_;
  Nanos overhead_;
};

inline Nanos step_duration(const StepWork& work, const HardwareProfile& profile,
                           bool copies = false) {
  return StepDurations(work, profile, copies).of(work.attention_flops, work.kv_bytes);
}

// The least time that any step of a model takes, and the time that each of its tokens adds. An
// engine is told both, so that it starts steps while weights are still on their way.
Nanos step_min(const ModelShape& shape, const HardwareProfile& profile);
double seconds_per_token(const ModelShape& shape, const HardwareProfile& profile);

}  // namespace causeway::simulate
