#include "simulate/fleet_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "simulate/fleet_simulation_state.h"

namespace causeway::simulate {
namespace {

constexpr std::int64_t kSlicesMax = 64;  // of a machine
constexpr std::int64_t kSlicesInAllMax = 4096;

// That a step of one token reads.
Bytes read_by_a_step(const ModelShape& shape) {
  return std::min(shape.weights, shape.weights_always + shape.expert * shape.experts_per_token);
}

// The least that a slice needs to stream it: its two largest groups.
Bytes memory_min(const ModelShape& shape, const SimulationOptions& options) {
  Bytes largest;
  for (const auto& group : shape.layout.groups) largest = std::max(largest, group.bytes);
  const Bytes ring = std::max(options.ring, largest * 2);
  return std::min(round_up(shape.layout.bytes, options.residency.extent), ring);
}

// Where steps are told one by one, as requests may go on elsewhere behind each of them.
SimulationOptions step_by_step(SimulationOptions slice, bool resumes) {
  if (resumes) slice.fast_forward = false;
  return slice;
}

Recorded recorded(const FleetSimulationOptions& options) {
  if (options.keep_outcomes) return Recorded::kOutcomes;
  return options.keep_requests ? Recorded::kRequests : Recorded::kLatencies;
}

}  // namespace

fleet::SliceSpec slice_spec(const SimulationOptions& slice, std::int64_t models_max,
                            std::int64_t machine) {
  return {.link = fleet::LinkId(machine),
          .models_max = models_max,
          .memory = slice.profile.memory - slice.kv_memory,
          .memory_bytes_per_second = slice.profile.memory_bytes_per_second,
          .flops_per_second = slice.profile.flops_per_second};
}

std::vector<std::string> FleetSimulation::names_of(const std::vector<ModelShape>& models) {
  std::vector<std::string> names;
  for (const ModelShape& shape : models) names.push_back(shape.name);
  return names;
}

// Rates, targets and prompts that are expected are those that come: the paper's come from a trace
// of the past.
fleet::FleetSpec FleetSimulation::spec_of(const FleetSimulationOptions& options,
                                          const Workload& workload) {
  fleet::FleetSpec spec;
  const std::int64_t slices = options.gpu_parts ? options.gpu_parts->parts : options.slices;
  SimulationOptions one = options.slice;
  if (options.gpu_parts) {
    one = GpuParts(*options.gpu_parts, options.slice).slice_options(options.gpu_parts->parts);
  }
  spec.links.assign(static_cast<std::size_t>(options.machines),
                    {.bytes_per_second = one.profile.link_bytes_per_second});
  for (std::int64_t i = 0; i < slices * options.machines; ++i) {
    spec.slices.push_back(slice_spec(one, options.models_max, i / slices));
  }
  for (const ModelShape& shape : options.slice.models) {
    fleet::ModelSpec& model = spec.models.emplace_back();
    model.name = shape.name;
    model.weights = read_by_a_step(shape);
    model.flops_per_token = shape.flops_per_token;
    model.memory_min = memory_min(shape, options.slice);
  }
  const Nanos span = workload.empty() ? Nanos(0) : workload.back().at - workload.front().at;
  std::vector<std::int64_t> arrivals(spec.models.size());
  for (const Arrival& arrival : workload) {
    fleet::ModelSpec& model = spec.models[arrival.model];
    if (arrivals[arrival.model]++ == 0) model.slo = arrival.slo;
    model.prompt += arrival.prompt;
    model.rate += 1 / std::max(1.0, to_seconds(span));
  }
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    if (arrivals[i] > 0) spec.models[i].prompt = spec.models[i].prompt / arrivals[i];
  }
  return spec;
}

// Whether requests go on on other slices, behind what they have answered.
bool FleetSimulation::resumes(const FleetSimulationOptions& options) {
  const bool migrates = options.placement == fleet::PlacementKind::kLocality;
  return options.gpu_parts.has_value() || (migrates && options.fleet.moves) ||
         !options.faults.empty();
}

