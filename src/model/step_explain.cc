#include "model/step_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model_card.h"

namespace causeway::model {
namespace {

using kernels::gemm::CudaPairs;
using kernels::gemm::CudaPath;
using kernels::gemm::CudaPlan;
using kernels::gemm::CudaRequest;
using kernels::gemm::CudaShare;

std::string_view name_of(StepBuffer buffer) {
  constexpr std::string_view kNames[kStepBuffers] = {
      "x",      "normed", "qkv",  "attended",   "active", "gate and up", "added", "scores",
      "logits", "parts",  "rope", "local rope", "plan",   "window plan", "KV"};
  return kNames[static_cast<std::size_t>(buffer)];
}

std::string_view name_of(StepWeight weight) {
  constexpr std::string_view kNames[] = {"input norm", "qkv",         "o",    "attention norm",
                                         "post norm",  "gate and up", "down", "MLP norm",
                                         "router",     "norm",        "head"};
  return kNames[static_cast<std::size_t>(weight)];
}

std::string group_name(int group, const ModelConfig& c) {
  if (group == kEmbeddingGroup) return "embedding";
  return group == head_group(c) ? "head" : "layer " + std::to_string(group - layer_group(0));
}

std::string shown(Bytes bytes) {
  const auto count = static_cast<double>(bytes.count);
  return count < 1e6 ? fmt::format("{:.1f} kB", count / 1e3)
                     : fmt::format("{:.1f} MB", count / 1e6);
}

std::string way_of(const CudaPlan& plan) {
  switch (plan.path) {
    case CudaPath::kRows: return fmt::format("rows, {} at once", 16 * plan.blocks);
    case CudaPath::kSplit:
      return plan.pairs == CudaPairs::kHalves   ? "split, pairs halve k"
             : plan.pairs == CudaPairs::kInputs ? "split, pairs share x"
                                                : "split";
    case CudaPath::kLibrary: return "cuBLASLt";
    case CudaPath::kPlain: break;
  }
  return "plain";
}

// What an instruction is, before it is laid out.
struct Line {
  std::string what, way, sizes;
  std::vector<std::string> notes = {};
};

void add_drops(const step::Drops& drops, Line& line) {
  for (const step::Drop& drop : drops) {
    if (drop.bytes.count == 0) continue;
    line.notes.push_back(fmt::format("drops {} ({})", name_of(drop.buffer), shown(drop.bytes)));
  }
}

void note_if(bool condition, std::string_view note, Line& line) {
  if (condition) line.notes.emplace_back(note);
}

struct LineOf {
  const ModelConfig& c;
  const StepShape& shape;

