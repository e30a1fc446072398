// A LocalFleet whose folder of models changes while it serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "fleet/local_fleet.h"
#include "fleet/testing/idle_slice.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet::reload_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Reads a folder as the program does, without its options.
class FolderReader final : public CatalogueReader {
 public:
  explicit FolderReader(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::vector<CatalogueModel> read_all() {
    std::vector<CatalogueModel> all;
    std::vector<ModelSource> sources = find_models(folder_).value();
    for (ModelSource& source : sources) {
      const ModelId id(std::ssize(all));
      auto entry = load_entry(id, source, {}).value();
      all.push_back({std::move(entry), std::move(source)});
    }
    return all;
  }
  Result<CatalogueFound> read(std::span<const KnownModel> known,
                              const std::function<bool()>& cancelled) override {
    while (held && !cancelled()) std::this_thread::yield();
    auto sources = find_models(folder_);
    if (!sources.ok()) return unavailable(sources.error().message);
    CatalogueFound found;
    std::int64_t next = std::ssize(known);
    std::vector<bool> there(known.size());
    for (ModelSource& source : *sources) {
      const auto at = std::find_if(known.begin(), known.end(),
                                   [&](const auto& one) { return one.name == source.name; });
      if (at != known.end()) there[static_cast<std::size_t>(at - known.begin())] = true;
      if (at != known.end() && at->served) continue;
      const ModelId id(at != known.end() ? at - known.begin() : next++);
      auto entry = load_entry(id, source, {}).value();
      found.models.push_back({std::move(entry), std::move(source)});
    }
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i].served && !there[i]) found.gone.emplace_back(i);
    }
    return found;
  }
  std::atomic<bool> held = false;

 private:
  const std::filesystem::path folder_;
};

class CollectingSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::scoped_lock lock(mutex_);
    for (auto& output : outputs) ended_.emplace(output.request, std::move(output));
    changed_.notify_all();
  }
  request::Output wait(RequestId id) {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_.contains(id); });
    EXPECT_TRUE(came);
    return came ? ended_.at(id) : request::Output();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, request::Output> ended_;
};

class Home final : public FleetHome {
 public:
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    return HostRoom{.needed = Bytes(10), .used = Bytes(10 * there_), .budget = Bytes(1000)};
  }
  Status load(const CatalogueEntry&, const ModelSource&, const LoadWatch&) override {
    ++there_;
    return {};
  }
  void unload(ModelId) override { --there_; }
  int there() const { return there_; }

 private:
  std::atomic<int> there_ = 0;
};

// Ends requests at once, or when it is let go.
class EchoSlice final : public testing::IdleSlice {
 public:
  explicit EchoSlice(SerialSink& sink) : sink_(sink) {}
  Status submit(request::Request request) override {
    request::Output output;
    output.request = request.id;
    output.finished = true;
    output.reason = request::FinishReason::kLength;
    const std::scoped_lock lock(mutex_);
    kept_.push_back(std::move(output));
    return {};
  }
  void let_go() {
    std::vector<request::Output> outputs;
    {
      const std::scoped_lock lock(mutex_);
      outputs = std::exchange(kept_, {});
    }
    sink_.on_outputs(std::move(outputs));
  }

 private:
  SerialSink& sink_;
  std::mutex mutex_;
  std::vector<request::Output> kept_;
};

class ReloadTest : public ::testing::Test {
 protected:
  void start(const std::vector<std::string>& names, bool load_ahead = false) {
    for (const auto& name : names) testing::write_snapshot(folder_.path() / name);
    FleetSlices slices;
    slices.slices = {&slice_};
    fleet_ = LocalFleet::start(reader_.read_all(), {.load_ahead = load_ahead, .reader = &reader_},
                               home_, std::move(slices), sink_)
                 .value();
  }
  void add(const std::string& name) { testing::write_snapshot(folder_.path() / name); }
  void remove(const std::string& name) { std::filesystem::remove_all(folder_.path() / name); }
  request::Output asked(std::int64_t id, AskKind kind, ModelId model = {}) {
    const Status taken = fleet_->ask({.id = RequestId(id), .kind = kind, .model = model});
    EXPECT_TRUE(taken.ok()) << taken.error().message;
    return collected_.wait(RequestId(id));
  }
  ReloadReport reload(std::int64_t id) {
    EXPECT_EQ(asked(id, AskKind::kReload).reason, request::FinishReason::kStop);
    return fleet_->last_reload();
  }
  Status submit(std::int64_t id, ModelId model) {
    request::Request request;
    request.id = RequestId(id);
    request.model = model;
    request.prompt = {1};
    return fleet_->submit(std::move(request));
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const CatalogueEntry* entry : fleet_->catalogue()) names.push_back(entry->name);
    return names;
  }

  TemporaryDirectory folder_;
  FolderReader reader_{folder_.path()};
  CollectingSink collected_;
  SerialSink sink_{collected_};
  Home home_;
  EchoSlice slice_{sink_};
  std::unique_ptr<LocalFleet> fleet_;
};

