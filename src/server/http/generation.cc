#include "server/http/generation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include "server/api/admin_body.h"
#include "server/api/answer_writer.h"
#include "server/api/embeddings.h"
#include "server/api/prepare.h"
#include "server/api/response_writer.h"
#include "server/api/stored_response.h"
#include "server/http/answer_head.h"
#include "server/http/choice_run.h"
#include "server/http/form.h"
#include "server/http/generation_trace.h"
#include "server/http/stream.h"

namespace causeway::server {
namespace {

Endpoint endpoint_of(Route route) {
  if (route == Route::kEmbeddings) return Endpoint::kEmbeddings;
  if (route == Route::kResponses) return Endpoint::kResponses;
  return route == Route::kCompletions ? Endpoint::kCompletions : Endpoint::kChat;
}

ApiError may_not_keep() {
  ApiError error = unauthorised();
  error.message =
      "`keep_alive` changes what is loaded: send a key for administration as header x-admin-key; "
      "where there is none, pages of other sites may not send it";
  error.param = "keep_alive";
  return error;
}

// How many inputs of one /v1/embeddings request run at once, so that one with thousands of them
// does not fill the queue.
constexpr std::size_t kEmbeddedAtOnce = 16;

// One request's state while it is served. There are thousands at a time, so what only few of them
// need is behind a pointer.
class Generation {
 public:
  Generation(Connection& connection, const Incoming& incoming, Nanos arrival)
      : connection_(connection),
        context_(connection.context()),
        incoming_(incoming),
        arrival_(arrival),
        counted_(context_, &ServerContext::generations),
        stream_(connection, context_.options.limits.queued_tokens_max),
        form_(connection),
        trace_(context_, incoming_, arrival) {}
  ~Generation() {
    cancel_rest();
    if (kept_) context_.kept.end(prepared_.model->id, answer_.keep_alive, connection_.now());
  }

  asio::awaitable<bool> run(Body& body);

 private:
  // An answer of /v1/responses that is to be kept.
  struct KeptResponse {
    std::string id;
    std::string conversation;  // that it answers
  };

  // On a preparing thread.
  void prepare_now(const std::string& body);
  // For /v1/responses: what was said before comes into the chat, and the chat is kept for later.
  MaybeError join_previous(GenerationRequest& asked);
  void keep_response();
  void begin_writer(const GenerationRequest& asked, const std::string& id);
  void begin_runs(const GenerationRequest& asked);
  // Submits further choices, as many as may be open at a time.
  void submit();
  // Submits what was held again, each behind its output.
  void submit_held();
  // Whether requests may be submitted now. True: this generation counts as one in the fleet.
  bool enter_fleet();
  // Unless requests of it are there.
  void leave_fleet();
  // Takes the requests out of the fleet, or ends them, when the server pauses them.
  void follow_pause();
  void end_run(std::size_t run);
  // What the fleet says of a request that it does not take.
  ApiError refusal_of(const Error& error) const;
  void cancel_rest();
  void absorb();
  bool done() const { return failure_ || (open_runs_ == 0 && submitted_ == runs_.size()); }
  // Counts the prompts in the metrics, once all their choices have ended.
  void count_prompts() const;
  Usage usage() const;
  // Whether the answer parts reasoning from content: a chat of a model that thinks.
  bool parts_reasoning() const {
    const bool chats =
        answer_.endpoint == Endpoint::kChat || answer_.endpoint == Endpoint::kResponses;
    return chats && prepared_.model != nullptr &&
           prepared_.model->reasoning != text::ReasoningFormat::kNone;
  }
  // Keeps of an embedding that has come the dimensions that were asked for, scaled to length 1.
  void take_embedding(std::size_t run, std::vector<float>& embedding);
  void append_body(std::string& out);

  asio::awaitable<bool> answer_failure();
  asio::awaitable<bool> answer_whole();
  asio::awaitable<bool> answer_events();
  asio::awaitable<bool> write_events(std::string events, bool last);
  void append_news(std::string& out);
  void append_end(std::string& out);

  AnswerHead head() const;

