#include "worker/hosted_slices.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "schedule/rotation_policy.h"

namespace causeway::worker {
namespace {

constexpr std::size_t kTasksMax = 1024;  // that wait: more make no sense

std::optional<Error> error_of(const Status& status) {
  return status.ok() ? std::nullopt : std::optional(status.error());
}

// What EngineSlice wants to know of a catalogue's entry.
fleet::CatalogueEntry entry_of(const Attach& wanted) {
  fleet::CatalogueEntry entry;
  entry.id = wanted.model;
  entry.name = wanted.name;
  entry.max_model_len = wanted.max_model_len;
  entry.max_resident = wanted.max_resident;
  entry.alpha = wanted.alpha;
  entry.slo.tpot = wanted.tpot;
  return entry;
}

// What cannot be sent ends the connection; its reader learns of it.
void send_or_end(Channel& channel, const Message& message) {
  const Status sent = channel.send(encode(message));
  if (!sent.ok() && sent.error().code == ErrorCode::kResourceExhausted) {
    spdlog::error("worker: {}; it ends", sent.error().message);
    std::_Exit(1);  // a token is lost: no request may go on without it
  }
}

}  // namespace

void HostedSlices::Sink::on_outputs(std::vector<request::Output> outputs) {
  send_or_end(channel_, Outputs{slice_, std::move(outputs)});
}

void HostedSlices::Watch::queued(RequestId request) {
  send_or_end(channel_, Queued{slice_, request});
}

// Sequences that decode are the same in step after step.
void HostedSlices::Watch::steps(std::span<const RequestId> requests) {
  if (std::equal(requests.begin(), requests.end(), told_.begin(), told_.end())) return;
  told_.assign(requests.begin(), requests.end());
  send_or_end(channel_, Stepping{slice_, told_});
}

HostedSlices::HostedSlices(Channel& channel, const WorkerServerOptions& options, const Clock& clock)
    : channel_(channel), options_(options), clock_(clock), home_(clock, Bytes(0)) {}

HostedSlices::~HostedSlices() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (tasks_thread_.joinable()) tasks_thread_.join();
  compiler_.reset();  // it submits to the slices
  for (One& one : slices_) one.slice.reset();
}

Status HostedSlices::prepare(const WorkerPlan& plan, SliceOpener& opener, int witness) {
  CAUSEWAY_ASSIGN(machine_, opener.open_machine(plan, home_, clock_));
  return channel_.send(encode(Prepared{}), witness);
}