std::int64_t FleetSimulation::places_max(const FleetSimulationOptions& options) {
  if (options.gpu_parts) return parts_most(*options.gpu_parts);
  return parts_most(options.faults, options.slices) * options.machines;
}

FleetSimulation::FleetSimulation(const FleetSimulationOptions& options, const Workload& workload,
                                 FleetClients* clients)
    : options_(options),
      workload_(workload),
      clients_(clients),
      resumes_(resumes(options)),
      helped_(options.two_threads && !resumes_ && !options.slice.alpha),
      links_(static_cast<std::size_t>(options.machines)),
      submitted_past_(links_.size()),
      spec_(spec_of(options, workload)),
      core_(spec_, options.fleet, fleet::make_placement(options.placement)),
      recorder_(workload, names_of(options.slice.models), recorded(options), FleetSlices::kThreads),
      slices_(places_max(options), resumes_ ? nullptr : &recorder_, helped_,
              [this](RequestId request) { return made(request); }),
      watches_(clients != nullptr),
      memory_(options.slice.profile.memory_bytes_per_second,
              options.slice.profile.parts.neighbour_slowdown) {
  for (std::int64_t i = 0; i < places_max(options); ++i) {
    places_.emplace_back(slices_, clock_, static_cast<std::size_t>(i));
  }
  for (const FleetFault& fault : options.faults) {
    const auto* trouble = std::get_if<LinkTrouble>(&fault.what);
    if (trouble == nullptr) continue;
    links_[static_cast<std::size_t>(trouble->machine)].rates.add(
        fault.at, fault.at + trouble->lasts, trouble->share);
    for (SharedLink& link : links_) link.watched = true;
    links_at_ = Nanos(0);
  }
  if (options.gpu_parts) {
    const bool one_by_one = !options.faults.empty();
    parts_.emplace(*options.gpu_parts, step_by_step(options.slice, one_by_one));
    for (const fleet::ModelSpec& model : spec_.models) targets_.push_back(model.slo.tpot);
  }
  open_all();
}

const SimulationOptions& FleetSimulation::slice_options(std::int64_t parts) {
  if (parts_) return parts_->slice_options(static_cast<int>(parts));
  const auto at = by_parts_.find(parts);
  if (at != by_parts_.end()) return at->second;
  SimulationOptions slice = divided(options_.slice, options_.slices, parts);
  slice.own_clock = helped_;
  return by_parts_.emplace(parts, step_by_step(std::move(slice), resumes_)).first->second;
}

void FleetSimulation::tell(const fleet::Event& event) {
  events_.push_back(event);
  // The call that tells the first event tells those that come of it.
  if (events_.size() > 1) return;
  for (std::size_t i = 0; i < events_.size(); ++i) {  // it may grow
    for (const fleet::Action& action : core_.on_event(events_[i], fleet_now())) {
      std::visit([this](const auto& one) { apply(one); }, action);
    }
    if (watches_ && broken_.ok()) broken_ = core_.check_integrity();
  }
  events_.clear();
}

request::Request FleetSimulation::made(RequestId request) const {
  const Arrival& arrival = workload_[static_cast<std::size_t>(request.value)];
  // The checker of KV makes answers of what prompts say; nothing else reads them.
  const bool blank = !options_.slice.prefix_caching && !options_.slice.shadow_kv;
  if (blank) return blank_request_of(arrival, request.value);
  return request_of(arrival, request.value, options_.slice.models[arrival.model].vocab);
}

