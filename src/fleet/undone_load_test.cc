// A load whose slice is lost, and is back, before the model is attached there.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/testing/temporary_directory.h"
#include "fleet/local_fleet.h"
#include "fleet/testing/idle_slice.h"
#include "fleet/testing/snapshot.h"

namespace causeway::fleet::undone_load_test {
namespace {

// The load of its model ends when the test says so.
class SlowHome final : public FleetHome {
 public:
  Result<HostRoom> room_for(const CatalogueEntry&, const ModelSource&) override {
    return HostRoom{.needed = Bytes(1), .used = Bytes(0), .budget = Bytes(100)};
  }
  Status load(const CatalogueEntry&, const ModelSource&, const LoadWatch&) override {
    std::unique_lock lock(mutex_);
    begun_ = true;
    changed_.notify_all();
    const bool opened = changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
    return opened ? Status() : unavailable("the test has not let it end");
  }
  void unload(ModelId) override {}

  bool wait_for_load() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return begun_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, open_ = false;
};

// As a worker's: it comes back, with nothing attached, and takes a model once.
class RestartingSlice final : public testing::IdleSlice {
 public:
  request::Observation observe() const override {
    request::Observation seen;
    if (lost_) seen.lost = "the test has taken it away";
    return seen;
  }
  Result<AttachedModel> attach(const CatalogueEntry&, const ModelSource&, bool) override {
    if (++attached_ > 1) return invalid_argument("the model is attached already");
    return AttachedModel{};
  }
  bool restarts() const override { return true; }
  bool returned() override {
    lost_ = false;
    ++returns_;
    return true;
  }
  void lose() { lost_ = true; }
  int attached() const { return attached_; }
  int returns() const { return returns_; }

 private:
  std::atomic<bool> lost_ = false;
  std::atomic<int> attached_ = 0, returns_ = 0;
};

class NoSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output>) override {}
};

TEST(UndoneLoad, NothingIsAttachedForItToASliceThatIsBack) {
  TemporaryDirectory folder;
  testing::write_snapshot(folder.path());
  const ModelSource source{"m0", folder.path()};
  std::vector<CatalogueModel> models;
  models.push_back({load_entry(ModelId(0), source, {}).value(), source});
  SlowHome home;
  NoSink collected;
  SerialSink sink(collected);
  RestartingSlice slice;
  FleetSlices slices;
  slices.slices = {&slice};
  const auto fleet =
      LocalFleet::start(std::move(models), {.load_ahead = true}, home, std::move(slices), sink)
          .value();
  ASSERT_TRUE(home.wait_for_load());
  slice.lose();
  const RealClock clock;
  const Nanos limit = clock.now() + seconds(20);
  while (slice.returns() == 0 && clock.now() < limit) std::this_thread::yield();
  ASSERT_EQ(slice.returns(), 1);
  home.open();
  ASSERT_TRUE(fleet->wait_until_loaded(seconds(20)));
  EXPECT_EQ(slice.attached(), 1) << "the fleet knows of each time";
  EXPECT_EQ(fleet->status(ModelId(0)).state, ModelState::kReady);
  EXPECT_TRUE(fleet->stop());
}

}  // namespace
}  // namespace causeway::fleet::undone_load_test