  Connection& connection_;
  ServerContext& context_;
  const Incoming& incoming_;
  Nanos arrival_;
  Counted counted_;
  Stream stream_;
  Form form_;
  GenerationTrace trace_;
  bool kept_ = false;     // KeptModels knows of it
  bool autoload_ = true;  // a model that is not loaded is loaded for it
  AnswerOptions answer_;
  Prepared prepared_;
  MaybeError failure_;
  std::vector<ChoiceRun> runs_;
  std::size_t open_runs_ = 0;
  std::size_t submitted_ = 0;
  bool in_fleet_ = false;                       // Pause counts it
  std::vector<std::vector<float>> embeddings_;  // Endpoint::kEmbeddings: by run
  std::vector<std::int64_t> cached_tokens_;     // of each prompt: the most that a choice found
  std::optional<AnswerWriter> writer_;
  std::unique_ptr<ResponseWriter> response_;  // instead of it: Endpoint::kResponses
  std::unique_ptr<KeptResponse> to_keep_;     // null: it is not to be kept
  bool begun_ = false;                        // the head of the events has been written
  Nanos next_keep_alive_;
};

asio::awaitable<bool> Generation::run(Body& body) {
  connection_.watch();
  auto work = [this, &body] { prepare_now(body.text); };
  co_await offload(context_.pool_for(body.text.size()), connection_.worker(), work);
  body.drop();
  if (!failure_ && prepared_.constraint) {
    MaybeError refused = co_await form_.wait();
    failure_ = std::move(refused);
    for (request::Request& request : prepared_.requests) request.constraint = form_.constraint();
  }
  if (!failure_ && connection_.peer_gone()) failure_ = client_closed();
  if (!failure_) submit();
  bool more = false;
  if (failure_) {
    more = co_await answer_failure();
  } else if (answer_.stream) {
    more = co_await answer_events();
  } else {
    more = co_await answer_whole();
  }
  if (!failure_ && open_runs_ > 0) failure_ = client_closed();
  if (!failure_) count_prompts();
  cancel_rest();
  trace_.end(runs_, usage(), failure_, begun_);
  more = more && !connection_.peer_gone();
  co_await connection_.unwatch();
  co_return more;
}

void Generation::prepare_now(const std::string& body) {
  failure_ = parse_autoload_query(incoming_.routed.query, autoload_);
  if (failure_) return;
  GenerationRequest asked;
  failure_ = parse_generation(endpoint_of(incoming_.routed.route), body,
                              context_.options.limits.api, asked);
  if (failure_) return;
  answer_ = asked;  // that part outlives this function
  if (asked.keep_alive && !incoming_.may_keep) {
    failure_ = may_not_keep();
    return;
  }
  const fleet::CatalogueEntry* model = context_.fleet->find(asked.model);
  if (model == nullptr) {
    failure_ = model_not_found(asked.model);
    return;
  }
  const PrepareContext context{context_.draw(),
                               unix_seconds(),
                               incoming_.slo,
                               context_.options.limits.api.echo_bytes_max,
                               context_.options.limits.api.prompt_logprobs_max,
                               context_.options.limits.api.embedded_numbers_max};
  if (asked.endpoint == Endpoint::kResponses) failure_ = join_previous(asked);
  if (failure_) return;
  failure_ = prepare(asked, *model, context, prepared_);
  if (!failure_) begin_runs(asked);
  if (!failure_ && prepared_.constraint) {
    form_.compile(*model, *std::move(prepared_.constraint), asked.constraint_field);
  }
}

MaybeError Generation::join_previous(GenerationRequest& asked) {
  if (!asked.previous_response.empty()) {
    const auto before = context_.responses.find(asked.previous_response, context_.clock.now());
    if (!before) return previous_not_found(asked.previous_response);
    if (auto error = go_on_from(*before, context_.options.limits.api, *asked.chat)) return error;
  }
  if (asked.store) {
    to_keep_ = std::make_unique<KeptResponse>();
    to_keep_->conversation = conversation_of(*asked.chat);
  }
  return {};
}

// Called before the client is sent the end: its next request may name this answer at once.
void Generation::keep_response() {
  if (!to_keep_) return;
  context_.responses.put(to_keep_->id, {std::move(to_keep_->conversation), response_->take_whole()},
                         connection_.now());
}

void Generation::begin_writer(const GenerationRequest& asked, const std::string& id) {
  if (asked.endpoint == Endpoint::kResponses) {
    ResponseWriter::Head head(asked, prepared_.requests.front().sampling);
    head.id = id;
    head.created_unix_seconds = unix_seconds();
    head.model = prepared_.model->name;
    head.call_ids = context_.draw_id();
    head.tool_calls = prepared_.model->tool_calls;
    response_ = std::make_unique<ResponseWriter>(head, *prepared_.model->tokenizer);
    if (to_keep_) to_keep_->id = "resp_" + id;
    return;
  }
  AnswerWriter::Head head(asked);
  head.id = id;
  head.created_unix_seconds = unix_seconds();
  head.model = prepared_.model->name;
  head.reasoning = head.reasoning && parts_reasoning();
  if (asked.calls_tools) head.call_ids = context_.draw_id();
  head.tool_calls = prepared_.model->tool_calls;
  writer_.emplace(head, *prepared_.model->tokenizer);
}

void Generation::begin_runs(const GenerationRequest& asked) {
  const std::string id = to_keep_ ? context_.responses.make_id() : hex_of(context_.draw_id());
  begin_writer(asked, id);
  trace_.asked(prepared_, id);
  cached_tokens_.resize(prepared_.requests.size() / static_cast<std::size_t>(asked.n));
  runs_.reserve(prepared_.requests.size());
  if (asked.endpoint == Endpoint::kEmbeddings) embeddings_.resize(prepared_.requests.size());
  for (const request::Request& request : prepared_.requests) {
    const std::size_t prompt = runs_.size() / static_cast<std::size_t>(asked.n);
    runs_.emplace_back(prepared_, asked, request, arrival_);
    if (asked.echo) runs_.back().set_echo(prepared_.echoes[prompt]);
  }
}

bool Generation::enter_fleet() {
  if (!std::exchange(in_fleet_, true)) context_.pause.enter();
  const Pause::Kind kind = context_.paused();
  const bool goes_on = kind == Pause::Kind::kNone || (kind == Pause::Kind::kNew && submitted_ > 0);
  if (!goes_on) leave_fleet();
  return goes_on;
}

void Generation::leave_fleet() {
  const bool there = std::any_of(runs_.begin(), runs_.end(), [](const ChoiceRun& run) {
    return run.open && run.place != RunPlace::kHeld;
  });
  if (!there && std::exchange(in_fleet_, false)) context_.pause.leave();
}

void Generation::follow_pause() {
  const Pause::Kind kind = context_.paused();
  if (kind == Pause::Kind::kEnding && in_fleet_) failure_ = cancelled_by_server();
  if (kind != Pause::Kind::kAll) return;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    ChoiceRun& run = runs_[i];
    if (!run.open || !run.again || run.place != RunPlace::kFleet) continue;
    run.place = RunPlace::kLeaving;
    context_.fleet->cancel(stream_.ids()[i]);
  }
}

void Generation::submit_held() {
  const bool held = std::any_of(runs_.begin(), runs_.end(), [](const ChoiceRun& run) {
    return run.open && run.place == RunPlace::kHeld;
  });
  if (!held || !enter_fleet()) return;
  for (std::size_t i = 0; i < runs_.size() && !failure_; ++i) {
    ChoiceRun& run = runs_[i];
    if (!run.open || run.place != RunPlace::kHeld) continue;
    auto request = run.request_again();
    if (!request) {
      run.choice.finish(request::FinishReason::kLength);
      run.close(Ending::kLength, connection_.now(), *context_.metrics);
      end_run(i);
      continue;
    }
    run.place = RunPlace::kFleet;
    request->id = stream_.renew(i);
    const Status status = context_.fleet->submit(*std::move(request));
    if (!status.ok()) failure_ = from_error(status.error());
  }
}

void Generation::submit() {
  const bool all = answer_.endpoint != Endpoint::kEmbeddings;
  const std::size_t most = all ? runs_.size() : kEmbeddedAtOnce;
  if (submitted_ == runs_.size() || open_runs_ >= most || !enter_fleet()) return;
  const bool may_pause = context_.options.admin.has_value();
  for (; submitted_ < runs_.size() && open_runs_ < most; ++submitted_) {
    request::Request& request = prepared_.requests[submitted_];
    request.id = stream_.add();
    request.arrival = arrival_;
    if (may_pause) runs_[submitted_].again = std::make_unique<request::Request>(request);
    const Status status = autoload_ ? context_.fleet->submit(std::move(request))
                                    : context_.fleet->probe(std::move(request));
    if (!status.ok()) {
      failure_ = refusal_of(status.error());
      return;
    }
    const bool begins = context_.options.limits.api.keep_alive && !std::exchange(kept_, true);
    if (begins) context_.kept.begin(prepared_.model->id);
    runs_[submitted_].open = true;
    runs_[submitted_].submitted = connection_.now();
    ++open_runs_;
  }
  if (submitted_ == runs_.size()) std::vector<request::Request>().swap(prepared_.requests);
}

ApiError Generation::refusal_of(const Error& error) const {
  if (autoload_ || error.code != ErrorCode::kUnavailable) return from_error(error);
  const fleet::CatalogueEntry& model = *prepared_.model;
  if (router_value(context_.fleet->status(model.id)) == "loaded") return from_error(error);
  return bad_request("model `" + model.name + "` is not loaded, and autoload=false has it stay so",
                     "model", "model_not_loaded");
}

void Generation::cancel_rest() {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (!runs_[i].open) continue;
    context_.fleet->cancel(stream_.ids()[i]);
    stream_.detach(i);
    runs_[i].close(Ending::kAbort, connection_.now(), *context_.metrics);
  }
  open_runs_ = 0;
  leave_fleet();
}

