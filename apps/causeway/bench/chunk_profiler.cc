#include "bench/chunk_profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "model/shape_text.h"
#include "model/step_traffic.h"

namespace causeway::bench {
namespace {

// One of each size, the largest first.
Result<std::vector<slice::SlicePart>> sizes_of(const std::vector<std::string>& texts,
                                               const slice::SliceFacts& facts) {
  std::vector<slice::SlicePart> sizes;
  for (const std::string& text : texts) {
    auto layout = slice::parse_slices(text, facts);
    if (!layout.ok()) return layout.error().with_context("--slices " + text);
    for (const slice::SlicePart& part : layout->parts) {
      if (part.gpu != facts.gpu) {
        return invalid_argument("--slices " + text + ": one GPU is measured, that of --gpu");
      }
      sizes.push_back(part);
    }
  }
  const auto larger = [](const slice::SlicePart& a, const slice::SlicePart& b) {
    return a.processors > b.processors;
  };
  const auto alike = [](const slice::SlicePart& a, const slice::SlicePart& b) {
    return a.processors == b.processors;
  };
  std::stable_sort(sizes.begin(), sizes.end(), larger);
  sizes.erase(std::unique(sizes.begin(), sizes.end(), alike), sizes.end());
  return sizes;
}

class ChunkProfiler {
 public:
  ChunkProfiler(const ChunkProfileSettings& settings, ChunkMachine& machine)
      : settings_(settings), machine_(machine) {}

  Result<engine::MeasuredTable> table(const NamedConfig& model, const slice::SlicePart& part) const;

 private:
  model::ChunkBenchOptions options_of(const model::ModelConfig& config) const;
  Result<engine::MeasuredStep> step(const model::ModelConfig& config, const slice::SlicePart& part,
                                    const model::ChunkSteps& measured) const;

  const ChunkProfileSettings& settings_;
  ChunkMachine& machine_;
};

model::ChunkBenchOptions ChunkProfiler::options_of(const model::ModelConfig& config) const {
  const std::int64_t longest = std::max<std::int64_t>(1, config.max_position.count - 1);
  return {.config = config,
          .chunks = schedule::table_sizes(settings_.most),
          .decodes = settings_.decodes,
          .decode_context = std::min(settings_.context, longest),
          .runs = settings_.runs};
}

Result<engine::MeasuredStep> ChunkProfiler::step(const model::ModelConfig& config,
                                                 const slice::SlicePart& part,
                                                 const model::ChunkSteps& measured) const {
  const int sms = machine_.on_gpu() ? part.processors : 0;
  CAUSEWAY_ASSIGN(const model::ActivationPasses passes,
                  model::activation_passes(config, measured.tokens.count, sms));
  return engine::MeasuredStep{.tokens = measured.tokens,
                              .ttft_ms = to_seconds(measured.alone) * 1e3,
                              .tpot_ms = to_seconds(measured.beside) * 1e3,
                              .gamma_x = passes.x,
                              .gamma_o = passes.out};
}

Result<engine::MeasuredTable> ChunkProfiler::table(const NamedConfig& model,
                                                   const slice::SlicePart& part) const {
  const model::ChunkBenchOptions options = options_of(model.config);
  std::size_t done = 0;
  const auto progress = [&](Tokens chunk) {
    if (!settings_.progress) return;
    settings_.progress(fmt::format("{}, {} processors: {} tokens, {} of {}", model.name,
                                   part.processors, chunk.count, ++done, options.chunks.size()));
  };
  CAUSEWAY_ASSIGN(const auto measured, machine_.measure(part, options, progress));
  engine::MeasuredTable table{
      .model = model.name,
      .shape = model::shape_text(model.config, machine_.storage(model.config)),
      .processors = part.processors,
      .decodes = options.decodes,
      .context = options.decode_context,
      .runs = options.runs,
      .steps = {}};
  for (const model::ChunkSteps& one : measured) {
    CAUSEWAY_ASSIGN(table.steps.emplace_back(), step(model.config, part, one));
  }
  return table;
}

}  // namespace

Result<engine::MeasuredChunks> profile_chunks(const ChunkProfileSettings& settings,
                                              ChunkMachine& machine,
                                              engine::MeasuredChunks chunks) {
  chunks.device = machine.on_gpu() ? "cuda" : "cpu";
  chunks.machine = machine.name();
  CAUSEWAY_ASSIGN(const auto sizes, sizes_of(settings.slices, machine.facts()));
  const ChunkProfiler profiler(settings, machine);
  std::set<std::string> shapes;
  for (const NamedConfig& model : settings.models) {
    if (!shapes.insert(model::shape_text(model.config, machine.storage(model.config))).second) {
      if (settings.progress) settings.progress(model.name + ": of a shape that was measured");
      continue;
    }
    for (const slice::SlicePart& part : sizes) {
      auto table = profiler.table(model, part);
      if (!table.ok()) {
        return table.error().with_context(
            fmt::format("{} on {} processors", model.name, part.processors));
      }
      chunks.tables.push_back(std::move(table).value());
      if (settings.save) CAUSEWAY_TRY(settings.save(chunks));
    }
  }
  return chunks;
}

std::string to_text(const engine::MeasuredChunks& chunks) {
  std::string text =
      fmt::format("{}, driver {}, commit {}\n", chunks.machine, chunks.driver, chunks.commit);
  for (const engine::MeasuredTable& table : chunks.tables) {
    text += fmt::format("\n{} on {} processors, beside {} sequences of {} tokens\n  {}\n",
                        table.model, table.processors, table.decodes, table.context, table.shape);
    text += fmt::format("{:>8} {:>10} {:>10} {:>12} {:>8} {:>8}\n", "tokens", "ttft ms", "tpot ms",
                        "tokens/s", "gamma_x", "gamma_o");
    for (const engine::MeasuredStep& step : table.steps) {
      const double rate = static_cast<double>(step.tokens.count) / step.ttft_ms * 1e3;
      text +=
          fmt::format("{:>8} {:>10.3f} {:>10.3f} {:>12.0f} {:>8.2f} {:>8.2f}\n", step.tokens.count,
                      step.ttft_ms, step.tpot_ms, rate, step.gamma_x, step.gamma_o);
    }
  }
  return text;
}

}  // namespace causeway::bench
