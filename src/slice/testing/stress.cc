#include "slice/testing/stress.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/testing/must.h"

namespace causeway::slice::testing {
namespace {

constexpr Nanos kPatience = seconds(60);
constexpr Nanos kProgress = seconds(10);

}  // namespace

void AnswersSink::on_outputs(std::vector<request::Output> outputs) {
  const std::lock_guard lock(mutex_);
  for (const request::Output& output : outputs) {
    Ended& request = under_way_[output.request];
    request.request = output.request;
    for (const auto& token : output.tokens) request.answer.emplace_back(token.token, token.logprob);
    request.switched |= output.switched && output.switched->missing > Bytes(0);
    if (!output.finished) continue;
    request.reason = output.reason;
    request.error = output.error;
    ended_.push_back(std::move(request));
    under_way_.erase(output.request);
  }
  changed_.notify_all();
}

std::optional<Ended> AnswersSink::take(Nanos timeout) {
  std::unique_lock lock(mutex_);
  const std::chrono::nanoseconds longest(timeout.count);
  if (!changed_.wait_for(lock, longest, [&] { return !ended_.empty(); })) return std::nullopt;
  Ended first = std::move(ended_.front());
  ended_.pop_front();
  return first;
}

Crowd::Crowd(const Catalogue& catalogue, const Parts& parts)
    : catalogue_(catalogue), parts_(parts) {
  for (std::int64_t m = 0; m < catalogue_.models; ++m) add(ModelId(m), false);
}

Crowd::~Crowd() {
  for (std::int64_t m = 0; m < catalogue_.models; ++m) remove(ModelId(m), true);
}

void Crowd::add(ModelId id, bool pinned) {
  Slice& slice = parts_.slice;
  weights::ModelPool& pool = parts_.home.pool;
  const auto card = must(slice.card(catalogue_.config(id)), "a card");
  if (!pool.is_loaded(id)) {
    const auto fill = [&](std::span<std::byte> memory) {
      catalogue_.fill(memory, id);
      return Status();
    };
    const auto reach = [&](device::HostAddress address, Bytes bytes) {
      return slice.reach(address, bytes, {});
    };
    must(pool.make(id, card.layout, fill, {.home_taken = reach}), "a model's home");
  }
  auto home = must(pool.pin(id), "a pin");
  auto facts = must(
      slice.attach({id, card, std::move(home), catalogue_.max_model_len, catalogue_.share(id)}),
      "a model");
  facts.pinned = pinned;
  must(slice.engine().add_model(id, facts), "a model");
}

void Crowd::remove(ModelId id, bool home_too) {
  Slice& slice = parts_.slice;
  must(slice.engine().remove_model(id, kPatience), "removing a model");
  slice.detach(id);
  if (!home_too) return;
  must(parts_.home.pool.unload(
           id, [&](device::HostAddress address, Bytes bytes) { slice.unreach(address, bytes); }),
       "unloading a model");
}

request::Request request_of(const Question& question, std::int64_t output,
                            const model::ModelConfig& config) {
  request::Request request;
  request.model = question.model;
  for (std::int64_t i = 0; i < question.prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>((31 * i + 7) % config.vocab));
  }
  request.sampling.temperature = 0;
  request.sampling.top_logprobs = 0;
  request.max_tokens = Tokens(output);
  return request;
}

