// A step of a model on a GPU as data: which kernels run in which order, on which buffers, by which
// plan; what is waited for, and what is dropped from L2 (docs/design/step_program.md). Pure;
// printed by step_explain.h, executed by cuda_step.h.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/home_gemm/home_gemm.h"
#include "kernels/l2_discard.h"
#include "model/config.h"
#include "model/step_ranges.h"
#include "model/step_tables.h"
#include "weights/weight_layout.h"

namespace causeway::model {

// The buffers of a step's results: those of CudaActivations, and those in kernels' workspaces.
enum class StepBuffer : std::uint8_t {
  kX,           // the residual stream
  kNormed,      // bf16 [rows][hidden]
  kQkv,         // bf16 [rows][(heads + 2 kv_heads) × head_dim]
  kAttended,    // bf16 [rows][heads × head_dim]
  kActive,      // bf16 [rows][intermediate]
  kGateUp,      // bf16 [rows][2][intermediate]
  kAdded,       // bf16 [rows][hidden], what a sublayer adds to x, before its norm
  kScores,      // f32 [rows][experts]
  kLogits,      // f32 [sampled][vocab]
  kParts,       // f32 [2][rows][hidden], what x still lacks
  kRope,        // f32 [2][rows][hidden], parts that are not yet added to x
  kLocalRope,   // those of local layers
  kPlan,        // attention's
  kWindowPlan,  // that of layers with a window
  kKv,          // of this layer and step
};
inline constexpr int kStepBuffers = 15;

// A set of buffers: bit i is StepBuffer i.
using StepBuffers = std::uint32_t;
constexpr StepBuffers set_of(StepBuffer buffer) {
  return StepBuffers{1} << static_cast<unsigned>(buffer);
}

enum class StepWeight : std::uint8_t {
  kInputNorm,
  kQkv,
  kO,
  kAttentionNorm,  // of what attention adds
  kPostNorm,
  kGateUp,
  kDown,
  kMlpNorm,  // of what the MLP adds
  kRouter,
  kNorm,  // the head's
  kHead,
};

namespace step {

// Waits until a group is there: on the stream, before the kernels that follow; or on the host,
// before it enqueues them.
struct Await {
  int group = 0;
  bool on_host = false;
};

// After the last kernel that reads a group which passes through a ring.
struct Consumed {
  int group = 0;
};

// For the layers within the model's sliding window if `windowed`, otherwise for the other layers.
struct PlanAttention {
  bool windowed = false;
};
struct FillRope {
  bool local = false;
};

// For experts that are cached one by one (cuda_experts.h): the tables say where each expert is for
// this step, and the numbers of tokens that chose each go back to the host.
struct PlaceExperts {};
struct CountExperts {};

struct Embed {
  bool at_home = false;
};

// A buffer to drop from L2, because no later instruction reads it. No bytes: nothing is dropped.
struct Drop {
  StepBuffer buffer = StepBuffer::kX;
  Bytes bytes;
};
using Drops = std::array<Drop, kernels::kDiscardsMax>;

// What a sublayer adds to x, after a norm.
struct Join {
  StepWeight weight = StepWeight::kAttentionNorm;
  std::int64_t layer = 0;
};

// normed = norm(x), of the rows that sample alone if `sampled`. With `parts` x gets their sum
// first; they are dropped then, unless they stay for the product behind to drop. With `join` x gets
// norm(added) first; with `sum_only` that is all, and the weight that of `join`.
struct Norm {
  StepWeight weight = StepWeight::kInputNorm;
  std::int64_t layer = 0;
  std::int64_t rows = 0;  // of normed
  bool sampled = false;
  bool parts = false;
  bool parts_stay = false;
  Drops drops = {};
  std::optional<Join> join = {};
  bool sum_only = false;
};

// active = f(gate) ⊙ up, for an activation that is not fused into a product.
struct Activate {};

// Soft caps of logits.
struct CapLogits {};

// out = x · weightᵀ and what the plan's request adds; a residual is out itself. With a norm inside
// x is the residual stream, `gains` the norm's weight. For a weight at home `home` is its plan's
// index in the program, and of `plan` only the request counts.
struct Product {
  StepWeight weight = StepWeight::kQkv;
  std::int64_t layer = 0;
  StepBuffer x = StepBuffer::kX;
  StepBuffer out = StepBuffer::kX;
  StepWeight gains = StepWeight::kInputNorm;
  kernels::gemm::CudaPlan plan = {};
  int home = -1;  // −1: the weight is in HBM
  Drops drops = {};
};

// For rows [first, rows): head norms, RoPE, and K and V into frames.
struct Prepare {
  std::int64_t layer = 0;
  std::int64_t first = 0;
  bool local_rope = false;
  bool scaled_queries = false;  // logn attention: a sequence is beyond the model's context
};

struct Attention {
  std::int64_t layer = 0;
  bool decode = false;          // there are decoding sequences
  bool prompts = false;         // there are others
  int cluster = 0;              // ParamsCuda::cluster
  bool planned = false;         // reads the plan, of its window or without one
  bool fused_prepare = false;   // prepares decoding rows itself
  bool behind_library = false;  // ParamsCuda::behind_library
  bool windowed = false;        // within the model's sliding window
  bool local_rope = false;      // with `fused_prepare`
};

// With `front`, norm and router's product are part of it.
struct Experts {
  std::int64_t layer = 0;
  bool front = false;
};

}  // namespace step

using StepInstruction =
    std::variant<step::Await, step::Consumed, step::PlaceExperts, step::CountExperts,
                 step::PlanAttention, step::FillRope, step::Embed, step::Norm, step::Product,
                 step::Activate, step::Prepare, step::Attention, step::Experts, step::CapLogits>;

// Facts of a step that the GPU, or a kernel in builds with CUDA, determines.
struct StepFacts {
  int sm_count = 132;  // of the stream's context
  // attention::small_batch_cluster() for the step's decoding sequences; used for small batches
  // only.
  int small_batch_cluster = 0;
  bool experts_front = false;  // moe::front_fits() for the step's rows, of a model with experts
  bool experts_move = false;   // experts are cached one by one
  // For groups that are read at home: the facts for their planner, and its profile; null: the
  // built-in profile of the home. Nothing is staged.
  kernels::home_gemm::Facts at_home = {};
  const kernels::home_gemm::Profile* home_profile = nullptr;
};

struct StepWeightPlan {
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  weights::StepWeights where = {};  // empty: everything is cached
  // How the step is cut into ranges (step_ranges.h); empty: it is not.
  std::span<const StepRange> ranges = {};
  // How many layers may be enqueued beyond the last one that is there; the host waits for the
  // others.
  std::int64_t layers_ahead = kAll;
};

struct StepProgram {
  StepShape shape;
  std::vector<StepInstruction> instructions;
  std::vector<std::size_t> range_ends;  // by range: the number of instructions up to its end
  std::vector<kernels::home_gemm::Plan> home_plans;  // for Product::home; layers share plans

  std::span<const StepInstruction> range(std::size_t index) const;
};

// The model must be one that CudaForward serves, with weights at multiples of 16 bytes. Errors:
// those of gemm::choose() and, for groups at home, of home_gemm::choose(). A layer of experts at
// home is a CHECK failure: such experts are cached one by one.
Result<StepProgram> make_step_program(const ModelConfig& config, const StepShape& shape,
                                      const StepFacts& facts, const StepWeightPlan& weight_plan);

// Which buffers an instruction reads and writes; the contents of `ended` are undefined behind it.
struct StepUse {
  StepBuffers reads = 0;
  StepBuffers writes = 0;
  StepBuffers ended = 0;
};
StepUse use_of(const StepInstruction& instruction);

// The groups of weights that it reads in the cache.
std::vector<int> groups_read(const StepInstruction& instruction, const ModelConfig& config);

}  // namespace causeway::model
