// What the parts of `bench switch` measure on: a slice with room for two of its models, and the
// measures that all of them need.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/switch_bench.h"
#include "bench/switch_links.h"
#include "slice/model_home.h"

namespace causeway::bench {

inline constexpr char kBeside[] = ", beside a neighbour";  // of a figure's name

// Of a model whose weights are cached, when nothing else runs; medians in ms.
struct Cached {
  double first = 0;   // from submit to the first token
  double second = 0;  // from there to the second
  double gap = 0;     // between further ones
};

// A request and what happened, in ms.
struct Asked {
  double first = 0;   // from submit to the first token
  double there = 0;   // from submit until what a step needs had come
  double second = 0;  // from the first token to the second; 0: there was none
  Bytes crossed;      // from home until the first token
  Samples gaps;       // between further tokens
};

// Of the models of one shape.
struct SwitchSamples {
  Samples first, there, second, gaps, gigabytes;
  void add(const Asked& asked);
};

class SwitchStage {
 public:
  SwitchStage(const SwitchSettings& settings, slice::ModelHome& home, const Clock& clock,
              engine::StepStart start)
      : settings_(settings), home_(home), local_(home, clock), start_(start) {}

  // Opens the slice and brings every model once, so that all that is made on first use is there.
  Status open();
  // What the copy engine gives, in bytes per second: batches of copies from a model's home.
  Result<double> measure_link();
  // What the best set of the slice's links gives together; nothing where there is one.
  Result<BestLinks> measure_links();

  const SwitchSettings& settings() const { return settings_; }
  LocalSlice& local() { return local_; }
  slice::ModelHome& home() { return home_; }
  std::int64_t models() const { return std::ssize(needed_); }
  std::int64_t shapes() const { return std::ssize(settings_.configs); }
  std::int64_t shape_of(std::int64_t model) const { return model % shapes(); }
  // For figures of one shape; empty when there is only one.
  std::string name_of(std::int64_t shape) const;
  // Bytes that a step needs in the cache.
  Bytes needed(std::int64_t model) const { return needed_[static_cast<std::size_t>(model)]; }

  // Asks and waits for the whole answer.
  Result<Asked> ask(std::int64_t model, std::int64_t output);
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

 private:
  const SwitchSettings& settings_;
  slice::ModelHome& home_;
  LocalSlice local_;
  const engine::StepStart start_;
  std::vector<Bytes> needed_;  // by model
};

struct SwitchLimits {
  double link = 0;             // bytes per second
  BestLinks links;             // where there are several
  std::vector<Cached> cached;  // by shape

  const Cached& of(std::int64_t shape) const { return cached[static_cast<std::size_t>(shape)]; }
  double floor_ms(Bytes bytes) const { return 1e3 * static_cast<double>(bytes.count) / link; }
};
// The parts of the bench. Each appends its figures.
Status measure_cached(SwitchStage& stage, std::vector<Cached>& cached, std::vector<Figure>& rows);
// All models in turn.
Status measure_home(SwitchStage& stage, const SwitchLimits& limits, std::vector<Figure>& rows);
// The same while the first model decodes. Without a neighbour: nothing.
Status measure_beside(SwitchStage& stage, const SwitchLimits& limits, std::vector<Figure>& rows);
// All models in turn, each after as many bytes as the one that leaves has were copied out: sleep
// and wake. The stage's steps start when all is cached.
Status measure_sleep(SwitchStage& stage, const SwitchLimits& limits, std::vector<Figure>& rows);
Status measure_zipf(SwitchStage& stage, std::vector<Figure>& rows);
// A model that is not in host memory yet.
Status measure_disk(SwitchStage& stage, std::vector<Figure>& rows);

}  // namespace causeway::bench
