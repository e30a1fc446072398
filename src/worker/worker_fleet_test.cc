// A fleet of workers that are killed while they serve: LocalFleet, processes, sockets, all of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "base/random.h"
#include "fleet/fleet_home.h"
#include "fleet/local_fleet.h"
#include "worker/testing/worker_fixture.h"

namespace causeway::worker {
namespace {

// Models of random weights come into the pool when they are asked for.
class RandomHome final : public fleet::FleetHome {
 public:
  RandomHome(slice::ModelHome& home, model::ModelCard card) : home_(home), card_(std::move(card)) {}
  Result<fleet::HostRoom> room_for(const fleet::CatalogueEntry&,
                                   const fleet::ModelSource&) override {
    const weights::PoolUse use = home_.pool.use();
    return fleet::HostRoom{card_.layout.bytes, use.used, use.budget};
  }
  Status load(const fleet::CatalogueEntry& entry, const fleet::ModelSource&,
              const std::function<bool()>&) override {
    return home_.pool.make(entry.id, card_.layout,
                           [&](std::span<std::byte> memory) -> Status {
                             testing::fill_weights(memory, entry.id);
                             return {};
                           },
                           {});
  }
  void unload(ModelId model) override { EXPECT_TRUE(home_.pool.unload(model).ok()); }

 private:
  slice::ModelHome& home_;
  const model::ModelCard card_;
};

class WorkerFleetTest : public testing::WorkerFixture {
 protected:
  static constexpr std::int64_t kModels = 3;

  void open(int workers) {
    home_of_models_ = std::make_unique<RandomHome>(home_, card().value());
    fleet::FleetSlices slices;
    for (int i = 0; i < workers; ++i) {
      workers_.push_back(Worker::start(options(), home_, clock_, fleet_sink_).value());
      slices.slices.push_back(workers_.back()->slices().front().get());
    }
    std::vector<fleet::CatalogueModel> models;
    for (std::int64_t id = 0; id < kModels; ++id) {
      models.push_back(
          {std::make_unique<fleet::CatalogueEntry>(entry(ModelId(id))), source(), false, {}});
    }
    fleet_ = fleet::LocalFleet::start(std::move(models), {.room_timeout = seconds(5)},
                                      *home_of_models_, std::move(slices), fleet_sink_)
                 .value();
    ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  }
  void TearDown() override {
    const bool stopped = !fleet_ || fleet_->stop();
    EXPECT_TRUE(stopped);
    for (const auto& worker : workers_) worker->stop();
    fleet_.reset();
  }
  // What a request of this model may be waiting for.
  std::string where(ModelId model) {
    const fleet::ModelStatus status = fleet_->status(model);
    std::string text = fmt::format("model {}: {} run, {} wait;", fleet::name_of(status.state),
                                   status.requests_running, status.requests_waiting);
    for (const auto& worker : workers_) {
      const request::Observation seen = worker->slices().front()->observe();
      text += fmt::format(" worker {}: {} run, {} wait, {} steps, lost '{}';", worker->pid(),
                          seen.requests_running, seen.requests_waiting, seen.steps, seen.lost);
    }
    return text;
  }
  // A request that was answered, within the time that a worker may take to be back.
  bool answered(std::int64_t id, ModelId model) {
    if (!fleet_->submit(request(id, 8, model)).ok()) return false;
    EXPECT_TRUE(wait_until([&] { return sink_.of(RequestId(id)).ends > 0; }));
    return sink_.of(RequestId(id)).end->reason == request::FinishReason::kLength;
  }

  fleet::SerialSink fleet_sink_{sink_};
  std::unique_ptr<RandomHome> home_of_models_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<fleet::LocalFleet> fleet_;
  std::int64_t last_ = 0;
};

// What clients do, from a thread of its own, until told to stop.
class Load {
 public:
  using Submit = std::function<bool(std::int64_t)>;
  explicit Load(Submit submit)
      : thread_([this, submit = std::move(submit)] {
          std::mutex never;
          for (std::int64_t id = 1; !stop_.load(); ++id) {
            if (submit(id)) taken_.push_back(id);
            std::unique_lock lock(never);
            pace_.wait_for(lock, std::chrono::microseconds(300));
          }
        }) {}
  std::vector<std::int64_t> stop() {
    stop_ = true;
    thread_.join();
    return taken_;
  }