// Whether the slice has it, without being looked at: it certainly takes it.
bool FleetSimulation::leaves(const fleet::Route& route) {
  const Arrival& arrival = workload_[static_cast<std::size_t>(route.request.value)];
  if (resumes_ || !arrival.prompt_ids.empty()) return false;
  const ModelShape& model = options_.slice.models[arrival.model];
  const Tokens all = arrival.prompt + arrival.output;
  const std::int64_t frames = options_.slice.kv_memory / options_.slice.frame;
  const bool fits =
      all <= model.max_model_len && all.count <= frames * model.tokens_per_block.count;
  if (!fits || arrival.prompt < Tokens(1) || arrival.output < Tokens(1)) return false;
  const auto index = static_cast<std::size_t>(route.slice.value);
  const StepBounds& bounds = bounds_of(arrival.model, index);
  // Two of its tokens may come at once.
  const std::int64_t steps = std::max<std::int64_t>(0, arrival.output.count - 2);
  return slices_.leave(index,
                       {.request = route.request,
                        .model = ModelId(static_cast<std::int64_t>(arrival.model)),
                        .prompt = arrival.prompt,
                        .output = arrival.output,
                        .queued = clock_.now() - arrival.at},
                       clock_.now() + std::min(bounds.least * steps, bounds.most));
}

// All slices are alike where requests are left with them.
const FleetSimulation::StepBounds& FleetSimulation::bounds_of(std::size_t model,
                                                              std::size_t on_slice) {
  if (bounds_.empty()) bounds_.resize(options_.slice.models.size());
  std::optional<StepBounds>& bounds = bounds_[model];
  if (!bounds) {
    const SimulatedSlice& slice = *slices_.at(on_slice);
    bounds = StepBounds{.least = slice.step_least(ModelId(static_cast<std::int64_t>(model))),
                        .most = slice.core().step_timeout()};
  }
  return *bounds;
}

void FleetSimulation::apply(const fleet::Route& route) {
  if (leaves(route)) return;
  FleetPlace& to = place(route.slice);
  const bool again = resumes_ && !given_.insert(route.request).second;
  std::optional<request::Request> request;
  if (again) {
    request = routed_.again(route.request, to);
  } else {
    request = made(route.request);
    if (resumes_) CAUSEWAY_CHECK(routed_.add(*request, to), "a request is routed twice");
  }
  if (!request) return tell(fleet::RequestEnded{route.request});  // it had ended
  const std::int32_t attempt = request->attempt;
  const Status taken = to.submit(std::move(*request));
  // The fleet is about to hear of a slice that is lost.
  if (taken.ok() || (resumes_ && routed_.goes_on(route.request, attempt))) return;
  if (resumes_) (void)routed_.forget(route.request);
  refused(route.request, request::FinishReason::kError, taken.error());
  tell(fleet::RequestEnded{route.request});
}

void FleetSimulation::apply(const fleet::Withdraw& withdraw) {
  if (routed_.withdraw(withdraw.request)) place(withdraw.slice).cancel(withdraw.request);
}

// One that had ended before its slice was lost has had its end.
void FleetSimulation::apply(const fleet::Refuse& refuse) {
  if (given_.contains(refuse.request) && !routed_.forget(refuse.request)) return;
  refused(refuse.request, refuse.reason, refuse.error);
}

void FleetSimulation::refused(RequestId request, request::FinishReason reason, const Error& error) {
  recorder_.refused(request, clock_.now(), reason == request::FinishReason::kCancelled);
  live_ -= 1;
  if (clients_ != nullptr) clients_->refused(request, reason, error);
}

void FleetSimulation::arrive() {
  const auto index = static_cast<std::int64_t>(arrived_);
  const Arrival& arrival = workload_[arrived_++];
  recorder_.arrived(index);
  live_ += 1;
  if (parts_) parts_->arrived(arrival.model, arrival.prompt, clock_.now());
  tell(fleet::RequestArrived{RequestId(index), ModelId(static_cast<std::int64_t>(arrival.model)),
                             arrival.slo, arrival.at + skew_});
}

