#include "weights/model_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/testing/temporary_directory.h"
#include "base/testing/test_data.h"
#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/testing/checkpoints.h"

namespace causeway::weights::model_pool_test {
namespace {

using ::testing::HasSubstr;
using testing::write_tensors;

constexpr ModelId kModel(3);

// Two groups; "qkv" stacks three tensors, "norm" is a vector.
LoadPlan small_plan(DType dtype) {
  return {dtype,
          {{"layers.0",
            {{"norm", {{"n", 1, 6}}},
             {"qkv", {{"q", 4, 6}, {"k", 2, 6}, {"v", 2, 6}}},
             {"bias", {{"b", 3, 1}, {"c", 2, 1}}}}},
           {"head", {{"lm_head", {{"h", 5, 6}}}}}}};
}

std::vector<TensorSpec> small_tensors(DType dtype) {
  return {{"h", dtype, {5, 6}}, {"v", dtype, {2, 6}}, {"q", dtype, {4, 6}}, {"b", dtype, {3}},
          {"n", dtype, {6}},    {"k", dtype, {2, 6}}, {"c", dtype, {2}},    {"x", dtype, {100}}};
}

class ModelPoolTest : public ::testing::Test {
 protected:
  Status load(const LoadPlan& plan, ModelId id = kModel) { return load_into(pool_, plan, id); }
  Status load_into(ModelPool& pool, const LoadPlan& plan, ModelId id) {
    return load_from(pool, directory_.path(), plan, id);
  }
  Status load_from(ModelPool& pool, const std::filesystem::path& directory, const LoadPlan& plan,
                   ModelId id) {
    CAUSEWAY_ASSIGN(const WeightLayout layout, lay_out(plan));
    return pool.load(id, {directory, plan, layout}, options_);
  }
  std::string bytes_of(const TensorView& view) {
    return {reinterpret_cast<const char*>(view.data),
            to_size(size_of(view.dtype)) * static_cast<std::size_t>(view.rows * view.cols)};
  }
  void expect_nothing_left() {
    EXPECT_FALSE(pool_.is_loaded(kModel));
    EXPECT_EQ(pool_.use().used, Bytes(0));
    EXPECT_EQ(pool_.use().models, 0);
    EXPECT_EQ(memory_.total_bytes(), Bytes(0));
  }
  std::filesystem::path model_file() { return directory_.path() / "model.safetensors"; }

  TemporaryDirectory directory_;
  device::HostMemory memory_;
  RealClock clock_;
  LoadOptions options_{.threads = 2};
  ModelPool pool_{memory_, clock_, mib(64)};
};

TEST_F(ModelPoolTest, GroupsAreContiguousAndTensorsStacked) {
  const auto content = write_tensors(model_file(), small_tensors(DType::kBF16), 1);
  ASSERT_TRUE(load(small_plan(DType::kBF16)).ok());
  const auto model = pool_.pin(kModel);
  ASSERT_TRUE(model.ok());
  const TensorView qkv = (*model)->weights().tensor("layers.0", "qkv");
  EXPECT_EQ(qkv.rows, 8);
  EXPECT_EQ(qkv.cols, 6);
  EXPECT_EQ(qkv.dtype, DType::kBF16);
  EXPECT_EQ(bytes_of(qkv), content.at("q") + content.at("k") + content.at("v"));
  EXPECT_EQ(bytes_of((*model)->weights().tensor("layers.0", "norm")), content.at("n"));
  EXPECT_EQ(bytes_of((*model)->weights().tensor("layers.0", "bias")),
            content.at("b") + content.at("c"));
  EXPECT_EQ(bytes_of((*model)->weights().tensor("head", "lm_head")), content.at("h"));
  const auto& groups = (*model)->layout().groups;
  ASSERT_EQ(groups.size(), 2u);
  for (const PlacedGroup& group : groups) {
    EXPECT_EQ(group.offset % kib(4), Bytes(0));
    const auto range = memory_.resolve((*model)->address(group.offset), group.bytes);
    const auto* first =
        (*model)->weights().tensor(group.name, group.name == "head" ? "lm_head" : "norm").data;
    EXPECT_EQ(range.data(), first);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(qkv.data) % 256, 0u);
  EXPECT_EQ((*model)->bytes(), groups[1].offset + groups[1].bytes);
}

TEST_F(ModelPoolTest, ConvertsWhatIsStoredInAnotherType) {
  for (const DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kF16, DType::kBF16}) {
      const auto content = write_tensors(model_file(), small_tensors(from), 9);
      ASSERT_TRUE(load(small_plan(to)).ok());
      auto model = pool_.pin(kModel);
      const std::string stacked = content.at("q") + content.at("k") + content.at("v");
      std::string expected(48 * to_size(size_of(to)), '\0');
      convert_elements(std::as_bytes(std::span(stacked)), from,
                       reinterpret_cast<std::byte*>(expected.data()), to);
      EXPECT_EQ(bytes_of((*model)->weights().tensor("layers.0", "qkv")), expected);
      EXPECT_EQ(pool_.unload(kModel).error().code, ErrorCode::kUnavailable);
      model->reset();
      EXPECT_TRUE(pool_.unload(kModel).ok());
    }
  }
}