Status HostedSlices::open(WorkerPlan plan, SliceOpener& opener) {
  Opened opened;
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    One one;
    one.sink = std::make_unique<Sink>(channel_, static_cast<std::int32_t>(i));
    one.watch = std::make_unique<Watch>(channel_, static_cast<std::int32_t>(i));
    plan.slices[i].engine.core.watch = one.watch.get();
    auto slice = opener.open_slice(plan, i, *machine_, *one.sink);
    if (!slice.ok()) return slice.error().with_context("slice " + std::to_string(i));
    one.slice = std::move(slice).value();
    one.engine = std::make_unique<fleet::EngineSlice>(home_, *one.slice);
    opened.slices.push_back({one.slice->frames(), one.slice->weight_room(), one.slice->limits()});
    slices_.push_back(std::move(one));
  }
  if (plan.leases()) lease_.emplace(plan.link_least, clock_.now());
  compiler_ = std::make_unique<grammar::Compiler>(grammar::CompilerOptions(), clock_);
  try {
    tasks_thread_ = std::thread([this] { run_tasks(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("cannot start a thread: ") + error.what());
  }
  return channel_.send(encode(opened));
}

bool HostedSlices::busy() const {
  return std::any_of(slices_.begin(), slices_.end(),
                     [](const One& one) { return one.engine->observe().requests() > 0; });
}

Status HostedSlices::serve() {
  while (true) {
    CAUSEWAY_TRY(keep_lease());
    Nanos next = observed_ + (busy() ? options_.observe_every : options_.alive_every);
    if (lease_) next = std::min(next, lease_->next(clock_.now()));
    CAUSEWAY_ASSIGN(auto received, channel_.receive(next - clock_.now()));
    if (received) {
      CAUSEWAY_ASSIGN(Message message, decode(received->message));
      CAUSEWAY_TRY(handle(std::move(message), std::move(received->descriptor)));
    }
    if (clock_.now() >= observed_ + options_.observe_every) CAUSEWAY_TRY(observe());
    CAUSEWAY_TRY(end_late());
    const std::scoped_lock lock(mutex_);
    CAUSEWAY_TRY(broken_);
  }
}

Status HostedSlices::handle(Message message, weights::FileDescriptor descriptor) {
  if (auto* submit = std::get_if<Submit>(&message)) return this->submit(std::move(*submit));
  if (const auto* cancel = std::get_if<Cancel>(&message)) return this->cancel(*cancel);
  if (const auto* lease = std::get_if<transfer::LinkLease>(&message)) {
    return lease_ ? lease_->take(*lease, clock_.now())
                  : corrupt("the supervisor leases a link that is not shared");
  }
  if (auto* attach = std::get_if<Attach>(&message)) {
    return do_later({std::move(*attach), std::move(descriptor)});
  }
  if (auto* detach = std::get_if<Detach>(&message))
    return do_later({*detach, weights::FileDescriptor()});
  if (std::holds_alternative<Hello>(message) || std::holds_alternative<Prepare>(message) ||
      std::holds_alternative<Open>(message)) {
    return corrupt("a second supervisor speaks on the socket: a worker serves one");
  }
  return corrupt("the supervisor sends what only a worker says");
}

// A share that has shrunk is divided before it is said that it is.
Status HostedSlices::keep_lease() {
  if (!lease_) return {};
  const Nanos now = clock_.now();
  const auto ask = lease_->ask(machine_->wanted(), now);
  machine_->lease(lease_->rates(now));
  return ask ? channel_.send(encode(*ask)) : Status();
}

Result<HostedSlices::One*> HostedSlices::at(std::int32_t slice) {
  const auto i = static_cast<std::size_t>(slice);
  if (slice < 0 || i >= slices_.size()) {
    return corrupt("the supervisor means slice " + std::to_string(slice) + " of " +
                   std::to_string(slices_.size()));
  }
  return &slices_[i];
}

Status HostedSlices::submit(Submit submit) {
  if (submit.formed) return submit_formed(std::move(submit));
  CAUSEWAY_ASSIGN(One* const one, at(submit.slice));
  const RequestId id = submit.request.id;
  const std::int32_t attempt = submit.request.attempt;
  const Status taken = one->engine->submit(std::move(submit.request));
  if (taken.ok()) return {};
  return refuse(submit.slice, id, attempt, taken.error());
}

Status HostedSlices::refuse(std::int32_t slice, RequestId request, std::int32_t attempt,
                            const Error& why) {
  CAUSEWAY_ASSIGN(const One* const one, at(slice));
  request::Output refusal;
  refusal.request = request;
  refusal.attempt = attempt;
  refusal.finished = true;
  refusal.reason = request::FinishReason::kError;
  refusal.error = why.message;
  refusal.code = why.code;
  const request::Observation seen = one->engine->observe();
  refusal.lost = seen.hung || !seen.lost.empty();
  return channel_.send(encode(Outputs{slice, {std::move(refusal)}}));
}

Status HostedSlices::observe() {
  observed_ = clock_.now();
  bool told = false;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    CAUSEWAY_TRY(observe(static_cast<std::int32_t>(i), slices_[i], told));
  }
  if (told) alive_ = observed_;
  if (observed_ < alive_ + options_.alive_every) return {};
  alive_ = observed_;
  return channel_.send(encode(Alive{}));
}

// Only what has changed: of a large catalogue nearly all stays as it is.
Status HostedSlices::observe(std::int32_t number, One& one, bool& told) {
  Observed observed{.slice = number, .all = one.engine->observe(), .models = {}};
  observed.all.link_bytes = one.engine->link_bytes();
  observed.link_busy = one.engine->link_busy();
  const auto changes = [](std::vector<std::byte>& before, const request::Observation& now) {
    std::vector<std::byte> bytes = encode(Observed{.slice = 0, .all = now, .models = {}});
    if (bytes == before) return false;
    before = std::move(bytes);
    return true;
  };
  for (auto& [model, seen] : one.engine->observe_models()) {
    if (changes(one.models_told[model], seen)) observed.models.emplace_back(model, seen);
  }
  if (!changes(one.told, observed.all) && observed.models.empty()) return {};
  told = true;
  return channel_.send(encode(observed));
}

Status HostedSlices::do_later(Task task) {
  const std::scoped_lock lock(mutex_);
  if (tasks_.size() >= kTasksMax) return corrupt("the supervisor asks for too much at once");
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  return {};
}