void Generation::end_run(std::size_t run) {
  --open_runs_;
  runs_[run].again.reset();
  // It may have ended by a stop string, of which the engine knows nothing.
  context_.fleet->cancel(stream_.ids()[run]);
  stream_.detach(run);
}

// Takes what the engine gave, and looks whether the client or the server wants this to end.
void Generation::absorb() {
  for (StreamItem& item : stream_.take()) {
    ChoiceRun& run = runs_[item.choice];
    if (!run.open) continue;
    std::int64_t& cached = cached_tokens_[item.choice / static_cast<std::size_t>(answer_.n)];
    cached = std::max(cached, item.output.cached_prompt.count);
    if (!item.output.embedding.empty()) take_embedding(item.choice, item.output.embedding);
    run.keep_for_later(item.output);
    if (auto error = run.absorb(std::move(item.output), item.at, *context_.metrics)) {
      failure_ = std::move(error);
    }
    if (run.first_token >= Nanos(0)) trace_.began(prepared_.model->id);
    if (!run.open) end_run(item.choice);
  }
  follow_pause();
  leave_fleet();
  if (!failure_) submit();
  if (!failure_) submit_held();
  if (done()) return;
  if (connection_.aborted()) failure_ = draining();
  if (connection_.peer_gone()) failure_ = client_closed();
}