TEST_F(ReloadTest, NewModelsAreServedAndOthersNoLonger) {
  start({"a", "b"});
  asked(1, AskKind::kLoad, ModelId(0));
  const CatalogueEntry* const before = fleet_->find("a");
  remove("a");
  add("c");
  const ReloadReport report = reload(2);
  EXPECT_THAT(report.added, ElementsAre("c"));
  EXPECT_THAT(report.removed, ElementsAre("a"));
  EXPECT_THAT(report.kept, IsEmpty());
  EXPECT_THAT(names(), ElementsAre("b", "c"));
  EXPECT_EQ(fleet_->find("a"), nullptr);
  EXPECT_EQ(home_.there(), 0) << "it has left host memory";
  EXPECT_EQ(before->name, "a") << "whoever has the entry may use it on";
  EXPECT_EQ(submit(3, ModelId(0)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(fleet_->status(ModelId(2)).state, ModelState::kUnloaded)
      << "on demand, as at the start";
  EXPECT_EQ(asked(4, AskKind::kLoad, fleet_->find("c")->id).reason, request::FinishReason::kStop);
  EXPECT_EQ(fleet_->observe_models().size(), 3u) << "counts stay";

  add("a");
  EXPECT_THAT(reload(5).added, ElementsAre("a"));
  EXPECT_EQ(fleet_->find("a")->id, ModelId(0)) << "under its id";
  EXPECT_NE(fleet_->find("a"), before) << "read anew";
  EXPECT_EQ(asked(6, AskKind::kLoad, ModelId(0)).reason, request::FinishReason::kStop);
  EXPECT_EQ(home_.there(), 2);
  EXPECT_THAT(reload(7).added, IsEmpty());
}

TEST_F(ReloadTest, NewModelsAreLoadedAheadWhereOthersWere) {
  start({"a"}, /*load_ahead=*/true);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  add("b");
  reload(1);
  ASSERT_TRUE(fleet_->wait_until_loaded(seconds(20)));
  EXPECT_EQ(fleet_->status(ModelId(1)).state, ModelState::kReady);
}

TEST_F(ReloadTest, AModelInUseIsKeptAndServedOn) {
  start({"a", "b"});
  asked(1, AskKind::kLoad, ModelId(0));
  ASSERT_TRUE(submit(2, ModelId(0)).ok());
  remove("a");
  const ReloadReport report = reload(3);
  ASSERT_EQ(report.kept.size(), 1u);
  EXPECT_EQ(report.kept[0].model, "a");
  EXPECT_THAT(report.kept[0].why, HasSubstr("1 request"));
  EXPECT_THAT(report.removed, IsEmpty());
  EXPECT_NE(fleet_->find("a"), nullptr);
  slice_.let_go();
  collected_.wait(RequestId(2));
  while (fleet_->status(ModelId(0)).state == ModelState::kActive) std::this_thread::yield();
  EXPECT_THAT(reload(4).removed, ElementsAre("a"));
}

TEST_F(ReloadTest, AFolderThatCannotBeReadChangesNothing) {
  start({"a"});
  remove("a");
  const request::Output answer = asked(1, AskKind::kReload);
  EXPECT_EQ(answer.reason, request::FinishReason::kError);
  EXPECT_EQ(answer.code, ErrorCode::kUnavailable);
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(ReloadTest, AStopEndsIt) {
  start({"a"});
  reader_.held = true;
  ASSERT_TRUE(fleet_->ask({.id = RequestId(1), .kind = AskKind::kReload}).ok());
  EXPECT_FALSE(fleet_->ask({.id = RequestId(2), .kind = AskKind::kReload}).ok());
  EXPECT_TRUE(fleet_->stop());
  EXPECT_EQ(collected_.wait(RequestId(1)).code, ErrorCode::kUnavailable);
}

// Names are looked up, and requests come, while models come and go.
TEST_F(ReloadTest, OthersServeMeanwhile) {
  start({"a", "b"});
  std::atomic<bool> ends = false;
  std::atomic<std::int64_t> served = 0;
  std::thread others([&] {
    for (std::int64_t id = 1000; !ends; ++id) {
      for (const CatalogueEntry* entry : fleet_->catalogue()) EXPECT_FALSE(entry->name.empty());
      const CatalogueEntry* const model = fleet_->find(id % 2 == 0 ? "a" : "b");
      if (model == nullptr || !submit(id, model->id).ok()) continue;
      while (fleet_->status(model->id).state != ModelState::kActive) std::this_thread::yield();
      slice_.let_go();
      collected_.wait(RequestId(id));
      ++served;
      (void)fleet_->observe_models();
    }
  });
  for (std::int64_t round = 0; round < 40 || served < 20; ++round) {
    round % 2 == 0 ? remove("a") : add("a");
    if (round % 3 == 0) add("c" + std::to_string(round));
    reload(round);
  }
  ends = true;
  others.join();
  EXPECT_TRUE(fleet_->stop());
}

}  // namespace
}  // namespace causeway::fleet::reload_test