void FleetSimulation::deliver(const request::Output& output, Nanos at) {
  live_ -= output.finished ? 1 : 0;
  if (clients_ != nullptr) clients_->answered(output, at);
}

// Answers whether its request has ended, of which the fleet is then to hear.
bool FleetSimulation::pass(request::Output& output, Nanos at) {
  if (!resumes_) {
    deliver(output, at);
    return output.finished;
  }
  std::vector<request::Output> one;
  one.push_back(std::move(output));
  const fleet::RoutedRequests::Passed passed = routed_.pass(std::move(one));
  bool ended = false;
  for (const request::Output& to_client : passed.outputs) {
    recorder_.record(to_client, at);
    deliver(to_client, at);
    ended = ended || to_client.finished;
  }
  for (const RequestId id : passed.given_back) {
    if (routed_.is_given_back(id)) tell(fleet::RequestWithdrawn{id});
  }
  for (const auto& [model, tokens] : routed_.take_answers()) {
    if (parts_) parts_->ended(static_cast<std::size_t>(model.value), tokens, clock_.now());
  }
  return ended;
}

void FleetSimulation::start_slices() {
  slices_.start([this](request::Output& output, Nanos at) {
    const RequestId request = output.request;
    if (pass(output, at)) tell(fleet::RequestEnded{request});
  });
}

void FleetSimulation::settle() {
  start_slices();
  while (try_unloads()) start_slices();
  start_slices();  // those that were asked in vain
}

bool FleetSimulation::work_left() const {
  if (arrived_ < workload_.size() || live_ > 0) return true;
  if (!options_.lets_go) return false;
  if (slices_.next() != kNever) return true;  // copies of KV may be under way
  return !all_left_ || std::any_of(places_.begin(), places_.end(),
                                   [](const FleetPlace& place) { return !place.attached.empty(); });
}

Nanos FleetSimulation::next_at() const {
  Nanos next = arrived_ < workload_.size() ? workload_[arrived_].at : kNever;
  next = std::min({next, slices_.next(), next_of_slices()});
  if (!loads_.empty()) next = std::min(next, loads_.begin()->first);
  for (const Unloading& one : unloads_) next = std::min(next, one.until);
  if (befallen_ < options_.faults.size()) next = std::min(next, options_.faults[befallen_].at);
  if (!resizes_.empty() && !resizing_) next = std::min(next, try_resizes_at_);
  const std::optional<Nanos> reopens = resizing_ ? resizing_->reopen_at : std::nullopt;
  if (reopens || parts_) next = std::min(next, reopens.value_or(look_at_));
  return std::min(next, wakeup_at());
}

Nanos FleetSimulation::wakeup_at() const {
  const auto wakeup = core_.next_wakeup();
  return wakeup ? *wakeup - skew_ : kNever;
}

bool FleetSimulation::next_instant() {
  Nanos next = next_at();
  if (next != kNever) next = std::max(next, paused_until_);
  if (next == kNever || next > options_.slice.virtual_time_max) return false;
  clock_.set(std::max(clock_.now(), next));
  note_carried();
  const Nanos wakeup = wakeup_at();
  slices_.begin_round(clock_.now());
  befall();
  look_after_slices();
  tell_links();
  while (arrived_ < workload_.size() && workload_[arrived_].at <= clock_.now()) arrive();
  end_loads();
  change_slices();
  if (wakeup <= clock_.now()) tell(fleet::Woken{});
  return true;
}

bool FleetSimulation::step() {
  if (!work_left()) return false;
  cut_short_ = !next_instant();
  if (cut_short_) return false;
  do {
    settle();
  } while (close_slices() || lose_slices());
  if (options_.lets_go && rests()) {
    let_go();
    settle();
    leave_behind_nothing();
    settle();
  }
  return true;
}

void FleetSimulation::begin() {
  for (std::int64_t i = 0; i < core_.models() && options_.load_ahead; ++i) {
    tell(fleet::ModelWanted{ModelId(i)});
  }
}