TEST_F(ModelPoolTest, RowsOfATensorComeInTheOrderOfThePlan) {
  const auto content = write_tensors(model_file(), small_tensors(DType::kF32), 9);
  // h is [5, 6].
  const LoadPlan plan = {
      DType::kF32,
      {{"head", {{"some", {{"h", 2, 6, 5, 3}, {"h", 1, 6, 5, 0}, {"h", 1, 6, 5, 2}}}}}}};
  ASSERT_TRUE(load(plan).ok());
  {
    const auto model = pool_.pin(kModel);
    const std::string& h = content.at("h");
    EXPECT_EQ(bytes_of((*model)->weights().tensor("head", "some")),
              h.substr(72, 48) + h.substr(0, 24) + h.substr(48, 24));
  }
  ASSERT_TRUE(pool_.unload(kModel).ok());
  LoadPlan wrong = plan;
  for (auto& source : wrong.groups[0].tensors[0].sources) source.tensor_rows = 7;
  EXPECT_THAT(load(wrong).error().message, HasSubstr("asks for [7, 6]"));
}

TEST_F(ModelPoolTest, ShapesAndNamesAreChecked) {
  const auto expect_error = [&](const LoadPlan& plan, ErrorCode code, const std::string& part) {
    const Status status = load(plan);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, code) << status.error().message;
    EXPECT_THAT(status.error().message, HasSubstr(part));
    EXPECT_THAT(status.error().message, HasSubstr("model.safetensors"));
    expect_nothing_left();
  };
  write_tensors(model_file(), small_tensors(DType::kF32), 1);
  LoadPlan plan = small_plan(DType::kF32);
  plan.groups[0].tensors[1].sources[1].name = "nowhere";
  expect_error(plan, ErrorCode::kNotFound, "tensor nowhere is missing");
  plan = small_plan(DType::kF32);
  plan.groups[0].tensors[1].sources[1].rows = 3;
  expect_error(plan, ErrorCode::kCorrupt,
               "k: has the shape [2, 6], but config.json asks for [3, 6]");
  plan = small_plan(DType::kF32);
  plan.groups[1].tensors[0].sources[0] = {"h", 6, 5};
  expect_error(plan, ErrorCode::kCorrupt, "h: has the shape [5, 6]");
  plan.groups[1].tensors[0].sources[0] = {"n", 2, 3};
  expect_error(plan, ErrorCode::kCorrupt, "n: has the shape [6]");
  testing::write_file(model_file(),
                      testing::raw_safetensors(
                          R"({"h": {"dtype": "I8", "shape": [5, 6], "data_offsets": [0, 30]}})",
                          std::string(30, 'x')));
  expect_error({DType::kF32, {{"head", {{"lm_head", {{"h", 5, 6}}}}}}}, ErrorCode::kUnsupported,
               "h: has the dtype I8");
}

TEST_F(ModelPoolTest, BudgetIsKept) {
  write_tensors(model_file(), small_tensors(DType::kF32), 1);
  ModelPool small(memory_, clock_, kib(8));
  const LoadPlan plan = small_plan(DType::kF32);
  ASSERT_TRUE(load_into(small, plan, ModelId(1)).ok());
  const PoolUse use = small.use();
  EXPECT_EQ(use.models, 1);
  EXPECT_GT(use.used, kib(4));
  const Status full = load_into(small, plan, ModelId(2));
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.error().message, HasSubstr(directory_.path().string()));
  EXPECT_FALSE(small.is_loaded(ModelId(2)));
  EXPECT_EQ(small.use().used, use.used);
  ASSERT_TRUE(small.unload(ModelId(1)).ok());
  EXPECT_EQ(small.use().used, Bytes(0));
  EXPECT_TRUE(load_into(small, plan, ModelId(2)).ok());
}

