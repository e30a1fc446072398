// A slice of a GPU that caches fewer models than it serves: whatever models take turns, every
// answer is that of models which are all cached, to the bit of its tokens' log-probabilities. Where
// there are several GPUs the weights come over the links of all.
//
//   cuda_slice_gpu_test [--seed S] [--switches N] [--together N] [--large 1]
//     --switches   requests of random models, one after the other
//     --together   requests of random models, four at a time
//     --large 1    five models of Llama-3.2-3B's shape instead of small ones
//
// Exit status 77: no GPU.
#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "kernels/bench/machine_limits.h"
#include "model/random_model.h"
#include "slice/cuda_slice.h"

namespace causeway::slice {
namespace {

constexpr std::int64_t kModels = 5;
constexpr std::int64_t kPrompts[] = {1, 17, 300};
constexpr std::int64_t kOutput = 12;
constexpr std::int64_t kTogether = 4;

using Answer = std::vector<std::pair<TokenId, float>>;
using Question = std::pair<std::int64_t, std::int64_t>;  // model, tokens of the prompt

class AnswersSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::lock_guard lock(mutex_);
    for (const request::Output& output : outputs) {
      for (const auto& token : output.tokens) {
        answers_[output.request].emplace_back(token.token, token.logprob);
      }
      if (!output.finished) continue;
      if (!output.error.empty()) std::printf("  %s\n", output.error.c_str());
      ended_.insert(output.request);
    }
    changed_.notify_all();
  }
  // Some request of `waited` that has ended.
  RequestId wait_for_one_of(const std::map<RequestId, Question>& waited) {
    std::unique_lock lock(mutex_);
    RequestId found;
    const bool ended = changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      for (const auto& [id, question] : waited) {
        if (ended_.contains(id)) found = id;
      }
      return found.valid();
    });
    must(ended ? Status() : Status(unavailable("a request does not end")), "an answer");
    return found;
  }
  Answer take(RequestId request) {
    const std::lock_guard lock(mutex_);
    return std::move(answers_[request]);
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<RequestId, Answer> answers_;
  std::set<RequestId> ended_;
};

model::ModelConfig shape(bool large, bool tied) {
  model::ModelConfig config = model::random_model_config(model::Family::kLlama);
  config.layers = large ? 28 : 6;
  config.hidden = large ? 3072 : 1024;
  config.intermediate = large ? 8192 : 4096;
  config.heads = large ? 24 : 8;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.vocab = large ? 128'256 : 16'000;
  config.tied_embeddings = tied;
  return config;
}

// Random numbers whose period is no multiple of a layer's size.
void fill(std::span<std::byte> memory, std::uint64_t seed) {
  constexpr std::size_t kPeriod = 37 * 1024 * 1024 + 512;
  const std::size_t first = std::min(kPeriod, memory.size());
  kernels::bench::fill_random_bf16(memory.first(first), seed, 0.03f);
  for (std::size_t at = kPeriod; at < memory.size(); at += kPeriod) {
    std::memcpy(memory.data() + at, memory.data(), std::min(kPeriod, memory.size() - at));
  }
}

class Serving {
 public:
  struct Options {
    bool large = false;
    std::int64_t cached = 0;  // models
    LinkChoice links = LinkChoice::kOwn;
  };
  Serving(ModelHome& home, const Clock& clock, const Options& chosen)
      : home_(home), clock_(clock), large_(chosen.large) {
    std::vector<CudaCandidate> candidates;
    for (std::int64_t m = 0; m < kModels; ++m) {
      candidates.push_back({.id = ModelId(m),
                            .name = "model " + std::to_string(m),
                            .config = config_of(m),
                            .max_model_len = Tokens(1024)});
    }
    const auto card = must(model::make_card(config_of(1), DType::kBF16, mib(4)), "a card");
    CudaSliceOptions options{.kv = gib(1), .kv_frame = mib(4)};
    options.weights = round_up(card.layout.bytes, mib(32)) * chosen.cached;
    options.residency.turn_min = millis(100);
    options.engine.core.prefix_caching = false;
    options.engine.core.schedule = {.tokens_per_step_max = 1024, .running_max = 16};
    machine_ = must(Machine::open_gpus({.choice = chosen.links}, home, clock), "the machine");
    slice_ = must(open_cuda_slice(options, candidates, *machine_, sink_), "the slice");
    for (std::int64_t m = 0; m < kModels; ++m) add(ModelId(m));
  }
  ~Serving() {
    for (std::int64_t m = 0; m < kModels; ++m) {
      must(slice_->engine().remove_model(ModelId(m), seconds(30)), "removing a model");
      slice_->detach(ModelId(m));
    }
  }