namespace {

void add(const request::KvCopyCounts& more, request::KvCopyCounts& sum) {
  sum.eager_out += more.eager_out;
  sum.rotation_out += more.rotation_out;
  sum.rotation_in += more.rotation_in;
  sum.prefix_in += more.prefix_in;
  sum.failed += more.failed;
}

}  // namespace

void FleetSimulation::add_to(const SimulatedSlice& slice, SimulationReport& sum) const {
  SimulationReport one;
  slice.add_to(one);
  sum.engine.preemptions += one.engine.preemptions;
  sum.engine.prefix_queried_tokens += one.engine.prefix_queried_tokens;
  sum.engine.prefix_hit_tokens += one.engine.prefix_hit_tokens;
  add(one.engine.kv_copies, sum.engine.kv_copies);
  sum.device.steps += one.device.steps;
  sum.device.streamed_steps += one.device.streamed_steps;
  sum.device.tokens_again += one.device.tokens_again;
  sum.device.weights_wait += one.device.weights_wait;
  sum.device.home_read += one.device.home_read;
  sum.device.alpha_steps += one.device.alpha_steps;
  sum.device.alpha_sum += one.device.alpha_sum;
  sum.device.busy += one.device.busy / slices_open();
  sum.weights.arrivals += one.weights.arrivals;
  sum.weights.failures += one.weights.failures;
  sum.weights.evictions += one.weights.evictions;
  sum.kv_in_bytes += one.kv_in_bytes;
  sum.kv_out_bytes += one.kv_out_bytes;
  sum.streamed_bytes += one.streamed_bytes;
  sum.link_bytes += one.link_bytes;
  sum.weights_out_bytes += one.weights_out_bytes;
}

FleetCarried FleetSimulation::carried_now() const {
  SimulationReport sum = past_;
  for (std::int64_t i = 0; i < slices_.size(); ++i) {
    const SimulatedSlice* slice = slices_.at(static_cast<std::size_t>(i));
    if (slice != nullptr) add_to(*slice, sum);
  }
  return {.weights_in = sum.link_bytes - sum.device.home_read,
          .weights_home = sum.device.home_read,
          .weights_out = sum.weights_out_bytes,
          .kv_in = sum.kv_in_bytes,
          .kv_out = sum.kv_out_bytes};
}

// What slices have carried is known at each instant only where none stays behind.
bool FleetSimulation::samples_carried() const {
  const bool keeps = options_.keep_requests || options_.keep_outcomes;
  return keeps && !options_.slice.fast_forward && !helped_;
}

// At the first instant at or behind each whole second, before anything happens there.
void FleetSimulation::note_carried() {
  if (!samples_carried() || workload_.empty()) return;
  const auto due = [this] {
    return workload_.front().at + seconds(1) * (std::ssize(carried_) + 1);
  };
  if (clock_.now() < due()) return;
  const FleetCarried now = carried_now();
  while (clock_.now() >= due()) carried_.push_back(now);
}

std::int64_t FleetSimulation::slices_open() const {
  if (parts_) return parts_->parts();
  return std::count_if(places_.begin(), places_.end(),
                       [](const FleetPlace& place) { return place.open; });
}