TEST_F(ModelPoolTest, PinsHoldTheModel) {
  write_tensors(model_file(), small_tensors(DType::kF32), 1);
  EXPECT_EQ(pool_.pin(kModel).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(pool_.unload(kModel).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(load(small_plan(DType::kF32)).ok());
  EXPECT_EQ(load(small_plan(DType::kF32)).error().code, ErrorCode::kInvalidArgument);
  {
    const auto first = pool_.pin(kModel), second = pool_.pin(kModel);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ((*first)->weights().tensor("head", "lm_head").data,
              (*second)->weights().tensor("head", "lm_head").data);
    EXPECT_EQ(pool_.unload(kModel).error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(pool_.is_loaded(kModel));
    EXPECT_DEATH((*first)->weights().tensor("head", "nothing"), "nothing");
  }
  EXPECT_TRUE(pool_.unload(kModel).ok());
  expect_nothing_left();
}

// Before the memory goes, and when nobody can pin the model any more.
TEST_F(ModelPoolTest, TellsOfAHomeThatLeaves) {
  int told = 0;
  const HomeLeaves leaves = [&](device::HostAddress address, Bytes bytes) {
    ++told;
    EXPECT_EQ(memory_.resolve(address, bytes).size(), to_size(bytes));
    EXPECT_EQ(pool_.pin(kModel).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(pool_.unload(kModel).error().code, ErrorCode::kUnavailable);
  };
  const WeightLayout layout = lay_out(small_plan(DType::kBF16)).value();
  const auto nothing = [](std::span<std::byte>) { return Status(); };
  ASSERT_TRUE(pool_.make(kModel, layout, nothing, {.home_leaves = leaves}).ok());
  EXPECT_EQ(told, 0);
  {
    const auto pinned = pool_.pin(kModel);
    EXPECT_EQ(pool_.unload(kModel, leaves).error().code, ErrorCode::kUnavailable);
  }
  ASSERT_TRUE(pool_.unload(kModel, leaves).ok());
  EXPECT_EQ(told, 1);
  expect_nothing_left();
}

// A page that the device cannot register fails the load; what it could is taken back.
TEST_F(ModelPoolTest, AnotherProcesssModelIsAdoptedWithoutACopy) {
  const auto content = write_tensors(model_file(), small_tensors(DType::kBF16), 1);
  ASSERT_TRUE(load(small_plan(DType::kBF16)).ok());
  const auto home = pool_.pin(kModel).value();
  device::HostMemory memory;
  ModelPool worker(memory, clock_, Bytes(0));
  const int fd = memory_.file_descriptor(home->address().region);
  const auto adopt = [&](const WeightLayout& layout, const LoadOptions& options) {
    const auto region = memory.adopt(fd, home->bytes(), device::HostAccess::kRead);
    return worker.adopt(kModel, layout, region.value(), options);
  };
  int taken = 0, left = 0;
  const LoadOptions reach{.home_taken = [&](device::HostAddress, Bytes bytes) -> Status {
    EXPECT_EQ(bytes, home->bytes());
    return ++taken == 1 ? Status(exhausted("no more pins")) : Status();
  }};
  EXPECT_EQ(adopt(home->layout(), reach).error().message, "no more pins");
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
  WeightLayout larger = home->layout();
  larger.bytes = mib(1);
  EXPECT_EQ(adopt(larger, {}).error().code, ErrorCode::kCorrupt);

  ASSERT_TRUE(adopt(home->layout(), reach).ok());
  EXPECT_EQ(adopt(home->layout(), {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(memory.total_bytes(), memory_.total_bytes());
  {
    const auto model = worker.pin(kModel).value();
    EXPECT_EQ(bytes_of(model->weights().tensor("head", "lm_head")), content.at("h"));
    EXPECT_EQ(worker.unload(kModel).error().code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(worker.use().used, Bytes(0));
  ASSERT_TRUE(worker.unload(kModel, [&](device::HostAddress, Bytes) { ++left; }).ok());
  EXPECT_EQ(left, 1);
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

TEST_F(ModelPoolTest, AHomeThatADeviceCannotReachFailsTheLoad) {
  write_tensors(model_file(), small_tensors(DType::kBF16), 1);
  int told = 0;
  options_.home_taken = [](device::HostAddress, Bytes) {
    return exhausted("the driver pins no more pages");
  };
  options_.home_leaves = [&](device::HostAddress address, Bytes bytes) {
    told += memory_.resolve(address, bytes).empty() ? 0 : 1;
  };
  const Status failed = load(small_plan(DType::kBF16));
  EXPECT_EQ(failed.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(failed.error().message, HasSubstr("pins no more pages"));
  EXPECT_EQ(told, 1);
  expect_nothing_left();
  options_.home_taken = {};
  EXPECT_TRUE(load(small_plan(DType::kBF16)).ok());
}

TEST_F(ModelPoolTest, CancelledLoadLeavesNothing) {
  write_tensors(model_file(), {{"h", DType::kBF16, {4096, 4096}}}, 1);
  std::atomic<int> polls{0};
  options_.cancelled = [&] { return ++polls > 2; };
  const LoadPlan plan{DType::kBF16, {{"head", {{"lm_head", {{"h", 4096, 4096}}}}}}};
  EXPECT_EQ(load(plan).error().code, ErrorCode::kCancelled);
  expect_nothing_left();
  options_.cancelled = [] { return false; };
  EXPECT_TRUE(load(plan).ok());
}

// A clock that moves by 30 ms each time somebody looks.
class SteppingClock final : public Clock {
 public:
  Nanos now() const override { return Nanos(now_.fetch_add(millis(30).count)); }

 private:
  mutable std::atomic<std::int64_t> now_{0};
};

TEST_F(ModelPoolTest, ProgressIsToldAtMostEvery100MsAndAtTheEnd) {
  write_tensors(model_file(), {{"h", DType::kBF16, {40 * 1024, 1024}}}, 1);
  const SteppingClock clock;
  ModelPool pool(memory_, clock, mib(128));
  std::vector<LoadProgress> told;
  options_.progress = [&](const LoadProgress& progress) { told.push_back(progress); };
  options_.threads = 1;
  const LoadPlan plan{DType::kBF16, {{"head", {{"lm_head", {{"h", 40 * 1024, 1024}}}}}}};
  ASSERT_TRUE(load_into(pool, plan, kModel).ok());
  ASSERT_GE(told.size(), 2u);
  Nanos before(0);
  for (std::size_t i = 0; i + 1 < told.size(); ++i) {
    EXPECT_EQ(told[i].total, mib(80));
    EXPECT_LT(told[i].done, told[i].total);
    EXPECT_GE(told[i].elapsed - before, millis(100));
    EXPECT_NEAR(told[i].bytes_per_second * to_seconds(told[i].elapsed),
                static_cast<double>(told[i].done.count), 1000);
    EXPECT_GT(told[i].remaining, Nanos(0));
    before = told[i].elapsed;
  }
  EXPECT_EQ(told.back().done, told.back().total);
  EXPECT_EQ(told.back().remaining, Nanos(0));
}

TEST_F(ModelPoolTest, AFileThatShrinksWhileItIsReadIsAnError) {
  write_tensors(model_file(), {{"h", DType::kBF16, {4096, 4096}}}, 1);
  std::atomic<bool> cut{false};
  options_.threads = 1;       // a second reader might be past the cut before it is made
  options_.cancelled = [&] {  // called before each piece
    if (!cut.exchange(true)) std::filesystem::resize_file(model_file(), mib(16).count + 5);
    return false;
  };
  const LoadPlan plan{DType::kBF16, {{"head", {{"lm_head", {{"h", 4096, 4096}}}}}}};
  const Status status = load(plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("model.safetensors: ends at byte"));
  expect_nothing_left();
}

TEST_F(ModelPoolTest, ConcurrentLoadsPinsAndUnloads) {
  write_tensors(model_file(), small_tensors(DType::kF32), 1);
  const LoadPlan plan = small_plan(DType::kF32);
  std::atomic<int> loads{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const ModelId id((i + t) % 2);
        loads += load(plan, id).ok();
        if (auto model = pool_.pin(id); model.ok()) {
          EXPECT_EQ((*model)->weights().tensor("head", "lm_head").rows, 5);
        }
        if (i % 3 == t % 3) (void)pool_.unload(id).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(loads.load(), 2);
  for (const ModelId id : {ModelId(0), ModelId(1)}) (void)pool_.unload(id).ok();
  expect_nothing_left();
}

RC_GTEST_FIXTURE_PROP(ModelPoolTest, AnyCutOfTensorsIntoShardsLoadsTheSameBytes, ()) {
  TemporaryDirectory directory;
  const int count = *rc::gen::inRange(1, 12);
  const int shards = *rc::gen::inRange(1, 4);
  std::vector<std::vector<TensorSpec>> specs(static_cast<std::size_t>(shards));
  nlohmann::json map;
  LoadPlan plan{DType::kBF16, {{"g", {}}}};
  for (int i = 0; i < count; ++i) {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 60),
               cols = *rc::gen::inRange<std::int64_t>(1, 60);
    const int shard = *rc::gen::inRange(0, shards);
    const std::string name = "t" + std::to_string(i);
    const DType dtype = *rc::gen::element(DType::kBF16, DType::kBF16, DType::kF32);
    specs[static_cast<std::size_t>(shard)].push_back({name, dtype, {rows, cols}});
    map["weight_map"][name] = "s" + std::to_string(shard) + ".safetensors";
    if (*rc::gen::inRange(0, 5) != 0)
      plan.groups[0].tensors.push_back({name, {{name, rows, cols}}});
  }
  RC_PRE(!plan.groups[0].tensors.empty());
  std::map<std::string, std::pair<std::string, DType>> content;
  for (int s = 0; s < shards; ++s) {
    const auto& in_shard = specs[static_cast<std::size_t>(s)];
    if (in_shard.empty()) continue;
    const auto file = directory.path() / ("s" + std::to_string(s) + ".safetensors");
    const auto written = write_tensors(file, in_shard, 100u * static_cast<unsigned>(s));
    for (const auto& spec : in_shard) content[spec.name] = {written.at(spec.name), spec.dtype};
  }
  testing::write_file(directory.path() / "model.safetensors.index.json", map.dump());
  RC_ASSERT(load_from(pool_, directory.path(), plan, kModel).ok());
  const auto model = pool_.pin(kModel);
  for (const auto& tensor : plan.groups[0].tensors) {
    const TensorView view = (*model)->weights().tensor("g", tensor.name);
    const auto& [bytes, dtype] = content.at(tensor.name);
    std::string expected(static_cast<std::size_t>(view.rows * view.cols) * 2, '\0');
    convert_elements(std::as_bytes(std::span(bytes)), dtype,
                     reinterpret_cast<std::byte*>(expected.data()), DType::kBF16);
    RC_ASSERT(bytes_of(view) == expected);
  }
}

TEST_F(ModelPoolTest, RealModelWholeAndShardedIsTheSame) {
  CAUSEWAY_TEST_DATA_OR_SKIP(whole, "models/stories260K");
  const auto checkpoint = Checkpoint::open(*whole);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  LoadPlan plan{DType::kF32, {{"all", {}}}};
  for (const TensorInfo& info : checkpoint->files()[0].tensors) {
    const bool vector = info.shape.size() == 1;
    plan.groups[0].tensors.push_back(
        {info.name,
         {{info.name, vector ? 1 : info.shape[0], vector ? info.shape[0] : info.shape[1]}}});
  }
  ASSERT_TRUE(load_from(pool_, *whole, plan, ModelId(1)).ok());
  ASSERT_TRUE(load_from(pool_, *whole / "sharded", plan, ModelId(2)).ok());
  const auto one = pool_.pin(ModelId(1)), two = pool_.pin(ModelId(2));
  ASSERT_EQ((*one)->bytes(), (*two)->bytes());
  EXPECT_GT((*one)->bytes(), Bytes(1'040'000));
  const auto bytes = (*one)->bytes();
  EXPECT_EQ(std::memcmp(memory_.resolve((*one)->address(), bytes).data(),
                        memory_.resolve((*two)->address(), bytes).data(), to_size(bytes)),
            0);
  const std::string file = testing::read_file(*whole / "model.safetensors");
  const TensorInfo& last = checkpoint->files()[0].tensors.back();
  EXPECT_EQ(bytes_of((*one)->weights().tensor("all", last.name)),
            file.substr(to_size(last.offset), to_size(last.bytes)));
}

}  // namespace
}  // namespace causeway::weights::model_pool_test
