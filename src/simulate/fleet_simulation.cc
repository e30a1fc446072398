#include "simulate/fleet_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/clock.h"
#include "simulate/fleet_slices.h"

namespace causeway::simulate {
namespace {

constexpr std::int64_t kSlicesMax = 64;  // of a machine
constexpr std::int64_t kSlicesInAllMax = 4096;
constexpr Nanos kLook = seconds(1);  // how often demand is looked at

// That a step of one token reads.
Bytes read_by_a_step(const ModelShape& shape) {
  return std::min(shape.weights, shape.weights_always + shape.expert * shape.experts_per_token);
}

void add(const request::KvCopyCounts& more, request::KvCopyCounts& sum) {
  sum.eager_out += more.eager_out;
  sum.rotation_out += more.rotation_out;
  sum.rotation_in += more.rotation_in;
  sum.prefix_in += more.prefix_in;
  sum.failed += more.failed;
}

// The least that a slice needs to stream it: its two largest groups.
Bytes memory_min(const ModelShape& shape, const SimulationOptions& options) {
  Bytes largest;
  for (const auto& group : shape.layout.groups) largest = std::max(largest, group.bytes);
  const Bytes ring = std::max(options.ring, largest * 2);
  return std::min(round_up(shape.layout.bytes, options.residency.extent), ring);
}

fleet::SliceSpec slice_spec(const SimulationOptions& slice, std::int64_t models_max) {
  return {.link = fleet::LinkId(0),
          .models_max = models_max,
          .memory = slice.profile.memory - slice.kv_memory,
          .memory_bytes_per_second = slice.profile.memory_bytes_per_second,
          .flops_per_second = slice.profile.flops_per_second};
}

class FleetSimulation {
 public:
  FleetSimulation(const FleetSimulationOptions& options, const Workload& workload);
  FleetSimulationReport run();

 private:
  static fleet::FleetSpec spec_of(const FleetSimulationOptions& options, const Workload& workload);
  static std::vector<std::string> names_of(const std::vector<ModelShape>& models);

  bool next_event();
  void arrive();
  void tell(const fleet::Event& event);
  request::Request made(RequestId request) const;
  bool leaves(const fleet::Route& route);
  void apply(const fleet::Route& route);
  void apply(const fleet::Withdraw& withdraw) {
    withdrawn_.insert(withdraw.request);
    slice(withdraw.slice).core().cancel(withdraw.request, clock_.now());
  }
  void apply(const fleet::CancelOn&) {
    CAUSEWAY_CHECK(false, "a simulated workload cancels no request");
  }
  void apply(const fleet::Refuse& refuse) { recorder_.refused(refuse.request, clock_.now()); }
  void apply(const fleet::LoadFailed&) {}
  void apply(const fleet::Answered&) {}  // nothing here asks
  void apply(const fleet::ModelRemoved&) {}
  void apply(const fleet::ModelKept&) {}
  void apply(const fleet::Reread&) { CAUSEWAY_CHECK(false, "the catalogue stays as it is here"); }
  void apply(const fleet::Measure& measure);
  void apply(const fleet::Load& load);
  void apply(const fleet::Unload& unload);
  void apply(const fleet::Drop& drop);
  void apply(const fleet::Resize& resize);
  void end_loads();
  // Slices that change (gpu_parts).
  void open_parts(int parts);
  void look_at_demand();
  void close_slices();
  void reopen();
  void keep_answer(const request::Output& output);
  // True: some ended.
  bool try_unloads();
  void start_slices();

  const ModelShape& shape(ModelId model) const {
    return options_.slice.models[static_cast<std::size_t>(model.value)];
  }
  SimulatedSlice& slice(fleet::SliceId id) {
    return slices_.ask(static_cast<std::size_t>(id.value));
  }
  std::int64_t slices_max() const;
  std::int64_t slices() const { return parts_ ? parts_->parts() : slices_.size(); }
  void add_to(const SimulatedSlice& slice, SimulationReport& sum) const;
  Bytes host_budget() const;
  Bytes host_used() const;
  void report_sums(FleetSimulationReport& report) const;

  // Whether requests go on on other slices, behind what they have answered.
  static bool resumes(const FleetSimulationOptions& options) {
    const bool migrates = options.placement == fleet::PlacementKind::kLocality;
    return options.gpu_parts.has_value() || (migrates && options.fleet.moves);
  }