FleetSimulationReport FleetSimulation::counts() {
  clock_.set(slices_.finish(cut_short_ ? options_.slice.virtual_time_max : Nanos(0)));
  FleetSimulationReport report;
  SimulationReport& serving = report.serving;
  serving = past_;
  for (std::int64_t i = 0; i < slices_.size(); ++i) {
    const SimulatedSlice* slice = slices_.at(static_cast<std::size_t>(i));
    if (slice != nullptr) add_to(*slice, serving);
  }
  serving.profile = options_.slice.profile.name;
  if (!workload_.empty()) {
    serving.duration = std::max(Nanos(0), recorder_.last_end() - workload_.front().at);
  }
  serving.unfinished = live_ + static_cast<std::int64_t>(workload_.size() - arrived_);
  report.fleet = core_.counters();
  report.steps_passed = slices_.steps_passed();
  report.placement = fleet::name_of(options_.placement);
  report.slices = slices_open();
  report.slices_lost = slices_lost_;
  const double rate =
      options_.slice.profile.link_bytes_per_second * static_cast<double>(options_.machines);
  if (rate <= 0) return report;
  for (const fleet::ModelSpec& model : spec_.models) {
    report.demand += fleet::demand_of(model, Bytes(0)).link_bytes_per_second / rate;
  }
  const double could = rate * std::max(1e-9, to_seconds(clock_.now()));
  report.link_busy = static_cast<double>(serving.link_bytes.count) / could;
  return report;
}

FleetSimulationReport FleetSimulation::report() {
  FleetSimulationReport report = counts();
  report.serving.models = recorder_.models();
  report.serving.total = recorder_.total();
  report.switches = recorder_.switches();
  report.requests = recorder_.take_served();
  report.outcomes = recorder_.take_outcomes();
  report.carried = std::move(carried_);
  if (samples_carried()) {
    report.carried.push_back(carried_now());
  }
  return report;
}

namespace {

Status check_parts(const FleetSimulationOptions& options) {
  const GpuPartsOptions& parts = *options.gpu_parts;
  const slice::SliceGpu& gpu = parts.gpu;
  if (options.slices != 1 || options.machines != 1 || options.models_max != 0 ||
      !options.fleet.moves) {
    return invalid_argument("a GPU in parts is one machine, on which models move");
  }
  const int most = parts.resizes ? slice::kPartsMax : gpu.units;
  if (parts.parts < 1 || parts.parts > most || gpu.unit < 1 || gpu.units < slice::kPartsMax ||
      gpu.units * gpu.unit > gpu.processors) {
    return invalid_argument(
        fmt::format("a GPU is divided into 1 to {} parts of whole units", most));
  }
  return {};
}

// Slices of each size that the faults divide machines into.
Status check_changes(const FleetSimulationOptions& options) {
  const std::int64_t most = options.gpu_parts ? parts_most(*options.gpu_parts) : kSlicesMax;
  CAUSEWAY_TRY(check_faults(options.faults, options.machines, most));
  for (const FleetFault& fault : options.faults) {
    // A step that reads at home divides the link as it is with copies beside it (home_read.h).
    if (options.slice.reads_at_home && std::holds_alternative<LinkTrouble>(fault.what)) {
      return unsupported("a link that hangs or slows is not modelled for steps that read at home");
    }
    const auto* resize = std::get_if<MachineResize>(&fault.what);
    if (resize == nullptr || options.gpu_parts) continue;
    const SimulationOptions slice = divided(options.slice, options.slices, resize->parts);
    CAUSEWAY_TRY(check_slice(slice));
    if (slice.kv_memory >= slice.profile.memory) {
      return invalid_argument(
          "KV leaves the slices of a machine that is divided anew no memory "
          "for weights");
    }
  }
  return {};
}

Status check_fleet(const FleetSimulationOptions& options) {
  if (options.slices < 1 || options.slices > kSlicesMax) {
    return invalid_argument(
        fmt::format("a machine has from 1 to {} slices, not {}", kSlicesMax, options.slices));
  }
  const std::int64_t most = parts_most(options.faults, options.slices);
  if (options.machines < 1 || most < 1 || options.machines > kSlicesInAllMax / most) {
    return invalid_argument(
        fmt::format("a fleet has at least one machine and at most {} slices", kSlicesInAllMax));
  }
  if (options.slice.kv_memory >= options.slice.profile.memory) {
    return invalid_argument("KV leaves a slice no memory for weights");
  }
  if (options.gpu_parts) CAUSEWAY_TRY(check_parts(options));
  CAUSEWAY_TRY(check_changes(options));
  if (options.models_max < 0 || options.host_memory < Bytes(0) || options.attach < Nanos(0) ||
      options.unload_timeout < Nanos(0) || !(options.disk_bytes_per_second >= 0)) {
    return invalid_argument("places, host memory, disk rate and times of a fleet are 0 or more");
  }
  return {};
}

// Rates and memory of a part of a machine, or of several.
HardwareProfile with_share(HardwareProfile slice, double parts, Bytes memory) {
  slice.flops_per_second /= parts;
  slice.prompt_attention_flops_per_second /= parts;
  slice.memory_bytes_per_second /= parts;
  slice.attention_bytes_per_second /= parts;
  slice.memory = memory;
  slice.kv_in_bytes_per_second /= parts;
  slice.kv_out_bytes_per_second /= parts;
  return slice;
}

}  // namespace