void HostedSlices::run_tasks() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (ends_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (auto* const submit = std::get_if<Submit>(&task.what)) {
      compile(std::move(*submit));
      lock.lock();
      continue;
    }
    Message answer;
    if (const auto* attach = std::get_if<Attach>(&task.what)) {
      answer = this->attach(*attach, task.region);
    } else {
      const Detach& detach = std::get<Detach>(task.what);
      answer = Detached{detach.call, error_of(this->detach(detach))};
    }
    const Status sent = channel_.send(encode(answer));
    lock.lock();
    if (!sent.ok()) broken_ = sent;
    if (!sent.ok()) channel_.wake();
  }
}

Attached HostedSlices::attach(const Attach& wanted, const weights::FileDescriptor& region) {
  const auto attached = attach_model(wanted, region);
  if (attached.ok()) return {wanted.call, {}, attached->streamed, attached->predicted_tpot};
  return {wanted.call, attached.error(), {}, {}};
}

Result<fleet::AttachedModel> HostedSlices::attach_model(const Attach& wanted,
                                                        const weights::FileDescriptor& region) {
  CAUSEWAY_ASSIGN(One* const one, at(wanted.slice));
  CAUSEWAY_TRY(check(wanted, *one));
  if (!users_.contains(wanted.model)) CAUSEWAY_TRY(adopt(wanted, region));
  forms_.try_emplace(wanted.model,
                     Forms{wanted.directory, wanted.eos, wanted.tool_calls, nullptr, 0});
  std::set<std::int32_t>& users = users_[wanted.model];
  const auto attached =
      one->engine->attach(entry_of(wanted), {wanted.name, wanted.directory}, wanted.pinned);
  if (attached.ok()) {
    users.insert(wanted.slice);
    one->alphas[wanted.model] = wanted.alpha;
  }
  if (users.empty()) release(wanted.model);
  return attached;
}

// What an engine takes for granted.
Status HostedSlices::check(const Attach& wanted, const One& one) {
  if (!wanted.model.valid() || wanted.max_model_len < Tokens(1) || wanted.max_resident < Bytes(0)) {
    return invalid_argument("a model needs an id and a context");
  }
  if (one.alphas.contains(wanted.model)) return invalid_argument("the model is attached already");
  std::vector<double> alphas = {wanted.alpha};
  for (const auto& [model, alpha] : one.alphas) alphas.push_back(alpha);
  return schedule::check_alphas(alphas);
}

// The model's memory becomes this process's, too, and reachable for its copies, before its first
// use.
Status HostedSlices::adopt(const Attach& wanted, const weights::FileDescriptor& region) {
  slice::Slice& slice = *slices_.front().slice;
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(wanted.directory));
  CAUSEWAY_ASSIGN(const model::ModelCard card, slice.card(std::move(config)));
  if (card.layout.bytes != wanted.bytes) {
    return invalid_argument("its config.json changed since it was loaded: try again");
  }
  const auto access = machine_->cuda() != nullptr ? machine_->cuda()->registered_access()
                                                  : device::HostAccess::kRead;
  CAUSEWAY_ASSIGN(const RegionId here, home_.memory.adopt(region.get(), wanted.bytes, access));
  return home_.pool.adopt(
      wanted.model, card.layout, here,
      {.home_taken = [&](device::HostAddress address,
                         Bytes bytes) { return slice.reach(address, bytes, {}); },
       .home_leaves = [&](device::HostAddress address,
                          Bytes bytes) { slice.unreach(address, bytes); }});
}

Status HostedSlices::detach(const Detach& wanted) {
  CAUSEWAY_ASSIGN(One* const one, at(wanted.slice));
  const auto users = users_.find(wanted.model);
  if (users == users_.end() || !users->second.contains(wanted.slice)) {
    return not_found("the model is not attached");
  }
  const Nanos timeout = std::clamp(wanted.timeout, Nanos(0), seconds(3600));
  CAUSEWAY_TRY(one->engine->detach(wanted.model, timeout));
  users->second.erase(wanted.slice);
  one->alphas.erase(wanted.model);
  if (users->second.empty()) release(wanted.model);
  return {};
}

void HostedSlices::release(ModelId model) {
  users_.erase(model);
  forms_.erase(model);
  const Status gone = home_.pool.unload(model, [&](device::HostAddress address, Bytes bytes) {
    slices_.front().slice->unreach(address, bytes);
  });
  if (!gone.ok()) spdlog::error("worker: cannot let go of a model: {}", gone.error().message);
}

}  // namespace causeway::worker
