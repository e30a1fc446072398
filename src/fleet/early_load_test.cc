#include "fleet/early_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/must.h"
#include "base/testing/temporary_directory.h"
#include "engine/testing/collecting_sink.h"
#include "fleet/engine_slice.h"
#include "fleet/pool_home.h"
#include "fleet/testing/snapshot.h"
#include "model/random_model.h"
#include "slice/host_slice.h"

namespace causeway::fleet::early_load_test {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kFrame = kib(16);

// Two models in files, and a slice that caches weights, so that a home must be made reachable.
class EarlyLoadTest : public ::testing::Test {
 protected:
  EarlyLoadTest() {
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto path = folder_.path() / std::to_string(i);
      model::RandomModelOptions options;
      options.config = model::random_model_config(model::Family::kLlama);
      must(model::make_random_model(options, path), "a model");
      testing::write_file(path / "tokenizer.json", testing::byte_tokenizer_json());
      testing::write_file(path / "tokenizer_config.json", "{}");
      auto source = must(single_model(path, ""), "a source");
      entries_.push_back(must(load_entry(ModelId(i), source, {}), "an entry"));
      sources_.push_back(std::move(source));
    }
  }

  model::ModelCard card() const {
    return must(
        model::make_card(must(model::load_config(sources_[0].directory)), DType::kBF16, kFrame),
        "a card");
  }

  std::unique_ptr<EarlyLoad> begin() {
    return std::make_unique<EarlyLoad>(home_, clock_, ModelId(0), sources_[0], card());
  }

  void open_slice() {
    machine_ = must(slice::Machine::open_host({.extent_bytes = kib(64)}, {}, home_, clock_));
    slice_ = must(slice::open_host_slice({.kv = mib(4), .kv_frame = kFrame, .cache = mib(16)},
                                         *machine_, sink_));
  }

  RealClock clock_;
  TemporaryDirectory folder_;
  engine::CollectingSink sink_;
  slice::ModelHome home_{clock_, mib(64)};
  std::unique_ptr<slice::Machine> machine_;
  std::unique_ptr<slice::Slice> slice_;
  std::vector<std::unique_ptr<CatalogueEntry>> entries_;
  std::vector<ModelSource> sources_;
};

TEST_F(EarlyLoadTest, IsWhatTheFirstModelIsAttachedFrom) {
  auto early = begin();
  open_slice();
  PoolHome home(home_, {slice_.get()}, clock_, {}, std::move(early));
  const HostRoom room = must(home.room_for(*entries_[0], sources_[0]));
  EXPECT_EQ(room.used, Bytes(0)) << "what it has taken already is its own";
  must(home.load(*entries_[0], sources_[0], {}));
  EXPECT_EQ(home_.pool.use().used, room.needed) << "loaded once";
  EngineSlice slice(home_, *slice_);
  must(slice.attach(*entries_[0], sources_[0], /*pinned=*/false));
  must(home.load(*entries_[1], sources_[1], {}));
  must(slice.attach(*entries_[1], sources_[1], /*pinned=*/false));
  EXPECT_EQ(home_.pool.use().models, 2);
  for (const ModelId model : {ModelId(0), ModelId(1)}) {
    must(slice.detach(model, seconds(20)));
    home.unload(model);
  }
  EXPECT_EQ(home_.pool.use().used, Bytes(0));
}

TEST_F(EarlyLoadTest, IsDroppedForAnotherModel) {
  auto early = begin();
  open_slice();
  PoolHome home(home_, {slice_.get()}, clock_, {}, std::move(early));
  must(home.load(*entries_[1], sources_[1], {}));
  EXPECT_FALSE(home_.pool.is_loaded(ModelId(0)));
  EXPECT_EQ(home_.pool.use().models, 1);
  home.unload(ModelId(1));
}

TEST_F(EarlyLoadTest, ThatNobodyTakesLeavesNothing) {
  begin().reset();  // no slice was opened: it waits for one no longer
  EXPECT_EQ(home_.pool.use().used, Bytes(0));
  auto early = begin();
  open_slice();
  { const PoolHome home(home_, {slice_.get()}, clock_, {}, std::move(early)); }
  EXPECT_EQ(home_.pool.use().used, Bytes(0));
}

TEST_F(EarlyLoadTest, TellsWhatIsWrongWithTheFiles) {
  std::filesystem::resize_file(sources_[0].directory / "model.safetensors", 100);
  auto early = begin();
  open_slice();
  PoolHome home(home_, {slice_.get()}, clock_, {}, std::move(early));
  const Status loaded = home.load(*entries_[0], sources_[0], {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().message, HasSubstr("model.safetensors"));
  EXPECT_EQ(home_.pool.use().used, Bytes(0));
}

TEST_F(EarlyLoadTest, IsCancelledWithTheAttach) {
  auto early = begin();
  open_slice();
  early->slice_opened(*slice_);
  const Status taken = early->take([] { return true; });
  // It may have ended before it was asked.
  EXPECT_TRUE(taken.ok() || taken.error().code == ErrorCode::kCancelled);
  EXPECT_EQ(home_.pool.is_loaded(ModelId(0)), taken.ok());
  early.reset();
  if (taken.ok()) must(home_.pool.unload(ModelId(0)));
}

}  // namespace
}  // namespace causeway::fleet::early_load_test