HardwareProfile slice_of(const HardwareProfile& machine, std::int64_t parts) {
  HardwareProfile slice = with_share(machine, static_cast<double>(parts), machine.memory / parts);
  slice.name = fmt::format("{}/{}", machine.name, parts);
  return slice;
}

SimulationOptions divided(const SimulationOptions& slice, std::int64_t from, std::int64_t into) {
  if (from == into) return slice;
  SimulationOptions other = slice;
  const auto part = [&](Bytes all) { return all * from / into; };
  other.profile = with_share(slice.profile, static_cast<double>(into) / static_cast<double>(from),
                             part(slice.profile.memory));
  other.kv_memory = part(slice.kv_memory);
  other.kv_host_memory = part(slice.kv_host_memory);
  return other;
}

Status check_run(const FleetSimulationOptions& options, const Workload& workload) {
  CAUSEWAY_TRY(check_slice(options.slice));
  CAUSEWAY_TRY(check_workload(workload, options.slice.models.size()));
  return check_fleet(options);
}

Result<FleetSimulationReport> run_fleet(const FleetSimulationOptions& options,
                                        const Workload& workload) {
  CAUSEWAY_TRY(check_run(options, workload));
  FleetSimulation simulation(options, workload);
  simulation.begin();
  while (simulation.step()) {
  }
  return simulation.report();
}

std::string to_text(const FleetSimulationReport& report) {
  const fleet::FleetCounters& fleet = report.fleet;
  return to_text(report.serving) +
         fmt::format(
             "fleet: {} slices, placement {}; {} loads, {} failed, {} unloads, {} moves, {} "
             "migrations, {} models drained, {} placed with best effort; all models at once ask "
             "for {:.2f} of the link, "
             "{:.2f} of "
             "it was used\n",
             report.slices, report.placement, fleet.loads, fleet.loads_failed, fleet.unloads,
             fleet.moves, fleet.migrations, fleet.drains, fleet.best_effort, report.demand,
             report.link_busy);
}

std::string to_json(const FleetSimulationReport& report) {
  auto json = nlohmann::ordered_json::parse(to_json(report.serving));
  json["fleet"] = {{"slices", report.slices},
                   {"placement", report.placement},
                   {"routed", report.fleet.routed},
                   {"refused", report.fleet.refused},
                   {"loads", report.fleet.loads},
                   {"switches", report.switches.count()},
                   {"loads_failed", report.fleet.loads_failed},
                   {"unloads", report.fleet.unloads},
                   {"moves", report.fleet.moves},
                   {"migrations", report.fleet.migrations},
                   {"migrated", report.fleet.migrated},
                   {"drains", report.fleet.drains},
                   {"best_effort", report.fleet.best_effort},
                   {"slices_lost", report.slices_lost},
                   {"resumed", report.fleet.resumed},
                   {"resizes", report.fleet.resizes},
                   {"link_demand", report.demand},
                   {"link_busy", report.link_busy}};
  return json.dump(2) + "\n";
}

}  // namespace causeway::simulate
