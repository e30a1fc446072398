// `--slices auto` on the CPU: what is asked for changes, and so do the slices.
#include "commands/served_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/temporary_directory.h"
#include "engine/testing/collecting_sink.h"
#include "model/random_model.h"
#include "slice/host_rates.h"

namespace causeway::app::served_slices_test {
namespace {

class ServedSlicesTest : public ::testing::Test {
 protected:
  ServedSlicesTest() {
    machine_ = slice::Machine::open_host({}, {}, home_, clock_).value();
    model::RandomModelOptions random;
    random.config = model::random_model_config(model::Family::kLlama);
    random.config.layers = 1;
    for (const char* name : {"a", "b"}) {
      const auto folder = directory_.path() / name;
      EXPECT_TRUE(model::make_random_model(random, folder).ok());
      const ModelId id(std::ssize(models_));
      auto source = fleet::single_model(folder, name).value();
      models_.push_back({fleet::load_entry(id, source, {}).value(), std::move(source)});
    }
    half_ = machine_->host()->processors() / 2;
    // Of a half that has half of the bandwidth; one that reads alone has 0.9 of it.
    const slice::SliceDemand model = demands_of(models_).front();
    const double step = static_cast<double>(model.bytes_per_step.count) / slice::kBytesPerThread;
    for (auto& one : models_) one.entry->slo.tpot = nanos_from_seconds(1.25 * step / half_);
    // Prompts of 100 tokens that take 0.9 of a half, beside tokens that take 0.4 or more.
    const double prompt = 100 * model.flops_per_token / slice::kFlopsPerThread / half_;
    rate_ = 0.9 / prompt;
  }
  void open(const std::string& slices, bool isolate = false) {
    ServedSlicesOptions options;
    options.slices = slices;
    options.isolate = isolate;
    options.kv = mib(8);
    options.kv_frame = kib(64);
    options.layout_rules = {.lasting = seconds(1), .apart = Nanos(0)};
    slices_ = ServedSlices::open(options, models_, *machine_, sink_).value();
  }
  // What is decided once it has lasted.
  std::optional<fleet::LayoutChange> decide(double rate_a, double rate_b) {
    const std::vector<fleet::ModelDemand> demands = {{rate_a, 100, 1000}, {rate_b, 100, 1000}};
    EXPECT_FALSE(slices_->opener()->decide(demands, clock_.now()));
    return slices_->opener()->decide(demands, clock_.now() + seconds(2));
  }

  const RealClock clock_;
  TemporaryDirectory directory_;
  slice::ModelHome home_{clock_, gib(1)};
  engine::CollectingSink sink_;
  std::unique_ptr<slice::Machine> machine_;
  std::vector<fleet::CatalogueModel> models_;
  int half_ = 0;
  double rate_ = 0;
  std::unique_ptr<ServedSlices> slices_;  // ends first
};

TEST_F(ServedSlicesTest, ADeviceIsDividedAnewAsDemandMoves) {
  if (half_ == 0) GTEST_SKIP() << "one processor cannot be divided";
  open("auto");
  ASSERT_EQ(slices_->fleet().slices.size(), 2u) << "either's prompts would hold up the other";
  ASSERT_EQ(slices_->fleet().specs.size(), 2u);
  const std::int64_t frames = slices_->frames();
  fleet::SliceOpener& opener = *slices_->opener();

  // One model alone wants more than a half.
  const auto whole = decide(rate_, 0);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->closing.size(), 2u);
  ASSERT_EQ(whole->opening.size(), 1u);
  EXPECT_TRUE(whole->opening.front().whole);
  EXPECT_THAT(whole->why, ::testing::HasSubstr("would keep their targets"));
  EXPECT_EQ(opener.reopen(*whole).slices.size(), 1u);
  EXPECT_EQ(slices_->fleet().slices.size(), 1u);
  EXPECT_EQ(slices_->frames(), frames) << "no more is promised than a half can hold";
  EXPECT_FALSE(decide(rate_, 0)) << "it is as it should be";

  // Both, neither of which does.
  const auto halves = decide(rate_ / 4, rate_ / 4);
  ASSERT_TRUE(halves);
  const fleet::SlicesOpened opened = opener.reopen(*halves);
  EXPECT_EQ(opened.slices.size(), 2u);
  EXPECT_EQ(opened.failure, "");
  EXPECT_EQ(slices_->frames(), frames);
}

TEST_F(ServedSlicesTest, WhatCannotBeOpenedIsOpenedAsBefore) {
  if (half_ == 0) GTEST_SKIP() << "one processor cannot be divided";
  open("auto");
  fleet::LayoutChange change{.closing = slices_->fleet().slices, .opening = {}, .why = ""};
  change.opening = {{.gpu = 0, .processors = 100'000, .whole = false, .share = 0.5}};
  const fleet::SlicesOpened opened = slices_->opener()->reopen(change);
  EXPECT_NE(opened.failure, "");
  EXPECT_EQ(opened.slices.size(), 2u);
}

TEST_F(ServedSlicesTest, SlicesThatWereGivenStay) {
  open("all");
  EXPECT_EQ(slices_->opener(), nullptr);
  EXPECT_EQ(slices_->fleet().opener, nullptr);
  EXPECT_TRUE(slices_->fleet().specs.empty());
}

}  // namespace
}  // namespace causeway::app::served_slices_test
