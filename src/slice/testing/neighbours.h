// Slices of one process beside each other, on one home: each serves some models of a catalogue, by
// itself, from a thread of its own; and every answer is compared with an undisturbed one. The same
// for any slice.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "slice/testing/stress.h"

namespace causeway::slice::testing {

using Answers = std::map<Question, Answer>;

// Whether an answer has the first tokens of the expected one, with the same log-probabilities.
bool is_same(const Answer& answer, const Answer& expected);
// The same but for rounding, until a token differs because two were as likely: of kernels that add
// up in another order.
bool is_near(const Answer& answer, const Answer& expected);

class Neighbour {
 public:
  struct Parts {
    ModelHome& home;
    const Clock& clock;
    std::function<std::unique_ptr<Slice>(engine::OutputSink&)> open;
  };
  // Opens the slice and attaches the models. Those that are not at home yet are brought there, and
  // stay until forget_homes(). Errors end the program.
  Neighbour(const Catalogue& catalogue, std::vector<ModelId> models, const Parts& parts);
  // Whatever goes on: requests are dropped.
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  Slice& slice() { return *slice_; }
  void ask(const Question& question, std::int64_t output);
  // All questions, one after the other; twice, so that a GPU's graphs have been captured.
  Answers all_answers(std::span<const std::int64_t> prompts, std::int64_t output);

  struct Plan {
    std::uint64_t seed = 1;
    std::int64_t requests = 100;
    std::function<bool()> stop = {};  // before these
    std::function<bool(const Answer&, const Answer&)> right = is_same;
  };
  // Questions of `expected` at random, one of a model at a time, so that batches are those of an
  // undisturbed slice, of up to as many tokens: how many answers are wrong. A few are logged.
  std::int64_t ask_at_random(const Plan& plan, const Answers& expected);
  std::int64_t asked() const { return next_request_; }

 private:
  class Run;
  void add(ModelId model);
  Ended next();

  const Catalogue catalogue_;
  const std::vector<ModelId> models_;
  ModelHome& home_;
  const Clock& clock_;
  AnswersSink sink_;
  std::unique_ptr<Slice> slice_;
  std::int64_t next_request_ = 0;
};

// The homes of a catalogue's models, when no slice has them any more.
void forget_homes(const Catalogue& catalogue, ModelHome& home);

}  // namespace causeway::slice::testing
