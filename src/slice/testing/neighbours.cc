#include "slice/testing/neighbours.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/testing/must.h"

namespace causeway::slice::testing {
namespace {

constexpr Nanos kPatience = seconds(60);
constexpr float kRounding = 0.1f;  // of a log-probability, in bf16
constexpr std::int64_t kSaid = 3;

}  // namespace

bool is_same(const Answer& answer, const Answer& expected) {
  return answer.size() <= expected.size() &&
         std::equal(answer.begin(), answer.end(), expected.begin());
}

bool is_near(const Answer& answer, const Answer& expected) {
  if (answer.size() > expected.size()) return false;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (!(std::abs(answer[i].second - expected[i].second) <= kRounding)) return false;
    if (answer[i].first != expected[i].first) return true;
  }
  return true;
}

Neighbour::Neighbour(const Catalogue& catalogue, std::vector<ModelId> models, const Parts& parts)
    : catalogue_(catalogue),
      models_(std::move(models)),
      home_(parts.home),
      clock_(parts.clock),
      slice_(parts.open(sink_)) {
  for (const ModelId model : models_) add(model);
}

Neighbour::~Neighbour() { slice_.reset(); }

void Neighbour::add(ModelId id) {
  const auto card = must(slice_->card(catalogue_.config(id)), "a card");
  const auto reach = [&](device::HostAddress address, Bytes bytes) {
    return slice_->reach(address, bytes, {});
  };
  const bool at_home = home_.pool.is_loaded(id);
  if (!at_home) {
    const auto fill = [&](std::span<std::byte> memory) {
      catalogue_.fill(memory, id);
      return Status();
    };
    must(home_.pool.make(id, card.layout, fill, {.home_taken = reach}), "a model's home");
  }
  auto pinned = must(home_.pool.pin(id), "a pin");
  if (at_home) must(reach(pinned->address(), pinned->bytes()), "a home within reach");
  const auto facts = must(
      slice_->attach({id, card, std::move(pinned), catalogue_.max_model_len, catalogue_.share(id)}),
      "a model");
  must(slice_->engine().add_model(id, facts), "a model");
}

void Neighbour::ask(const Question& question, std::int64_t output) {
  request::Request request = request_of(question, output, catalogue_.config(question.model));
  request.id = RequestId(next_request_++);
  request.arrival = clock_.now();
  must(slice_->engine().submit(std::move(request)), "a request");
}

Ended Neighbour::next() {
  auto ended = sink_.take(kPatience);
  must(ended ? Status() : Status(unavailable("a request does not end")), "an answer");
  return *ended;
}

Answers Neighbour::all_answers(std::span<const std::int64_t> prompts, std::int64_t output) {
  Answers answers;
  for (int again = 0; again < 2; ++again) {
    for (const ModelId model : models_) {
      for (const std::int64_t prompt : prompts) {
        const Question question{model, prompt};
        ask(question, output);
        answers[question] = next().answer;
      }
    }
  }
  return answers;
}

// One of Neighbour::ask_at_random().
class Neighbour::Run {
 public:
  Run(Neighbour& neighbour, const Plan& plan, const Answers& expected)
      : neighbour_(neighbour), plan_(plan), expected_(expected), random_(plan.seed) {
    for (const auto& [question, answer] : expected) {
      if (serves(question.model)) questions_.push_back(question);
    }
  }

  std::int64_t wrong() {
    while (ask_one() || !waited_.empty()) {
      const bool room = waited_.size() < neighbour_.models_.size();
      if (!room || random_.chance(0.5)) take_one();
    }
    return wrong_;
  }

 private:
  struct Waited {
    Question question;
    std::int64_t output = 0;
  };

  bool serves(ModelId model) const {
    const auto& models = neighbour_.models_;
    return std::find(models.begin(), models.end(), model) != models.end();
  }
  bool waits_for(ModelId model) const {
    return std::any_of(waited_.begin(), waited_.end(),
                       [&](const auto& other) { return other.second.question.model == model; });
  }
  // False: not now, or no more.
  bool ask_one() {
    if (asked_ >= plan_.requests || (plan_.stop && plan_.stop())) return false;
    const auto which = static_cast<std::size_t>(random_.below(std::ssize(questions_)));
    const Question& question = questions_.at(which);
    if (waits_for(question.model)) return false;
    const std::int64_t output = random_.between(1, std::ssize(expected_.at(question)));
    waited_[RequestId(neighbour_.next_request_)] = {question, output};
    neighbour_.ask(question, output);
    ++asked_;
    return true;
  }
  void take_one() {
    if (waited_.empty()) return;
    const Ended ended = neighbour_.next();
    const auto found = waited_.find(ended.request);
    must(found != waited_.end() ? Status() : Status(unavailable("an end too many")), "a request");
    check(found->second, ended);
    waited_.erase(found);
  }
  void check(const Waited& asked, const Ended& ended) {
    const Answer& expected = expected_.at(asked.question);
    const bool whole = std::ssize(ended.answer) == asked.output && ended.error.empty();
    if (whole && plan_.right(ended.answer, expected)) return;
    if (++wrong_ > kSaid) return;
    spdlog::error("model {}, a prompt of {}: {}", asked.question.model.value, asked.question.prompt,
                  ended.error.empty() ? "another answer" : ended.error);
  }

  Neighbour& neighbour_;
  const Plan& plan_;
  const Answers& expected_;
  Random random_;
  std::vector<Question> questions_;
  std::map<RequestId, Waited> waited_;
  std::int64_t asked_ = 0, wrong_ = 0;
};

std::int64_t Neighbour::ask_at_random(const Plan& plan, const Answers& expected) {
  return Run(*this, plan, expected).wrong();
}

void forget_homes(const Catalogue& catalogue, ModelHome& home) {
  for (std::int64_t m = 0; m < catalogue.models; ++m) {
    if (home.pool.is_loaded(ModelId(m))) must(home.pool.unload(ModelId(m)), "unloading a model");
  }
}

}  // namespace causeway::slice::testing
