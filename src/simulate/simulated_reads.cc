// What the steps of a SimulatedExecutor read of their models' weights, and when it is there.
#include <algorithm>

#include "model/model_card.h"
#include "simulate/simulated_executor.h"

namespace causeway::simulate {

void SimulatedExecutor::set_reads(Step& step, weights::StepWeights weights) {
  const ModelId model = step.batch.model;
  step.reads_all = weights.empty() && step.model->source == WeightSource::kCache &&
                   !step.model->shape->cached.streams() && mover_->all_there(model);
  if (!step.reads_all) {
    step.reads = reads_of(step.batch, weights);
  } else {
    step.taken_before = mover_->taken(model);
  }
}

std::int64_t SimulatedExecutor::groups_read(const Step& step) {
  return step.reads_all ? std::ssize(step.model->shape->cached.groups) : std::ssize(step.reads);
}

std::vector<SimulatedExecutor::Read> SimulatedExecutor::reads_of(const request::Batch& batch,
                                                                 weights::StepWeights weights) {
  std::vector<Read> reads;
  const Model& model = models_.at(batch.model);
  if (model.source != WeightSource::kCache) return reads;
  const weights::CachedModel& cached = model.shape->cached;
  const auto copies = mover_->copies_of(batch.model);
  reads.reserve(cached.groups.size());
  for (std::size_t i = 0; i < cached.groups.size(); ++i) {
    weights::WeightView view;
    // The memory of a ring is looked at by what is copied there.
    if (cached.groups[i].memory_only) continue;
    if (!weights.empty()) view = weights[static_cast<std::size_t>(cached.layout_groups[i])];
    if (view.place == weights::WeightPlace::kHome) {
      if (!cached.groups[i].readable_at_home) blame("a step reads at home what it cannot");
      continue;
    }
    const auto& copy = copies[i];
    const bool staged = view.place == weights::WeightPlace::kStaged;
    if (!copy || (staged && copy->arrival != view.value)) {
      blame("a step reads weights that are neither cached nor on their way");
    } else if (!staged && (copy->failed || copy->ends > clock_.now())) {
      blame("a step reads weights before they are there");
    } else {
      reads.push_back({.group = static_cast<int>(i), .arrival = copy->arrival});
    }
  }
  return reads;
}

Nanos SimulatedExecutor::end_of_reads(const Step& step, Nanos at, Nanos computes) {
  const Nanos end = end_of_arrivals(step, at, computes);
  if (!options_.reads_at_home || end == at + computes) return end;
  const Bytes missing = missing_at(step, at);
  const auto takes = nanos_from_seconds(static_cast<double>(missing.count) / rate_left_at_home());
  const auto read = mover_->home_read(at, takes);
  if (!read) return end;
  // What is computed of a layer overlaps with reading the next one.
  const Nanos last = computes / std::max<std::int64_t>(1, step.model->shape->config.layers);
  const Nanos read_end = std::max(at + computes, read->end + last);
  if (read_end >= end) return end;
  mover_->read_at_home(at, *read);
  counters_.home_read += missing;
  return read_end;
}

// A step that reads at home follows a copy as it comes, so that of a model that comes as a whole it
// has a layer to compute when that is there.
Nanos SimulatedExecutor::end_of_arrivals(const Step& step, Nanos at, Nanos computes) const {
  Nanos end = at + computes;
  if (step.reads.empty()) return end;
  const auto& groups = step.model->shape->cached.groups;
  const auto copies = mover_->copies_of(step.batch.model);
  const std::int64_t pieces =
      std::max<std::int64_t>(1, step.model->shape->config.layers / std::ssize(step.reads));
  Bytes all, left;
  for (const Read& read : step.reads) all += groups[static_cast<std::size_t>(read.group)].bytes;
  for (auto read = step.reads.rbegin(); read != step.reads.rend(); ++read) {
    const Bytes own = groups[static_cast<std::size_t>(read->group)].bytes;
    left += own;
    const auto& copy = copies[static_cast<std::size_t>(read->group)];
    if (!copy || copy->arrival != read->arrival || copy->ends <= at) continue;
    const Bytes behind = options_.reads_at_home ? left - own + own / pieces : left;
    const double part = static_cast<double>(behind.count) / static_cast<double>(all.count);
    end = std::max(end, copy->ends + nanos_from_seconds(to_seconds(computes) * part));
  }
  return end;
}

// What has not come by the end was read at home, whatever becomes of its copy.
bool SimulatedExecutor::poisoned(const Step& step, Nanos ended) {
  bool poisoned = false;
  if (step.reads_all) {
    poisoned = mover_->taken(step.batch.model) != step.taken_before;
    if (poisoned) blame("weights are taken from a step in flight");
    return poisoned;
  }
  if (step.reads.empty()) return poisoned;
  const auto copies = mover_->copies_of(step.batch.model);
  for (const Read& read : step.reads) {
    const auto& copy = copies[static_cast<std::size_t>(read.group)];
    if (!copy || copy->arrival != read.arrival) blame("weights are taken from a step in flight");
    poisoned = poisoned || !copy || (copy->failed && copy->ends <= ended);
  }
  return poisoned;
}

std::vector<SimulatedExecutor::Range> SimulatedExecutor::ranges_of(const request::Batch& batch,
                                                                   weights::StepWeights weights) {
  const ModelShape& shape = *models_.at(batch.model).shape;
  std::vector<Range> ranges;
  double all = 0;
  for (const model::StepRange& part : model::step_ranges(shape.config, weights)) {
    std::vector<int> groups;
    for (std::int64_t layer = part.first; layer < part.end; ++layer) {
      groups.push_back(model::layer_group(layer));
    }
    if (part.head) groups.push_back(model::head_group(shape.config));
    Range& range = ranges.emplace_back();
    for (const int group : groups) {
      const auto index = static_cast<std::size_t>(group);
      range.part += static_cast<double>(shape.layout.groups.at(index).bytes.count);
      if (weights[index].consumed == nullptr) continue;
      if (const auto read = streamed_read(batch, group, weights[index])) {
        range.reads.push_back(*read);
      }
    }
    all += range.part;
  }
  for (Range& range : ranges) range.part /= all;
  return ranges;
}

std::optional<SimulatedExecutor::StreamedRead> SimulatedExecutor::streamed_read(
    const request::Batch& batch, int group, const weights::WeightView& view) {
  const auto& groups = models_.at(batch.model).shape->cached.stream->groups;
  const auto streamed = std::find_if(groups.begin(), groups.end(),
                                     [&](const auto& one) { return one.layout_group == group; });
  if (streamed == groups.end()) {
    blame("a step waits for a group that is not streamed");
    return std::nullopt;
  }
  const StreamedRead read{.group = static_cast<int>(streamed - groups.begin()),
                          .pass = view.value,
                          .consumed = view.consumed,
                          .consumed_value = view.consumed_value};
  if (view.ready != mover_->streamed(batch.model, read.group) ||
      view.consumed != mover_->consumed(batch.model)) {
    blame("a step waits for the semaphores of another group");
  }
  return read;
}

std::optional<Nanos> SimulatedExecutor::arrival_of(const Step& step, const Range& range) const {
  Nanos at = step.next_from;
  for (const StreamedRead& read : range.reads) {
    const auto copy = mover_->copy_in_ring(step.batch.model, read.group);
    if (!copy || copy->arrival != read.pass) return std::nullopt;
    at = std::max(at, copy->ends);
  }
  return at;
}

// Its copy was submitted, and is gone.
bool SimulatedExecutor::lost(const Step& step, const StreamedRead& read) const {
  const auto copy = mover_->copy_in_ring(step.batch.model, read.group);
  if (copy && copy->arrival == read.pass) return false;
  return device::reached(mover_->last_pass(step.batch.model, read.group), read.pass);
}

void SimulatedExecutor::look_for_lost() {
  if (!streamed_) return;
  for (std::size_t i = streamed_->ended; i < streamed_->ranges.size(); ++i) {
    for (const StreamedRead& read : streamed_->ranges[i].reads) {
      if (lost(*streamed_, read)) blame("a streamed group is overwritten before it was read");
    }
  }
}

void SimulatedExecutor::look_back(Step& step, const Range& range) {
  for (const StreamedRead& read : range.reads) {
    const auto copy = mover_->copy_in_ring(step.batch.model, read.group);
    if (!copy || copy->arrival != read.pass) {
      blame("a streamed group is overwritten while a range reads it");
    }
    step.is_void = step.is_void || !copy || copy->failed;
    read.consumed->raise(read.consumed_value);
  }
}

}  // namespace causeway::simulate