  Line operator()(const step::Await& i) const {
    return {.what = "wait", .way = i.on_host ? "host" : "stream", .sizes = group_name(i.group, c)};
  }
  Line operator()(const step::Consumed& i) const {
    return {.what = "consumed", .way = "stream", .sizes = group_name(i.group, c)};
  }
  Line operator()(const step::PlaceExperts&) const { return {"expert tables", "", ""}; }
  Line operator()(const step::CountExperts&) const { return {"experts chosen", "to host", ""}; }
  Line operator()(const step::PlanAttention& i) const {
    return {"attention plan", i.windowed ? "windowed" : "", ""};
  }
  Line operator()(const step::FillRope& i) const {
    return {"rope table", i.local ? "of local layers" : "",
            fmt::format("{} × {}", shape.rows, c.head_dim)};
  }
  Line operator()(const step::Embed& i) const {
    Line line{"embedding", "", fmt::format("{} × {}", shape.rows, c.hidden)};
    note_if(i.at_home, "read at home", line);
    return line;
  }
  Line operator()(const step::Norm& i) const {
    Line line{std::string(name_of(i.weight)), "", fmt::format("{} × {}", i.rows, c.hidden)};
    note_if(i.sampled, "of rows that sample", line);
    if (i.join) line.notes.push_back(fmt::format("adds {} of added", name_of(i.join->weight)));
    note_if(i.sum_only, "nothing else", line);
    note_if(i.parts, i.parts_stay ? "adds parts, which stay" : "adds parts", line);
    add_drops(i.drops, line);
    return line;
  }
  Line operator()(const step::Product& i) const {
    const CudaRequest& r = i.plan.request;
    Line line{std::string(name_of(i.weight)), i.home < 0 ? way_of(i.plan) : "at home",
              fmt::format("{} × {}{} × {}", r.m, r.silu_mul ? "2·" : "", r.n, r.k)};
    note_if(r.norm, "norm inside", line);
    note_if(r.silu_mul, "SiLU", line);
    note_if(r.bias, "+ bias", line);
    note_if(r.residual, "+ x", line);
    note_if(r.parts > 1, "in two parts", line);
    if (i.home < 0 && (i.plan.path == CudaPath::kRows || i.plan.path == CudaPath::kSplit)) {
      line.notes.push_back(fmt::format("{} CTAs", i.plan.ctas));
      line.notes.emplace_back(r.share == CudaShare::kLess ? "less of an SM" : "more of an SM");
    }
    add_drops(i.drops, line);
    return line;
  }
  Line operator()(const step::Activate&) const {
    return {"activation", "GELU", fmt::format("{} × {}", shape.rows, c.intermediate)};
  }
  Line operator()(const step::CapLogits&) const {
    return {"soft cap", "", fmt::format("{} × {}", shape.sampled, c.vocab)};
  }
  Line operator()(const step::Prepare& i) const {
    Line line{"prepare", "", fmt::format("rows {} to {}", i.first, shape.rows)};
    if (i.scaled_queries) {
      line.notes.push_back(fmt::format("queries scaled beyond {}", c.logn_context));
    }
    return line;
  }
  Line operator()(const step::Attention& i) const {
    std::string way = !i.decode       ? ""
                      : i.cluster > 0 ? fmt::format("clusters of {}", i.cluster)
                      : i.planned     ? "split"
                                      : "unplanned";
    if (i.prompts) way += way.empty() ? "prompts" : ", prompts";
    Line line{"attention", std::move(way),
              fmt::format("{} sequences, {} decode", shape.slots, shape.decode)};
    note_if(i.fused_prepare, "prepares decoding rows", line);
    note_if(i.behind_library, "behind a library's kernel", line);
    if (i.windowed) line.notes.push_back(fmt::format("window of {}", c.sliding_window));
    return line;
  }
  Line operator()(const step::Experts& i) const {
    Line line{"experts", i.front ? "norm and router inside" : "",
              fmt::format("{} × {} of {}", shape.rows, c.moe->experts_per_token, c.moe->experts)};
    return line;
  }
};

std::int64_t weight_elements(const StepInstruction& instruction, const ModelConfig& c,
                             const StepShape& shape) {
  if (const auto* norm = std::get_if<step::Norm>(&instruction)) {
    return (norm->join && !norm->sum_only ? 2 : 1) * c.hidden;
  }
  if (const auto* product = std::get_if<step::Product>(&instruction)) {
    const CudaRequest& r = product->plan.request;
    const std::int64_t rows = r.silu_mul ? 2 * r.n : r.n;
    return rows * r.k + (r.bias ? rows : 0) + (r.norm ? r.k : 0);
  }
  if (const auto* experts = std::get_if<step::Experts>(&instruction)) {
    const std::int64_t read = std::min(c.moe->experts, shape.rows * c.moe->experts_per_token);
    const std::int64_t front = experts->front ? c.hidden * (1 + c.moe->experts) : 0;
    return 3 * read * c.moe->intermediate * c.hidden + front;
  }
  return 0;
}

// Whether a layer begins with it.
bool begins_layer(const StepInstruction& instruction) {
  if (const auto* norm = std::get_if<step::Norm>(&instruction)) {
    return norm->weight == StepWeight::kInputNorm;
  }
  const auto* product = std::get_if<step::Product>(&instruction);
  return product != nullptr && product->weight == StepWeight::kQkv && product->plan.request.norm;
}

// Lines that stand together: a layer's, or what is before or behind all.
struct Block {
  std::int64_t layer = -1;
  std::size_t first = 0;
  std::vector<std::string> lines = {};
};

std::vector<Block> blocks_of(const StepProgram& program, const ModelConfig& c) {
  std::vector<Block> blocks(1);
  std::int64_t layer = 0;
  auto cut = program.range_ends.begin();
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const StepInstruction& instruction = program.instructions[i];
    const auto* norm = std::get_if<step::Norm>(&instruction);
    if (begins_layer(instruction)) {
      blocks.push_back({.layer = layer++, .first = i});
    } else if (norm != nullptr && norm->weight == StepWeight::kNorm) {
      blocks.push_back({.first = i});
    }
    blocks.back().lines.push_back(explain(instruction, c, program.shape));
    const bool is_last = i + 1 == program.instructions.size();
    if (cut != program.range_ends.end() && *cut == i + 1) {
      if (!is_last) blocks.back().lines.back() += " ┄ cut";
      ++cut;
    }
  }
  return blocks;
}

}  // namespace

Bytes weight_bytes(const StepInstruction& instruction, const ModelConfig& config,
                   const StepShape& shape) {
  return Bytes(2 * weight_elements(instruction, config, shape));
}

std::string explain(const StepInstruction& instruction, const ModelConfig& config,
                    const StepShape& shape) {
  const Line line = std::visit(LineOf{config, shape}, instruction);
  const Bytes bytes = weight_bytes(instruction, config, shape);
  std::string text = fmt::format("{:<15} {:<22} {:<26} {:>11}", line.what, line.way, line.sizes,
                                 bytes.count > 0 ? shown(bytes) : "");
  text += line.notes.empty() ? "" : "  ";
  for (std::size_t i = 0; i < line.notes.size(); ++i) text += (i > 0 ? ", " : "") + line.notes[i];
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string explain(const StepProgram& program, const ModelConfig& config) {
  const std::vector<Block> blocks = blocks_of(program, config);
  std::string text = fmt::format("{:>5}  {:<15} {:<22} {:<26} {:>11}\n", "", "what", "way",
                                 "rows × columns × k", "weights");
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t end = i + 1;
    while (end < blocks.size() && blocks[end].layer >= 0 && blocks[end].lines == blocks[i].lines) {
      ++end;
    }
    if (blocks[i].layer >= 0) {
      text += end - i > 1
                  ? fmt::format("layers {} to {}, each\n", blocks[i].layer, blocks[end - 1].layer)
                  : fmt::format("layer {}\n", blocks[i].layer);
    } else if (i > 0) {
      text += "behind the layers\n";
    }
    for (std::size_t k = 0; k < blocks[i].lines.size(); ++k) {
      text += fmt::format("{:>5}  {}\n", blocks[i].first + k, blocks[i].lines[k]);
    }
    i = end;
  }
  return text;
}

}  // namespace causeway::model
