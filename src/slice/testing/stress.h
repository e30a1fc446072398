// Several models share a cache that is too small for them: requests of random lengths come at
// random times and are cancelled at random, models are detached and attached again, pinned or not,
// with their home or with a new one; and every answer is compared with the undisturbed one. The
// same for any slice.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::slice::testing {

using Answer = std::vector<std::pair<TokenId, float>>;  // tokens and their log-probabilities

struct Question {
  ModelId model;
  std::int64_t prompt = 1;  // tokens
  constexpr auto operator<=>(const Question&) const = default;
};

// What its model is asked, for so many tokens: greedily, with log-probabilities.
request::Request request_of(const Question& question, std::int64_t output,
                            const model::ModelConfig& config);

// Latency targets at random: mostly so short that a request outside HBM lags within milliseconds,
// else the usual ones.
request::Slo any_slo(Random& random);

struct Ended {
  RequestId request;
  Answer answer;
  request::FinishReason reason = request::FinishReason::kStop;
  std::string error;
  bool switched = false;  // its model had to come first
};

class AnswersSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override;
  // The next request that has ended, in the order of their ends; nullopt after `timeout`.
  std::optional<Ended> take(Nanos timeout);

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<RequestId, Ended> under_way_;
  std::deque<Ended> ended_;
};

// The models of a slice.
struct Catalogue {
  std::int64_t models = 5;
  Tokens max_model_len{256};
  std::function<model::ModelConfig(ModelId)> config;
  std::function<void(std::span<std::byte>, ModelId)> fill;  // the same whenever it is called
  // The device's most for a model's weights, beyond which they are streamed. Empty, zero: no limit.
  std::function<Bytes(ModelId)> max_resident = {};

  Bytes share(ModelId model) const { return max_resident ? max_resident(model) : Bytes(0); }
};

// They are attached while this lives. Errors end the program. One thread.
class Crowd {
 public:
  struct Parts {
    ModelHome& home;
    const Clock& clock;
    Slice& slice;
  };
  Crowd(const Catalogue& catalogue, const Parts& parts);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void add(ModelId model, bool pinned);
  void remove(ModelId model, bool home_too);  // waits for its requests to end
  RequestId ask(const Question& question, std::int64_t output, const request::Slo& slo = {});
  // How it ends when nothing else goes on.
  Ended end_of(const Question& question, std::int64_t output, AnswersSink& sink);
  // The same, of a question that must be answered.
  Answer answer(const Question& question, std::int64_t output, AnswersSink& sink);
  // The same of every model to each of the prompts; asked twice, so that a GPU's graphs have been
  // captured.
  std::map<Question, Answer> all_answers(std::span<const std::int64_t> prompts, std::int64_t output,
                                         AnswersSink& sink);
  Slice& slice() { return parts_.slice; }

 private:
  const Catalogue catalogue_;
  const Parts parts_;
  std::int64_t next_request_ = 0;
};

struct StressPlan {
  std::uint64_t seed = 1;
  Nanos length = seconds(2);
  std::vector<std::int64_t> prompts = {1, 7, 40};  // tokens
  std::int64_t output_max = 12;
  std::int64_t together = 8;  // requests
  // At most one request of a model at a time, where the company in a batch changes the last bit.
  bool one_of_a_model = false;
  std::int64_t pinned_max = 1;  // models that leave room for any other
  bool any_targets = false;     // of latency (any_slo()); otherwise the usual ones
  // The answer of output_max tokens: shorter answers are its beginnings.
  std::function<Answer(const Question&)> expected;
  // Has copies fail or hang, now and then, and ends that. Empty: nothing does, and no request may
  // fail.
  std::function<void(Random&)> disturb = {};
  std::function<void()> calm = {};
  std::function<void(const std::string&)> progress = {};  // every few seconds
};

struct StressOutcome {
  std::int64_t requests = 0;
  std::int64_t switches = 0;
  std::int64_t cancelled = 0;
  std::int64_t failed = 0;  // with an error
  std::int64_t moved = 0;   // models detached and attached
  std::int64_t wrong = 0;   // answers
  Bytes link_bytes;
  std::string first_wrong;
};

std::string describe(const StressOutcome& outcome);
// Ends after `length` and what the last requests take; the program, when one does not end in a
// minute.
StressOutcome run_stress(const StressPlan& plan, const Catalogue& catalogue,
                         const Crowd::Parts& parts, AnswersSink& sink);

}  // namespace causeway::slice::testing
