// Steps of a SimulatedExecutor whose kernels read weights at home with HybridGEMM's α: those that
// are never in the device's memory, and those that have not arrived (docs/design/simulate.md).
#include <algorithm>

#include "simulate/hybrid_gemm.h"
#include "simulate/simulated_executor.h"

namespace causeway::simulate {

double SimulatedExecutor::rate_left_at_home() const {
  return home_rate(options_.profile) * mover_->left_at_home();
}

Bytes SimulatedExecutor::missing_at(const Step& step, Nanos at) const {
  Bytes missing;
  if (step.reads.empty()) return missing;
  const auto copies = mover_->copies_of(step.batch.model);
  for (const Read& read : step.reads) {
    const auto& copy = copies[static_cast<std::size_t>(read.group)];
    if (!copy || copy->arrival != read.arrival || copy->ends <= at) continue;
    missing += step.model->shape->cached.groups[static_cast<std::size_t>(read.group)].bytes;
  }
  return missing;
}

SimulatedExecutor::HomeStep SimulatedExecutor::home_step(const Step& step, Nanos at,
                                                         Bytes missing) const {
  const ModelShape& shape = *step.model->shape;
  StepWork work = work_of(step.batch, shape);
  const auto weights = std::max(1.0, static_cast<double>(work.weights.count));
  const double home =
      std::min(weights, weights * shape.home_share + static_cast<double>(missing.count));
  const double flops = work.product_flops * home / weights;
  const HybridWork hybrid = hybrid_work(home, flops, step.alpha);
  work.product_flops += hybrid.flops - flops;
  work.weights = Bytes(static_cast<std::int64_t>(weights - home + hybrid.hbm_bytes));
  work.missed = Bytes(0);
  const bool copies = mover_->copies_at(at) || (copies_ && copies_->copies_in_at(at));
  const Nanos computes =
      nanos_from_seconds(to_seconds(step_duration(work, granted(), copies)) * step.slowed);
  HomeStep found{.computes = computes,
                 .end = at + computes,
                 .read = {.end = at, .delays = Nanos(0)},
                 .link_bytes = hybrid.link_bytes,
                 .hbm_bytes = static_cast<double>(work.weights.count) + work.kv_bytes,
                 .by_alpha = depends_on_alpha(home, flops)};
  if (home == 0) return found;
  const Nanos takes = nanos_from_seconds(hybrid.link_bytes / rate_left_at_home());
  found.read = mover_->home_read(at, takes).value_or(HomeRead{at + takes, Nanos(0)});
  // What is computed of a layer overlaps with reading the next one.
  const Nanos last = computes / std::max<std::int64_t>(1, shape.config.layers);
  found.end = std::max(found.end, found.read.end + last);
  return found;
}

Nanos SimulatedExecutor::budget_of(const request::Batch& batch) const {
  bool decodes = false;
  double share = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    const bool prompt = entry.context < entry.prompt_tokens;
    decodes = decodes || !prompt;
    if (prompt)
      share = std::max(share, static_cast<double>(entry.token_count) / entry.prompt_tokens);
  }
  return fleet::step_budget(options_.alpha->slo, decodes, share);
}

SimulatedExecutor::HomeStep SimulatedExecutor::run_at_home(Step& step, Nanos at) {
  HomeStep best = home_step(step, at, Bytes(0));
  best.end = std::max(best.end, end_of_arrivals(step, at, best.computes));
  const Bytes missing = missing_at(step, at);
  if (missing > Bytes(0)) {
    const HomeStep reads = home_step(step, at, missing);
    if (reads.end < best.end) best = reads;
  }
  if (!(best.link_bytes > 0)) return best;
  mover_->read_at_home(at, best.read);
  const double share = rate_left_at_home() / mover_->left_at_home();
  mover_->use_at_home(best.link_bytes / share / std::max(1e-9, to_seconds(best.end - at)));
  counters_.home_read += Bytes(static_cast<std::int64_t>(best.link_bytes));
  counters_.alpha_steps += 1;
  counters_.alpha_sum += step.alpha;
  if (!best.by_alpha) return best;
  step.seen = {.took = Nanos(0),
               .budget = budget_of(step.batch),
               .hbm = Bytes(static_cast<std::int64_t>(best.hbm_bytes)),
               .hbm_rate = granted().memory_bytes_per_second,
               .link = best.read.end - at};
  return best;
}

void SimulatedExecutor::end_at_home(Step& step, Nanos at) {
  mover_->use_at_home(0);
  if (!step.seen) return;
  step.seen->took = at - step.began;
  alpha_->step_ended(*step.seen);
}

}  // namespace causeway::simulate