  const FleetSimulationOptions& options_;
  const Workload& workload_;
  const bool resumes_;
  SimulationOptions slice_options_;
  ManualClock clock_;
  std::vector<SharedLink> links_;  // by machine
  fleet::FleetSpec spec_;
  fleet::FleetCore core_;
  LatencyRecorder recorder_;
  FleetSlices slices_;
  std::size_t arrived_ = 0;
  std::deque<fleet::Event> events_;          // to be told, in this order
  std::multimap<Nanos, fleet::Load> loads_;  // under way, by their ends
  struct Unloading {
    fleet::Unload unload;
    bool tried = false;
  };
  std::vector<Unloading> unloads_;
  std::map<ModelId, bool> home_;  // in host memory; false: on its way

  std::unordered_map<RequestId, std::vector<TokenId>> answers_;  // so far, of those that may go on
  std::unordered_set<RequestId> withdrawn_;                      // told to be given back

  // Where slices change.
  std::optional<GpuParts> parts_;
  SharedMemory memory_;
  std::vector<Nanos> targets_;  // between tokens, of each model
  Nanos look_at_;
  int wanted_ = 0;                       // parts, from when the fleet was asked
  std::vector<fleet::SliceId> closing_;  // told to, and not done yet
  std::optional<Nanos> reopen_at_;
  SimulationReport past_;  // of slices that were closed
};

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
  const HardwareProfile& profile = options.slice.profile;
  spec.links.assign(static_cast<std::size_t>(options.machines),
                    {.bytes_per_second = profile.link_bytes_per_second});
  const std::int64_t slices = options.gpu_parts ? options.gpu_parts->parts : options.slices;
  SimulationOptions one = options.slice;
  if (options.gpu_parts) {
    one = GpuParts(*options.gpu_parts, options.slice).slice_options(options.gpu_parts->parts);
  }
  for (std::int64_t i = 0; i < slices * options.machines; ++i) {
    spec.slices.push_back(slice_spec(one, options.models_max));
    spec.slices.back().link = fleet::LinkId(i / slices);
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

std::int64_t FleetSimulation::slices_max() const {
  return options_.gpu_parts ? slice::kPartsMax : options_.slices * options_.machines;
}

FleetSimulation::FleetSimulation(const FleetSimulationOptions& options, const Workload& workload)
    : options_(options),
      workload_(workload),
      resumes_(resumes(options)),
      slice_options_(options.slice),
      links_(static_cast<std::size_t>(options.machines),
             {.free = {}, .read_until = {}, .uses = {}, .free_out = {}, .sharers = options.slices}),
      spec_(spec_of(options, workload)),
      core_(spec_, options.fleet, fleet::make_placement(options.placement)),
      recorder_(workload, names_of(options.slice.models), options.keep_requests),
      slices_(slices_max(), recorder_, options.two_threads && options.slice.fast_forward,
              [this](RequestId request) { return made(request); }),
      memory_(options.slice.profile.memory_bytes_per_second) {
  if (options.gpu_parts) {
    parts_.emplace(*options.gpu_parts, options.slice);
    for (const fleet::ModelSpec& model : spec_.models) targets_.push_back(model.slo.tpot);
    open_parts(options.gpu_parts->parts);
    return;
  }
  if (resumes_) slice_options_.fast_forward = false;  // it does not tell tokens one by one
  for (std::int64_t i = 0; i < options.slices * options.machines; ++i) {
    SharedLink* const link = &links_[static_cast<std::size_t>(i / options.slices)];
    slices_.open(static_cast<std::size_t>(i), slice_options_,
                 {.link = options.slices > 1 ? link : nullptr});
  }
}

Bytes FleetSimulation::host_budget() const {
  if (options_.host_memory > Bytes(0)) return options_.host_memory;
  Bytes all;
  for (const ModelShape& shape : options_.slice.models) all += shape.layout.bytes;
  return all;
}

Bytes FleetSimulation::host_used() const {
  Bytes used;
  for (const auto& [model, there] : home_) used += shape(model).layout.bytes;
  return used;
}

void FleetSimulation::tell(const fleet::Event& event) {
  events_.push_back(event);
  // The call that tells the first event tells those that come of it.
  if (events_.size() > 1) return;
  for (; !events_.empty(); events_.pop_front()) {
    for (const fleet::Action& action : core_.on_event(events_.front(), clock_.now())) {
      std::visit([this](const auto& one) { apply(one); }, action);
    }
  }
}

request::Request FleetSimulation::made(RequestId request) const {
  const Arrival& arrival = workload_[static_cast<std::size_t>(request.value)];
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
  const SimulatedSlice& slice = *slices_.at(index);
  // Of its tokens two may come at once.
  const std::int64_t steps = std::max<std::int64_t>(0, arrival.output.count - 2);
  const Nanos served = slice.step_least(ModelId(static_cast<std::int64_t>(arrival.model))) * steps;
  return slices_.leave(index, route.request,
                       clock_.now() + std::min(served, slice.core().step_timeout()));
}

void FleetSimulation::apply(const fleet::Route& route) {
  if (leaves(route)) return;
  auto request = made(route.request);
  if (const auto answer = answers_.find(route.request); answer != answers_.end()) {
    request.output = answer->second;  // it goes on behind these
  }
  const Status taken = slice(route.slice).core().submit(std::move(request), clock_.now());
  if (taken.ok()) return;
  recorder_.refused(route.request, clock_.now());
  tell(fleet::RequestEnded{route.request});
}

void FleetSimulation::apply(const fleet::Measure& measure) {
  tell(fleet::Measured{measure.model, fleet::HostRoom{shape(measure.model).layout.bytes,
                                                      host_used(), host_budget()}});
}

void FleetSimulation::apply(const fleet::Load& load) {
  Nanos takes = options_.attach;
  if (home_.emplace(load.model, false).second && options_.disk_bytes_per_second > 0) {
    const auto bytes = static_cast<double>(shape(load.model).layout.bytes.count);
    takes += nanos_from_seconds(bytes / options_.disk_bytes_per_second);
  }
  loads_.emplace(clock_.now() + takes, load);
}

void FleetSimulation::apply(const fleet::Drop& drop) {
  home_.erase(drop.model);
  tell(fleet::DropEnded{drop.model});
}

void FleetSimulation::end_loads() {
  while (!loads_.empty() && loads_.begin()->first <= clock_.now()) {
    const fleet::Load load = loads_.begin()->second;
    loads_.erase(loads_.begin());
    auto added = slice(load.slice).add_model(load.model, shape(load.model));
    if (added.ok()) {
      home_[load.model] = true;
    } else if (!home_[load.model]) {
      home_.erase(load.model);
    }
    tell(fleet::LoadEnded{load.model, std::move(added)});
  }
}

void FleetSimulation::apply(const fleet::Unload& unload) {
  unloads_.push_back({unload});
  for (const fleet::SliceId id : unload.slices) {
    slices_.keep_up(static_cast<std::size_t>(id.value));
  }
}

// A model whose last step is in flight, or whose weights are on their way, goes when something
// happens on its slice.
bool FleetSimulation::try_unloads() {
  bool any = false;
  for (Unloading& one : std::exchange(unloads_, {})) {
    std::erase_if(one.unload.slices, [&](fleet::SliceId id) {
      const auto index = static_cast<std::size_t>(id.value);
      if (one.tried && !slices_.looked_at(index)) return false;
      const Status gone = slice(id).remove_model(one.unload.model);
      CAUSEWAY_CHECK(gone.ok() || gone.error().code == ErrorCode::kUnavailable,
                     gone.error().message);
      if (gone.ok()) slices_.may_lag(index);
      return gone.ok();
    });
    one.tried = true;
    if (!one.unload.slices.empty()) {
      unloads_.push_back(std::move(one));
      continue;
    }
    if (one.unload.drop) home_.erase(one.unload.model);
    any = true;
    tell(fleet::UnloadEnded{one.unload.model, {}});
  }
  return any;
}

void FleetSimulation::arrive() {
  const auto index = static_cast<std::int64_t>(arrived_);
  const Arrival& arrival = workload_[arrived_++];
  recorder_.arrived(index);
  if (parts_) parts_->arrived(arrival.model, arrival.prompt, clock_.now());
  tell(fleet::RequestArrived{RequestId(index), ModelId(static_cast<std::int64_t>(arrival.model)),
                             arrival.slo, arrival.at});
}

void FleetSimulation::start_slices() {
  slices_.start([this](request::Output& output, Nanos at) {
    const bool told = output.finished && withdrawn_.erase(output.request) > 0;
    const bool back = told && output.reason == request::FinishReason::kCancelled;
    if (back) output.finished = false;
    if (!back || !output.tokens.empty()) recorder_.record(output, at);
    if (resumes_) keep_answer(output);
    if (back) tell(fleet::RequestWithdrawn{output.request});
    if (output.finished) tell(fleet::RequestEnded{output.request});
  });
}

bool FleetSimulation::next_event() {
  Nanos next = arrived_ < workload_.size() ? workload_[arrived_].at : kNever;
  next = std::min(next, slices_.next());
  if (!loads_.empty()) next = std::min(next, loads_.begin()->first);
  if (parts_) next = std::min(next, reopen_at_.value_or(look_at_));
  const Nanos wakeup = core_.next_wakeup().value_or(kNever);
  next = std::min(next, wakeup);
  if (next == kNever || next > options_.slice.virtual_time_max) return false;
  clock_.set(std::max(clock_.now(), next));
  slices_.begin_round(clock_.now());
  while (arrived_ < workload_.size() && workload_[arrived_].at <= clock_.now()) arrive();
  end_loads();
  if (parts_) look_at_demand();
  if (wakeup <= clock_.now()) tell(fleet::Woken{});
  return true;
}

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
  sum.device.busy += one.device.busy / slices();
  sum.weights.arrivals += one.weights.arrivals;
  sum.weights.failures += one.weights.failures;
  sum.weights.evictions += one.weights.evictions;
  sum.kv_in_bytes += one.kv_in_bytes;
  sum.kv_out_bytes += one.kv_out_bytes;
  sum.streamed_bytes += one.streamed_bytes;
  sum.link_bytes += one.link_bytes;
  sum.weights_out_bytes += one.weights_out_bytes;
}

// Of slices that are open and that were closed.
void FleetSimulation::report_sums(FleetSimulationReport& report) const {
  report.serving = past_;
  for (std::int64_t i = 0; i < slices_.size(); ++i) {
    const SimulatedSlice* slice = slices_.at(static_cast<std::size_t>(i));
    if (slice != nullptr) add_to(*slice, report.serving);
  }
}

void FleetSimulation::open_parts(int parts) {
  links_.front().sharers = parts;
  for (int i = 0; i < parts; ++i) {
    slices_.open(
        static_cast<std::size_t>(i), parts_->slice_options(parts),
        {.link = parts > 1 ? &links_.front() : nullptr, .memory = &memory_, .memory_user = i});
  }
}

void FleetSimulation::look_at_demand() {
  const Nanos now = clock_.now();
  if (reopen_at_ && *reopen_at_ <= now) reopen();
  if (look_at_ > now) return;
  look_at_ = now + kLook;
  if (wanted_ > 0) return;  // they change already
  const auto parts = parts_->decide(targets_, now);
  if (!parts) return;
  fleet::ResizeWanted change{.slices = {}, .drain_max = options_.gpu_parts->drain_max};
  for (int i = 0; i < parts_->parts(); ++i) change.slices.emplace_back(i);
  wanted_ = *parts;
  tell(change);
  if (!core_.resizing()) wanted_ = 0;  // it is asked again
}

// They are closed at the end of the instant: this comes in the middle of a loop over their outputs.
void FleetSimulation::apply(const fleet::Resize& resize) { closing_ = resize.closing; }

void FleetSimulation::close_slices() {
  for (const fleet::SliceId id : std::exchange(closing_, {})) {
    const auto index = static_cast<std::size_t>(id.value);
    add_to(*slices_.at(index), past_);
    slices_.close(index);
    memory_.use(static_cast<int>(index), 0);
    reopen_at_ = clock_.now() + options_.gpu_parts->reopen;
  }
}

void FleetSimulation::reopen() {
  reopen_at_.reset();
  parts_->changed(std::exchange(wanted_, 0), clock_.now());
  open_parts(parts_->parts());
  fleet::SlicesChanged changed;
  for (int i = 0; i < parts_->parts(); ++i) {
    const SimulationOptions& slice = parts_->slice_options(parts_->parts());
    changed.opened.push_back({fleet::SliceId(i), slice_spec(slice, options_.models_max)});
  }
  tell(changed);
}

void FleetSimulation::keep_answer(const request::Output& output) {
  std::vector<TokenId>& answer = answers_[output.request];
  for (const request::OutputToken& token : output.tokens) answer.push_back(token.token);
  if (!output.finished) return;
  const Arrival& arrival = workload_[static_cast<std::size_t>(output.request.value)];
  if (parts_) parts_->ended(arrival.model, Tokens(std::ssize(answer)), clock_.now());
  answers_.erase(output.request);
}

FleetSimulationReport FleetSimulation::run() {
  for (std::int64_t i = 0; i < core_.models() && options_.load_ahead; ++i) {
    tell(fleet::ModelWanted{ModelId(i)});
  }
  bool cut_short = false;
  while (!cut_short && (arrived_ < workload_.size() || recorder_.live() > 0)) {
    cut_short = !next_event();
    if (cut_short) break;
    start_slices();
    while (try_unloads()) start_slices();
    start_slices();  // those that were asked in vain
    close_slices();
  }
  clock_.set(slices_.finish(cut_short ? options_.slice.virtual_time_max : Nanos(0)));
  FleetSimulationReport report;
  report_sums(report);
  SimulationReport& serving = report.serving;
  serving.profile = options_.slice.profile.name;
  serving.models = recorder_.models();
  serving.total = recorder_.total();
  if (!workload_.empty()) {
    serving.duration = std::max(Nanos(0), recorder_.last_end() - workload_.front().at);
  }
  serving.unfinished = recorder_.live() + static_cast<std::int64_t>(workload_.size() - arrived_);
  report.fleet = core_.counters();
  report.steps_passed = slices_.steps_passed();
  report.placement = fleet::name_of(options_.placement);
  report.slices = slices();
  report.switches = recorder_.switches();
  report.requests = recorder_.take_served();
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

Status check_parts(const FleetSimulationOptions& options) {
  const GpuPartsOptions& parts = *options.gpu_parts;
  const slice::SliceGpu& gpu = parts.gpu;
  if (options.slices != 1 || options.machines != 1 || options.models_max != 0 ||
      !options.fleet.moves) {
    return invalid_argument("a GPU in parts is one machine, on which models move");
  }
  if (parts.parts < 1 || parts.parts > slice::kPartsMax || gpu.unit < 1 ||
      gpu.units < slice::kPartsMax || gpu.units * gpu.unit > gpu.processors) {
    return invalid_argument(
        fmt::format("a GPU is divided into 1 to {} parts of whole units", slice::kPartsMax));
  }
  return {};
}

Status check_fleet(const FleetSimulationOptions& options) {
  if (options.slices < 1 || options.slices > kSlicesMax) {
    return invalid_argument(
        fmt::format("a machine has from 1 to {} slices, not {}", kSlicesMax, options.slices));
  }
  if (options.machines < 1 || options.machines > kSlicesInAllMax / options.slices) {
    return invalid_argument(
        fmt::format("a fleet has at least one machine and at most {} slices", kSlicesInAllMax));
  }
  if (options.slice.kv_memory >= options.slice.profile.memory) {
    return invalid_argument("KV leaves a slice no memory for weights");
  }
  if (options.gpu_parts) CAUSEWAY_TRY(check_parts(options));
  if (options.models_max < 0 || options.host_memory < Bytes(0) || options.attach < Nanos(0) ||
      !(options.disk_bytes_per_second >= 0)) {
    return invalid_argument("places, host memory, disk rate and times of a fleet are 0 or more");
  }
  return {};
}

}  // namespace

HardwareProfile slice_of(const HardwareProfile& machine, std::int64_t parts) {
  HardwareProfile slice = machine;
  const auto share = static_cast<double>(parts);
  slice.name = fmt::format("{}/{}", machine.name, parts);
  slice.flops_per_second /= share;
  slice.prompt_attention_flops_per_second /= share;
  slice.memory_bytes_per_second /= share;
  slice.attention_bytes_per_second /= share;
  slice.memory = machine.memory / parts;
  slice.kv_in_bytes_per_second /= share;
  slice.kv_out_bytes_per_second /= share;
  return slice;
}

Result<FleetSimulationReport> run_fleet(const FleetSimulationOptions& options,
                                        const Workload& workload) {
  CAUSEWAY_TRY(check_slice(options.slice));
  CAUSEWAY_TRY(check_workload(workload, options.slice.models.size()));
  CAUSEWAY_TRY(check_fleet(options));
  return FleetSimulation(options, workload).run();
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
                   {"link_demand", report.demand},
                   {"link_busy", report.link_busy}};
  return json.dump(2) + "\n";
}

}  // namespace causeway::simulate
