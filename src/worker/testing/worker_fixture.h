// What tests of workers share: models of random weights in this process's pool, and the options of
// a worker that serves them on the CPU.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "engine/testing/collecting_sink.h"
#include "fleet/catalogue.h"
#include "fleet/testing/snapshot.h"
#include "model/forward.h"
#include "slice/model_home.h"
#include "worker/worker.h"

namespace causeway::worker::testing {

// Whether the worker has a process, and it got the signal. Never 0, which would be the test's own
// process group: a worker that is being started has no process yet.
inline bool send(const Worker& worker, int signal) {
  const int pid = worker.pid();
  return pid > 0 && ::kill(pid, signal) == 0;
}

inline constexpr std::int64_t kVocab = 258;  // of a snapshot's
inline constexpr Bytes kFrame = kib(4);      // 16 tokens

// Weights in f32, other ones for each model.
inline void fill_weights(std::span<std::byte> memory, ModelId model) {
  Random random(100 + static_cast<std::uint64_t>(model.value));
  for (std::size_t i = 0; i + sizeof(float) <= memory.size(); i += sizeof(float)) {
    const auto value = static_cast<float>(random.uniform() - 0.5) * 0.3f;
    std::memcpy(&memory[i], &value, sizeof value);
  }
}

class WorkerFixture : public ::testing::Test {
 protected:
  WorkerFixture() { fleet::testing::write_snapshot(directory_.path()); }

  fleet::ModelSource source() const { return {"small", directory_.path()}; }
  static fleet::CatalogueEntry entry(ModelId id) {
    fleet::CatalogueEntry entry;
    entry.id = id;
    entry.name = "small-" + std::to_string(id.value);
    entry.max_model_len = Tokens(128);
    entry.vocab = kVocab;
    return entry;
  }
  Result<model::ModelCard> card() const {
    CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(directory_.path()));
    return model::make_card(std::move(config), DType::kF32, kFrame);
  }
  // Into the pool, with weights that differ by model.
  Status load(ModelId id) {
    CAUSEWAY_ASSIGN(const model::ModelCard card, this->card());
    const auto fill = [&](std::span<std::byte> memory) -> Status {
      fill_weights(memory, id);
      return {};
    };
    return home_.pool.make(id, card.layout, fill, {});
  }

  static SlicePlan slice_plan() {
    SlicePlan plan;
    plan.kv = mib(1);
    plan.kv_frame = kFrame;
    plan.engine.core.prefix_hash_seed = 1;
    return plan;
  }
  // `more`: arguments of the child.
  static WorkerOptions options(int slices = 1, std::vector<std::string> more = {}) {
    WorkerOptions options;
    options.command = {CAUSEWAY_WORKER_CHILD, "--worker-socket", "3"};
    options.command.insert(options.command.end(), more.begin(), more.end());
    options.name = "test";
    options.version = "test";
    options.plan.slices.assign(static_cast<std::size_t>(slices), slice_plan());
    options.silence_max = seconds(5);
    options.pause_min = millis(10);
    options.pause_max = millis(100);
    return options;
  }
  std::unique_ptr<Worker> start(const WorkerOptions& options) {
    auto worker = Worker::start(options, home_, clock_, sink_);
    if (!worker.ok()) ADD_FAILURE() << worker.error().message;
    return worker.ok() ? std::move(worker).value() : nullptr;
  }
  request::Request request(std::int64_t id, std::int64_t tokens = 8, ModelId model = ModelId(0)) {
    request::Request request;
    request.id = RequestId(id);
    request.model = model;
    for (std::int64_t i = 0; i <= id % 20; ++i) {
      request.prompt.push_back(static_cast<TokenId>((id * 31 + i * 7) % kVocab));
    }
    request.sampling.temperature = 0;
    request.max_tokens = Tokens(tokens);
    request.arrival = clock_.now();
    return request;
  }
  // Until `holds`, or 20 seconds have passed.
  template <typename Holds>
  bool wait_until(Holds holds) const {
    const Nanos until = clock_.now() + seconds(20);
    while (!holds()) {
      if (clock_.now() > until) return false;
      std::unique_lock lock(never_mutex_);
      never_.wait_for(lock, std::chrono::milliseconds(2));
    }
    return true;
  }

  const RealClock clock_;
  TemporaryDirectory directory_;
  slice::ModelHome home_{clock_, gib(1)};
  engine::CollectingSink sink_;
  mutable std::mutex never_mutex_;
  mutable std::condition_variable never_;
};

}  // namespace causeway::worker::testing