 private:
  std::atomic<bool> stop_ = false;
  std::condition_variable pace_;
  std::vector<std::int64_t> taken_;  // the thread's until it has ended
  std::thread thread_;
};

TEST_F(WorkerFleetTest, KilledTwentyTimesUnderLoadEveryRequestEndsOnce) {
  open(2);
  Random random(11);
  Load load([&](std::int64_t id) {
    if (id % 7 == 0) fleet_->cancel(RequestId(id - 3));
    return fleet_->submit(request(id, 1 + id % 20, ModelId(id % kModels))).ok();
  });
  for (int kill = 0; kill < 20; ++kill) {
    const Worker& worker = *workers_[static_cast<std::size_t>(random.below(2))];
    // One that serves, at any moment of it.
    ASSERT_TRUE(wait_until([&] { return worker.pid() > 0; }));
    const Nanos until = clock_.now() + micros(random.between(0, 150'000));
    ASSERT_TRUE(wait_until([&] { return clock_.now() >= until; }));
    if (const int pid = worker.pid(); pid > 0) ::kill(pid, SIGKILL);
  }
  const std::vector<std::int64_t> taken = load.stop();
  std::map<request::FinishReason, int> reasons;
  std::map<ErrorCode, int> codes;
  for (const std::int64_t id : taken) {
    ASSERT_TRUE(wait_until([&] { return sink_.of(RequestId(id)).ends > 0; }))
        << id << " of " << taken.back() << ": " << where(ModelId(id % kModels));
    const auto collected = sink_.of(RequestId(id));
    EXPECT_EQ(collected.ends, 1) << id;
    reasons[collected.end->reason] += 1;
    if (collected.end->reason != request::FinishReason::kError) continue;
    codes[collected.end->code] += 1;
    EXPECT_FALSE(collected.end->error.empty());
  }
  EXPECT_GT(taken.size(), 200u);
  EXPECT_GT(reasons[request::FinishReason::kLength], 20);
  EXPECT_EQ(codes[ErrorCode::kUnavailable], reasons[request::FinishReason::kError])
      << codes.begin()->second << " of code " << name_of(codes.begin()->first);
  // All that follows is served.
  for (std::int64_t model = 0; model < kModels; ++model) {
    EXPECT_TRUE(wait_until([&] { return answered(++last_ + 1'000'000, ModelId(model)); }));
  }
  EXPECT_GE(workers_[0]->starts() + workers_[1]->starts(), 12);
}

TEST_F(WorkerFleetTest, TheOnlyWorkerComesBackAndItsModelsWithIt) {
  open(1);
  ASSERT_TRUE(answered(1, ModelId(0)));
  const Nanos start = clock_.now();
  ASSERT_EQ(::kill(workers_[0]->pid(), SIGKILL), 0);
  std::int64_t id = 100;
  ASSERT_TRUE(wait_until([&] { return answered(++id, ModelId(0)); }));
  fmt::print("killed, it serves again after {:.0f} ms\n", to_millis(clock_.now() - start));
  EXPECT_LT(clock_.now() - start, seconds(5));
  EXPECT_TRUE(fleet_->observe().lost.empty());
  EXPECT_EQ(workers_[0]->starts(), 2);
  EXPECT_TRUE(answered(2, ModelId(1)));
}

TEST_F(WorkerFleetTest, AnotherWorkerServesMeanwhile) {
  open(2);
  for (std::int64_t model = 0; model < kModels; ++model) {
    ASSERT_TRUE(answered(model, ModelId(model)));
  }
  ASSERT_EQ(::kill(workers_[0]->pid(), SIGKILL), 0);
  for (std::int64_t model = 0; model < kModels; ++model) {
    EXPECT_TRUE(wait_until([&] { return answered(++last_ + 1000, ModelId(model)); }));
  }
}

}  // namespace
}  // namespace causeway::worker