void Generation::take_embedding(std::size_t run, std::vector<float>& embedding) {
  if (answer_.dimensions) embedding.resize(static_cast<std::size_t>(*answer_.dimensions));
  if (!normalise(embedding)) {
    failure_ = internal_error("a hidden state of the model holds what is no number");
    return;
  }
  embeddings_[run] = std::move(embedding);
}

void Generation::count_prompts() const {
  if (answer_.endpoint == Endpoint::kEmbeddings) return;
  const auto choices = static_cast<std::size_t>(answer_.n);
  for (std::size_t first = 0; first < runs_.size(); first += choices) {
    std::int64_t longest = 0;
    for (std::size_t i = first; i < first + choices; ++i) {
      longest = std::max(longest, runs_[i].choice.generated());
    }
    context_.metrics->prompt_finished(*prepared_.model, {.choices = answer_.n,
                                                         .max_tokens = runs_[first].max_tokens,
                                                         .generated_tokens_max = longest});
  }
}

Usage Generation::usage() const {
  Usage usage{prepared_.prompt_tokens, 0, 0};
  for (const std::int64_t cached : cached_tokens_) usage.cached_tokens += cached;
  if (parts_reasoning()) usage.reasoning_tokens = 0;
  for (const ChoiceRun& run : runs_) {
    usage.completion_tokens += run.choice.generated();
    usage.reasoning_tokens += run.choice.reasoning_tokens();
  }
  return usage;
}

AnswerHead Generation::head() const {
  AnswerHead head;
  head.http_1_1 = incoming_.http_1_1;
  head.keep_alive = incoming_.keep_alive && !context_.draining;
  return head;
}

asio::awaitable<bool> Generation::answer_failure() {
  const AnswerHead with = head();
  const std::string answer = error_answer(*failure_, with, false);
  const bool written = co_await connection_.write(answer);
  co_return (written && with.keep_alive);
}

void Generation::append_body(std::string& out) {
  if (answer_.endpoint == Endpoint::kEmbeddings) {
    append_embeddings(out, {.model = prepared_.model->name,
                            .embeddings = embeddings_,
                            .base64 = answer_.base64,
                            .prompt_tokens = prepared_.prompt_tokens});
    return;
  }
  std::vector<ChoiceRun::News> news;
  std::vector<ChoiceText> choices;
  for (ChoiceRun& run : runs_) news.push_back(run.take());
  for (std::size_t i = 0; i < news.size(); ++i) choices.push_back(news[i].as_text(i));
  if (response_) {
    response_->append_answer(out, choices.front(), usage(), unix_seconds());
    return keep_response();
  }
  writer_->append_answer(out, choices, usage());
}

