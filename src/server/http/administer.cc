#include "server/http/administer.h"

#include <utility>

#include "server/api/admin_body.h"
#include "server/http/admin_listings.h"
#include "server/http/respond.h"
#include "server/http/stream.h"

namespace causeway::server {
namespace {

constexpr Nanos kIdlePoll = millis(50);

fleet::AskKind kind_of(Route route) {
  switch (route) {
    case Route::kAdminUnload:
    case Route::kRouterUnload: return fleet::AskKind::kUnload;
    case Route::kAdminPin: return fleet::AskKind::kPin;
    case Route::kAdminUnpin: return fleet::AskKind::kUnpin;
    case Route::kSleep: return fleet::AskKind::kSleep;
    case Route::kAdminReload: return fleet::AskKind::kReload;
    case Route::kWakeUp: return fleet::AskKind::kWake;
    default: return fleet::AskKind::kLoad;
  }
}

bool is_router(Route route) { return route == Route::kRouterLoad || route == Route::kRouterUnload; }

// The answer when the fleet refuses at once: what it calls an invalid argument contradicts the
// state of its models, which is a 409.
ApiError refused(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? conflict(error.message) : from_error(error);
}

class AdminCall {
 public:
  AdminCall(Connection& connection, const Incoming& incoming)
      : connection_(connection),
        context_(connection.context()),
        incoming_(incoming),
        route_(incoming_.routed.route),
        stream_(connection, /*queued_tokens_max=*/1) {}
  ~AdminCall() {
    if (waits_) context_.fleet->cancel(stream_.ids().front());
  }

  asio::awaitable<bool> run(std::string body) {
    connection_.watch();
    auto work = [this, &body] { failure_ = read(body); };
    co_await offload(*context_.pool, connection_.worker(), work);
    if (failure_) {
      // Nothing is done.
    } else if (route_ == Route::kAdminDrain) {
      co_await drain();
    } else if (pauses_ != Pause::Kind::kNone) {
      co_await fall_asleep();
    } else {
      co_await carry_out();
    }
    const std::string answered = failure_ ? std::string() : answer();
    const int status = wait_ || is_router(route_) ? 200 : 202;
    bool more = co_await respond_either(connection_, incoming_, failure_, answered, status);
    more = more && !connection_.peer_gone();
    co_await connection_.unwatch();
    co_return more;
  }

 private:
  // On a preparing thread.
  MaybeError read(const std::string& body) {
    ask_.kind = kind_of(route_);
    const std::string& query = incoming_.routed.query;
    if (route_ == Route::kAdminDrain || route_ == Route::kAdminReload) return std::nullopt;
    if (route_ == Route::kSleep) return read_sleep(query);
    if (route_ == Route::kWakeUp) return parse_wake_query(query);
    AdminBody asked;
    const bool may_wait = route_ == Route::kAdminLoad || route_ == Route::kAdminUnload;
    const ApiLimits& limits = context_.options.limits.api;
    if (auto error = parse_admin_body(body, limits, may_wait, asked)) return error;
    model_ = context_.fleet->find(asked.model);
    if (model_ == nullptr) return model_not_found(asked.model);
    ask_.model = model_->id;
    wait_ = asked.wait && !is_router(route_);
    return std::nullopt;
  }

  MaybeError read_sleep(const std::string& query) {
    SleepQuery asked;
    if (auto error = parse_sleep_query(query, asked)) return error;
    ask_.keeps_home = asked.level == 1;
    // Requests that have left the fleet to go on later are waited for there.
    ask_.mode = asked.keeps ? fleet::SleepMode::kWait : asked.mode;
    stays_ = asked.level == 0;
    if (!stays_ && !asked.keeps) return std::nullopt;
    pauses_ = asked.mode == fleet::SleepMode::kWait    ? Pause::Kind::kNew
              : asked.mode == fleet::SleepMode::kAbort ? Pause::Kind::kEnding
                                                       : Pause::Kind::kAll;
    return std::nullopt;
  }

  asio::awaitable<void> fall_asleep() {
    const Pause::Kind before = context_.pause.begin(pauses_);
    while (!context_.pause.is_idle()) {
      if (connection_.aborted() || context_.draining) failure_ = draining();
      if (connection_.peer_gone()) failure_ = client_closed();
      if (context_.pause.kind() != pauses_) failure_ = conflict("it was woken, or asked otherwise");
      if (failure_) break;
      connection_.wake_at(connection_.now() + kIdlePoll);
      co_await connection_.news().wait();
    }
    if (!failure_ && pauses_ == Pause::Kind::kEnding) context_.pause.begin(Pause::Kind::kNew);
    if (!failure_ && !stays_) co_await carry_out();
    // What was not paused before goes on, unless others have changed it.
    const bool ours = context_.pause.kind() == pauses_ && before == Pause::Kind::kNone;
    if (failure_ && ours) context_.pause.end();
  }

  asio::awaitable<void> carry_out() {
    if (ask_.kind == fleet::AskKind::kWake) context_.pause.end();
    const bool brings = ask_.kind == fleet::AskKind::kLoad || ask_.kind == fleet::AskKind::kWake ||
                        ask_.kind == fleet::AskKind::kReload;
    if (brings && context_.draining) {
      failure_ = draining();
      co_return;
    }
    ask_.id = stream_.add();
    const Status taken = context_.fleet->ask(ask_);
    if (!taken.ok()) failure_ = refused(taken.error());
    waits_ = taken.ok() && wait_;
    while (waits_) {
      for (const StreamItem& item : stream_.take()) absorb(item.output);
      if (!waits_) break;
      if (connection_.aborted()) failure_ = draining();
      if (connection_.peer_gone()) failure_ = client_closed();
      if (failure_) break;
      co_await connection_.news().wait();
    }
  }

  void absorb(const request::Output& output) {
    if (!output.finished) return;
    waits_ = false;
    if (output.reason == request::FinishReason::kStop) return;
    failure_ = from_error({output.code, output.error});
  }

  // Refuses generations from now on, and waits until those that run have ended.
  asio::awaitable<void> drain() {
    context_.draining = true;
    while (!is_idle()) {
      if (connection_.aborted()) failure_ = draining();
      if (connection_.peer_gone()) failure_ = client_closed();
      if (failure_) break;
      connection_.wake_at(connection_.now() + kIdlePoll);
      co_await connection_.news().wait();
    }
  }

  bool is_idle() {
    const std::lock_guard lock(context_.mutex);
    return context_.generations == 0;
  }

  std::string answer() const {
    if (route_ == Route::kAdminDrain) return R"({"drained":true})";
    if (route_ == Route::kAdminReload) return reload_body(context_.fleet->last_reload());
    if (is_router(route_)) return R"({"success":true})";
    if (model_ != nullptr) return admin_model_body(*context_.fleet, *model_);
    return sleep_body(*context_.fleet, is_asleep(context_));
  }

  Connection& connection_;
  ServerContext& context_;
  const Incoming& incoming_;
  const Route route_;
  Stream stream_;
  fleet::Ask ask_;
  Pause::Kind pauses_ = Pause::Kind::kNone;  // of /sleep
  bool stays_ = false;                       // … models stay where they are
  const fleet::CatalogueEntry* model_ = nullptr;
  bool wait_ = true;    // for the end, before it is answered
  bool waits_ = false;  // for it, now
  MaybeError failure_;
};

}  // namespace

asio::awaitable<bool> administer(Connection& connection, const Incoming& incoming,
                                 std::string body) {
  AdminCall call(connection, incoming);
  const bool more = co_await call.run(std::move(body));
  co_return more;
}

}  // namespace causeway::server
