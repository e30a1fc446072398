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

// Where a step's results lie: CudaActivations, and what lies in kernels' workspaces.
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
  kRope,        // sines and cosines of the rows
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

// Waits until a group is there: the stream, before the kernels behind; or the host, before it
// enqueues what is behind.
struct Await {
  int group = 0;
  bool on_host = false;
};

// Behind the last kernel that reads a group which passes through a ring.
struct Consumed {
  int group = 0;
};

// With `windowed`, of the layers within the model's sliding window, else of the others.
struct PlanAttention {
  bool windowed = false;
};
struct FillRope {
  bool local = false;
};

// Of experts that are cached one by one (cuda_experts.h): the tables say where the step was told
// that each is; what its tokens chose goes back to the host.
struct PlaceExperts {};
struct CountExperts {};

struct Embed {
  bool at_home = false;
};

// A buffer that no later instruction reads, to be dropped from L2. No bytes: nothing is dropped.
struct Drop {
  StepBuffer buffer = StepBuffer::kX;
  Bytes bytes;
};
using Drops = std::array<Drop, kernels::kDiscardsMax>;

// What a sublayer adds to x, which is to be normalised first.
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

// active = f(gate) ⊙ up, of an activation that no product does.
struct Activate {};

// Soft caps of logits.
struct CapLogits {};

// out = x · weightᵀ and what the plan's request adds; a residual is out itself. With a norm inside
// x is the residual stream, and `gains` the norm's weight. Of a weight at home `home` is its plan's
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

// Head norms, RoPE, K and V into frames: rows [first, rows).
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

// With `front`, norm and router are inside.
struct Experts {
  std::int64_t layer = 0;
  bool front = false;
};

}  // namespace step

using StepInstruction =
    std::variant<step::Await, step::Consumed, step::PlaceExperts, step::CountExperts,
                 step::PlanAttention, step::FillRope, step::Embed, step::Norm, step::Product,
                 step::Activate, step::Prepare, step::Attention, step::Experts, step::CapLogits>;

// What the GPU, or a kernel that only a build with CUDA has, decides of a step.
struct StepFacts {
  int sm_count = 132;  // of the stream's context
  // attention::small_batch_cluster() of the step's decoding sequences; used for a small batch only.
  int small_batch_cluster = 0;
  bool experts_front = false;  // moe::front_fits() of the step's rows; of a model with experts
  bool experts_move = false;   // they are cached one by one
  // Of groups that are read at home: what the planner of such products is told, and its profile;
  // null: what is built in for the home. Nothing is staged.
  kernels::home_gemm::Facts at_home = {};
  const kernels::home_gemm::Profile* home_profile = nullptr;
};

struct StepWeightPlan {
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  weights::StepWeights where = {};  // empty: all is cached
  // How the step is cut (step_ranges.h); empty: not at all.
  std::span<const StepRange> ranges = {};
  // Layers that may be enqueued beyond the last one that is there: the host waits for the others.
  std::int64_t layers_ahead = kAll;
};

struct StepProgram {
  StepShape shape;
  std::vector<StepInstruction> instructions;
  std::vector<std::size_t> range_ends;  // of each range, the instructions before its end
  std::vector<kernels::home_gemm::Plan> home_plans;  // Product::home; layers share them

  std::span<const StepInstruction> range(std::size_t index) const;
};

// The model is one that CudaForward serves; its weights lie at addresses of 16 bytes. Errors: those
// of gemm::choose() and, of groups at home, home_gemm::choose(). A layer of experts at home is a
// CHECK failure: they are cached one by one instead.
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