asio::awaitable<bool> Generation::answer_whole() {
  for (absorb(); !done(); absorb()) co_await connection_.news().wait();
  const bool lacking = std::any_of(embeddings_.begin(), embeddings_.end(),
                                   [](const auto& embedding) { return embedding.empty(); });
  if (!failure_ && lacking) failure_ = internal_error("the model gave no hidden state");
  if (failure_) {
    const bool more = co_await answer_failure();
    co_return more;
  }
  std::string body;
  auto write = [this, &body] { append_body(body); };
  // Embeddings may be megabytes of numbers: other connections do not wait for them to be written.
  if (answer_.endpoint == Endpoint::kEmbeddings) {
    co_await offload(*context_.pool, connection_.worker(), write);
  } else {
    write();
  }
  const AnswerHead with = head();
  std::string out;
  append_head(out, with, body.size());
  const std::array<asio::const_buffer, 2> pieces = {asio::buffer(out), asio::buffer(body)};
  if (!co_await connection_.write(pieces)) co_return false;
  co_return with.keep_alive;
}

asio::awaitable<bool> Generation::answer_events() {
  next_keep_alive_ = connection_.now() + context_.options.limits.keep_alive_period;
  bool written = true;
  while (written) {
    connection_.wake_at(next_keep_alive_);
    std::string events;
    absorb();
    if (stream_.overflowed()) co_return false;
    if (failure_ && !begun_) {
      const bool more = co_await answer_failure();
      co_return more;
    }
    const bool last = done();
    append_news(events);
    if (last) append_end(events);
    if (events.empty() && connection_.now() >= next_keep_alive_) events = kEventKeepAlive;
    if (events.empty()) {
      co_await connection_.news().wait();
      continue;
    }
    written = co_await write_events(std::move(events), last);
    if (last) break;
    next_keep_alive_ = connection_.now() + context_.options.limits.keep_alive_period;
  }
  if (!written || !incoming_.http_1_1) co_return false;
  co_return head().keep_alive;
}

void Generation::append_news(std::string& out) {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    ChoiceRun& run = runs_[i];
    if (!run.has_news()) continue;
    if (response_) {
      const ChoiceRun::News news = run.take();
      response_->append_news(out, news.as_text(i));
      continue;
    }
    const std::int64_t cached = cached_tokens_[i / static_cast<std::size_t>(answer_.n)];
    Usage so_far{run.prompt_tokens, 0, cached};
    if (parts_reasoning()) so_far.reasoning_tokens = run.choice.reasoning_tokens();
    const Usage* const told = answer_.continuous_usage ? &so_far : nullptr;
    if (answer_.endpoint == Endpoint::kChat && !std::exchange(run.introduced, true)) {
      writer_->append_role_event(out, i, run.prompt_ids(), told);
    }
    so_far.completion_tokens = run.choice.generated();
    const ChoiceRun::News news = run.take();
    writer_->append_event(out, news.as_text(i), told);
  }
}

void Generation::append_end(std::string& out) {
  if (response_) {
    if (failure_) return response_->append_failure(out, *failure_);
    response_->append_end(out, usage(), unix_seconds());
    return keep_response();
  }
  if (failure_) {
    append_error_event(out, *failure_);
  } else if (answer_.include_usage) {
    writer_->append_usage_event(out, usage());
  }
  out += kEventDone;
}

// In one write: the head before the first events, the events as a chunk, and behind the last events
// the chunk that ends the body.
asio::awaitable<bool> Generation::write_events(std::string events, bool last) {
  std::string front;
  if (!std::exchange(begun_, true)) {
    AnswerHead with = head();
    with.keep_alive = with.keep_alive && incoming_.http_1_1;
    append_event_stream_head(front, with);
  }
  if (incoming_.http_1_1) {
    std::array<char, 20> size;
    const auto end = std::to_chars(size.data(), size.data() + size.size(), events.size(), 16).ptr;
    front.append(size.data(), end);
    front += "\r\n";
    events += last ? "\r\n0\r\n\r\n" : "\r\n";
  }
  const std::array<asio::const_buffer, 2> pieces = {asio::buffer(front), asio::buffer(events)};
  stream_.set_writing(true);
  const bool written = co_await connection_.write(pieces);
  stream_.set_writing(false);
  co_return written;
}

}  // namespace

asio::awaitable<bool> generate(Connection& connection, const Incoming& incoming, Body& body,
                               Nanos arrival) {
  Generation generation(connection, incoming, arrival);
  const bool more = co_await generation.run(body);
  co_return more;
}

}  // namespace causeway::server
