#include "server/http/health.h"

#include <utility>

#include "server/api/json_write.h"
#include "server/http/respond.h"
#include "server/http/stream.h"

namespace causeway::server {
namespace {

constexpr Nanos kTurnPoll = millis(50);

ApiError unwell(std::string message, std::string code) {
  ApiError error = draining();
  error.message = std::move(message);
  error.code = std::move(code);
  return error;
}

// The model whose check disturbs least: the one that runs now, else one whose weights are on the
// device, else one that is on a slice. nullptr: none is on a slice.
const fleet::CatalogueEntry* find_loaded(const fleet::Fleet& fleet) {
  const fleet::CatalogueEntry* found = nullptr;
  bool cached = false;
  for (const fleet::CatalogueEntry* model : fleet.catalogue()) {
    const fleet::ModelStatus status = fleet.status(model->id);
    if (status.state == fleet::ModelState::kActive) return model;
    if (status.state != fleet::ModelState::kReady || !status.attached) continue;
    const bool is_cached = status.device_bytes > Bytes(0);
    if (found == nullptr || (is_cached && !cached)) found = model;
    cached = cached || is_cached;
  }
  return found;
}

request::Request one_token(const fleet::CatalogueEntry& model, RequestId id, Nanos now) {
  request::Request request;
  request.id = id;
  request.model = model.id;
  request.prompt = {0};
  request.sampling.temperature = 0;
  request.max_tokens = Tokens(1);
  request.slo = model.slo;
  request.arrival = now;
  return request;
}

class DeepHealth {
 public:
  explicit DeepHealth(Connection& connection)
      : connection_(connection),
        context_(connection.context()),
        deadline_(connection.now() + context_.options.limits.deep_health_time_max),
        stream_(connection, /*queued_tokens_max=*/16) {}
  ~DeepHealth() {
    if (open_) context_.fleet->cancel(stream_.ids().front());
    if (has_turn_) context_.probing = false;
  }

  // The answer's body, or what is wrong.
  asio::awaitable<MaybeError> run(std::string& out) {
    while (!has_turn_ && !failure_) {
      has_turn_ = !context_.probing.exchange(true);
      if (has_turn_) break;
      look("another check has not ended");
      connection_.wake_at(connection_.now() + kTurnPoll);
      if (!failure_) co_await connection_.news().wait();
    }
    if (!failure_) failure_ = what_ails(context_);
    if (failure_) co_return failure_;
    const fleet::CatalogueEntry* const model = find_loaded(*context_.fleet);
    if (model == nullptr) {
      out = R"({"status":"ok","model":null})";
      co_return std::nullopt;
    }
    co_await generate(*model);
    if (failure_) co_return failure_;
    append_answer(*model, out);
    co_return std::nullopt;
  }

 private:
  asio::awaitable<void> generate(const fleet::CatalogueEntry& model) {
    began_ = connection_.now();
    const RequestId id = stream_.add();
    const Status taken = context_.fleet->probe(one_token(model, id, began_));
    open_ = taken.ok();
    if (!open_) failure_ = unwell(taken.error().message, "probe_refused");
    const std::string late = "the model `" + model.name + "` has not generated a token";
    while (!generated_ && !failure_) {
      for (const StreamItem& item : stream_.take()) absorb(item.output);
      if (generated_ || failure_) break;
      look(late);
      if (failure_) break;
      connection_.wake_at(deadline_);
      co_await connection_.news().wait();
    }
  }

  void absorb(const request::Output& output) {
    generated_ = generated_ || !output.tokens.empty();
    if (!output.finished) return;
    open_ = false;
    if (!generated_) {
      failure_ =
          unwell(output.error.empty() ? "the check was cancelled" : output.error, "probe_failed");
    }
  }

  // Whether the client, the server or the time wants this to end.
  void look(const std::string& what) {
    if (connection_.aborted()) {
      failure_ = draining();
    } else if (connection_.peer_gone()) {
      failure_ = client_closed();
    } else if (connection_.now() >= deadline_) {
      const auto limit = context_.options.limits.deep_health_time_max / millis(1);
      failure_ = unwell(what + " within " + std::to_string(limit) + " ms", "probe_timeout");
    }
  }

  void append_answer(const fleet::CatalogueEntry& model, std::string& out) const {
    out = R"({"status":"ok","model":)";
    append_json_string(out, model.name);
    out += ",\"took_us\":";
    append_json_integer(out, (connection_.now() - began_) / micros(1));
    out += '}';
  }

  Connection& connection_;
  ServerContext& context_;
  const Nanos deadline_;
  Stream stream_;
  Nanos began_;
  bool has_turn_ = false;
  bool open_ = false;
  bool generated_ = false;
  MaybeError failure_;
};

}  // namespace

MaybeError what_ails(const ServerContext& context) {
  if (context.draining) return draining();
  request::Observation seen = context.fleet->observe();
  if (!seen.lost.empty()) return device_lost(std::move(seen.lost));
  if (seen.hung) return device_hung();
  return std::nullopt;
}

asio::awaitable<bool> answer_deep_health(Connection& connection, const Incoming& incoming) {
  std::string body;
  MaybeError error;
  connection.watch();
  {
    DeepHealth check(connection);
    error = co_await check.run(body);
  }
  bool more = co_await respond_either(connection, incoming, error, body);
  more = more && !connection.peer_gone();
  co_await connection.unwatch();
  co_return more;
}

}  // namespace causeway::server