  RequestId ask(Question question) {
    request::Request request;
    request.id = RequestId(next_request_++);
    request.model = ModelId(question.first);
    for (std::int64_t i = 0; i < question.second; ++i) {
      request.prompt.push_back(static_cast<TokenId>((31 * i + 7) % 16'000));
    }
    request.sampling.temperature = 0;
    request.sampling.top_logprobs = 0;
    request.max_tokens = Tokens(kOutput);
    request.arrival = clock_.now();
    const RequestId id = request.id;
    must(slice_->engine().submit(std::move(request)), "a request");
    return id;
  }
  Answer answer(Question question) {
    const RequestId id = ask(question);
    sink_.wait_for_one_of({{id, question}});
    return sink_.take(id);
  }
  AnswersSink& sink() { return sink_; }
  Bytes link_bytes() const { return slice_->link_bytes(); }
  int links() const { return slice_->links()->links; }

 private:
  model::ModelConfig config_of(std::int64_t model) const { return shape(large_, model % 2 == 0); }

  void add(ModelId id) {
    const auto card = must(slice_->card(config_of(id.value)), "a card");
    if (!home_.pool.is_loaded(id)) {
      must(home_.pool.make(
               id, card.layout,
               [&](std::span<std::byte> memory) {
                 fill(memory, 100 + static_cast<std::uint64_t>(id.value));
                 return Status();
               },
               {.home_taken = [&](device::HostAddress address,
                                  Bytes bytes) { return slice_->reach(address, bytes, {}); }}),
           "a model's home");
    }
    auto home = must(home_.pool.pin(id), "a pin");
    const auto facts = must(slice_->attach({id, card, std::move(home), Tokens(1024)}), "a model");
    must(slice_->engine().add_model(id, facts), "a model");
  }

  ModelHome& home_;
  const Clock& clock_;
  const bool large_;
  AnswersSink sink_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Slice> slice_;
  std::int64_t next_request_ = 0;
};

Question any_question(Random& random) {
  return {static_cast<std::int64_t>(random.below(kModels)),
          kPrompts[random.below(std::size(kPrompts))]};
}

struct Plan {
  std::uint64_t seed = 1;
  std::int64_t switches = 60;
  std::int64_t together = 60;
  bool large = false;
};

int run(const Plan& plan) {
  const RealClock clock;
  ModelHome home(clock, gib(100));
  std::map<Question, Answer> expected;
  {
    Serving undisturbed(home, clock, {.large = plan.large, .cached = kModels});
    for (int again = 0; again < 2; ++again) {
      for (std::int64_t m = 0; m < kModels; ++m) {
        for (const std::int64_t prompt : kPrompts) {
          expected[{m, prompt}] = undisturbed.answer({m, prompt});
        }
      }
    }
  }
  std::int64_t wrong = 0;
  Serving serving(home, clock, {.large = plan.large, .cached = 2, .links = LinkChoice::kAll});
  const auto check = [&](Question question, const Answer& answer, const char* when) {
    if (answer == expected.at(question)) return;
    if (++wrong <= 5) {
      std::printf("  %s: model %ld, prompt of %ld: another answer\n", when,
                  static_cast<long>(question.first), static_cast<long>(question.second));
    }
  };
  Random random(plan.seed);
  for (std::int64_t i = 0; i < plan.switches; ++i) {
    const Question question = any_question(random);
    check(question, serving.answer(question), "one after the other");
  }
  std::map<RequestId, Question> waited;
  std::set<std::int64_t> busy;
  for (std::int64_t i = 0; i < plan.together || !waited.empty();) {
    while (i < plan.together && std::ssize(waited) < kTogether) {
      const Question question = any_question(random);
      if (!busy.insert(question.first).second) continue;  // one of a model: batches are the same
      waited.emplace(serving.ask(question), question);
      ++i;
    }
    const RequestId ended = serving.sink().wait_for_one_of(waited);
    const Question question = waited.at(ended);
    check(question, serving.sink().take(ended), "together");
    waited.erase(ended);
    busy.erase(question.first);
  }
  std::printf("%ld switches, %ld requests together, %.1f GB over %d links, %ld wrong answers\n%s\n",
              static_cast<long>(plan.switches), static_cast<long>(plan.together),
              static_cast<double>(serving.link_bytes().count) / 1e9, serving.links(),
              static_cast<long>(wrong), wrong == 0 ? "PASSED" : "FAILED");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::slice

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  causeway::slice::Plan plan;
  plan.seed = arguments.number<std::uint64_t>("--seed", plan.seed);
  plan.switches = arguments.number<std::int64_t>("--switches", plan.switches);
  plan.together = arguments.number<std::int64_t>("--together", plan.together);
  plan.large = arguments.number<int>("--large", 0) != 0;
  arguments.finish();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(plan.seed));
  return causeway::slice::run(plan);
}