request::Slo any_slo(Random& random) {
  if (random.chance(0.3)) return {};
  return {.ttft = micros(random.between(500, 20'000)),
          .tpot = micros(random.between(500, 5'000)),
          .ttft_slack = random.uniform()};
}

RequestId Crowd::ask(const Question& question, std::int64_t output, const request::Slo& slo) {
  request::Request request = request_of(question, output, catalogue_.config(question.model));
  request.slo = slo;
  request.id = RequestId(next_request_++);
  request.arrival = parts_.clock.now();
  const RequestId id = request.id;
  must(parts_.slice.engine().submit(std::move(request)), "a request");
  return id;
}

Ended Crowd::end_of(const Question& question, std::int64_t output, AnswersSink& sink) {
  const RequestId asked = ask(question, output);
  auto ended = sink.take(kPatience);
  must(ended && ended->request == asked ? Status() : Status(unavailable("no answer")), "a request");
  return *std::move(ended);
}

Answer Crowd::answer(const Question& question, std::int64_t output, AnswersSink& sink) {
  Ended ended = end_of(question, output, sink);
  must(ended.error.empty() ? Status() : Status(unavailable(ended.error)), "an answer");
  return std::move(ended.answer);
}

std::map<Question, Answer> Crowd::all_answers(std::span<const std::int64_t> prompts,
                                              std::int64_t output, AnswersSink& sink) {
  std::map<Question, Answer> answers;
  for (int again = 0; again < 2; ++again) {
    for (std::int64_t m = 0; m < catalogue_.models; ++m) {
      for (const std::int64_t prompt : prompts) {
        const Question question{ModelId(m), prompt};
        answers[question] = answer(question, output, sink);
      }
    }
  }
  return answers;
}

namespace {

class Stress {
 public:
  Stress(const StressPlan& plan, const Catalogue& catalogue, const Crowd::Parts& parts,
         AnswersSink& sink)
      : plan_(plan),
        models_(catalogue.models),
        clock_(parts.clock),
        sink_(sink),
        random_(plan.seed),
        crowd_(catalogue, parts) {}

  StressOutcome run() {
    const Nanos begin = clock_.now();
    Nanos next_progress = kProgress;
    while (true) {
      const Nanos passed = clock_.now() - begin;
      if (passed >= plan_.length && waited_.empty()) break;
      if (passed < plan_.length) {
        act();
      } else if (plan_.calm) {
        plan_.calm();
      }
      collect(waited_.empty() ? Nanos(0) : micros(random_.below(2000)));
      check_patience();
      if (plan_.progress && passed >= next_progress) {
        next_progress = passed + kProgress;
        plan_.progress(describe(outcome()));
      }
    }
    return outcome();
  }

 private:
  struct Waited {
    Question question;
    std::int64_t output = 0;
    bool cancelled = false;
    Nanos asked;
  };

  void act() {
    const double dice = random_.uniform();
    if (dice < 0.004) {
      move_model();
    } else if (dice < 0.06) {
      if (!waited_.empty()) cancel(*any_waited());
    } else if (dice < 0.10) {
      if (plan_.disturb) plan_.disturb(random_);
    } else if (std::ssize(waited_) < plan_.together) {
      ask();
    }
  }

  void ask() {
    const Question question{
        any_model(),
        plan_.prompts.at(static_cast<std::size_t>(random_.below(std::ssize(plan_.prompts))))};
    if (plan_.one_of_a_model && has_requests(question.model)) return;
    const std::int64_t output = random_.between(1, plan_.output_max);
    const request::Slo slo = plan_.any_targets ? any_slo(random_) : request::Slo();
    const RequestId id = crowd_.ask(question, output, slo);
    waited_[id] = {question, output, false, clock_.now()};
    ++outcome_.requests;
  }

  void cancel(std::pair<const RequestId, Waited>& request) {
    request.second.cancelled = true;
    crowd_.slice().engine().cancel(request.first);
  }

  // Detached, and attached again at other addresses; perhaps pinned, perhaps with a new home.
  void move_model() {
    const ModelId model = any_model();
    if (random_.chance(0.5)) {
      for (auto& request : waited_) {
        if (request.second.question.model == model) cancel(request);
      }
    }
    if (plan_.calm) plan_.calm();  // its requests must end now
    crowd_.remove(model, random_.chance(0.5));
    pinned_.erase(model);
    const bool pin = std::ssize(pinned_) < plan_.pinned_max && random_.chance(0.5);
    if (pin) pinned_.insert(model);
    crowd_.add(model, pin);
    ++outcome_.moved;
  }

  void collect(Nanos pause) {
    for (auto ended = sink_.take(pause); ended; ended = sink_.take(Nanos(0))) {
      const auto found = waited_.find(ended->request);
      must(found != waited_.end() ? Status() : Status(unavailable("an end too many")), "a request");
      check(*ended, found->second);
      waited_.erase(found);
    }
  }

  void check(const Ended& ended, const Waited& asked) {
    outcome_.switches += ended.switched ? 1 : 0;
    outcome_.cancelled += ended.reason == request::FinishReason::kCancelled ? 1 : 0;
    outcome_.failed += ended.error.empty() ? 0 : 1;
    const Answer expected = plan_.expected(asked.question);
    const bool partial = !ended.error.empty() || asked.cancelled;
    const bool complete = std::ssize(ended.answer) == asked.output;
    const bool right = ended.answer.size() <= expected.size() && (complete || partial) &&
                       std::equal(ended.answer.begin(), ended.answer.end(), expected.begin());
    const bool may_fail = ended.error.empty() || plan_.disturb;
    if (right && may_fail) return;
    ++outcome_.wrong;
    if (!outcome_.first_wrong.empty()) return;
    outcome_.first_wrong = "model " + std::to_string(asked.question.model.value) +
                           ", a prompt of " + std::to_string(asked.question.prompt) + ": " +
                           (may_fail ? "another answer" : ended.error);
  }

  void check_patience() {
    for (const auto& [id, asked] : waited_) {
      if (clock_.now() - asked.asked < kPatience) continue;
      must(unavailable("request " + std::to_string(id.value) + " of model " +
                       std::to_string(asked.question.model.value) + " does not end; " +
                       describe(outcome())),
           "stress");
    }
  }

  StressOutcome outcome() {
    StressOutcome seen = outcome_;
    seen.link_bytes = crowd_.slice().link_bytes();
    return seen;
  }
  ModelId any_model() { return ModelId(random_.below(models_)); }
  std::map<RequestId, Waited>::iterator any_waited() {
    return std::next(waited_.begin(), random_.below(std::ssize(waited_)));
  }
  bool has_requests(ModelId model) const {
    return std::any_of(waited_.begin(), waited_.end(),
                       [&](const auto& request) { return request.second.question.model == model; });
  }

  const StressPlan& plan_;
  const std::int64_t models_;
  const Clock& clock_;
  AnswersSink& sink_;
  Random random_;
  Crowd crowd_;
  std::map<RequestId, Waited> waited_;
  std::set<ModelId> pinned_;
  StressOutcome outcome_;
};

}  // namespace

std::string describe(const StressOutcome& outcome) {
  const auto gigabytes = static_cast<double>(outcome.link_bytes.count) / 1e9;
  return std::to_string(outcome.requests) + " requests, " + std::to_string(outcome.switches) +
         " switches, " + std::to_string(gigabytes) + " GB over the link, " +
         std::to_string(outcome.cancelled) + " cancelled, " + std::to_string(outcome.failed) +
         " failed, " + std::to_string(outcome.moved) + " models moved, " +
         std::to_string(outcome.wrong) + " wrong" +
         (outcome.first_wrong.empty() ? "" : " (" + outcome.first_wrong + ")");
}

StressOutcome run_stress(const StressPlan& plan, const Catalogue& catalogue,
                         const Crowd::Parts& parts, AnswersSink& sink) {
  return Stress(plan, catalogue, parts, sink).run();
}

}  // namespace causeway::slice::testing
