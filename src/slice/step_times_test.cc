#include "slice/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/must.h"
#include "engine/testing/collecting_sink.h"
#include "model/shape_text.h"
#include "slice/host_slice.h"
#include "slice/testing/small_model.h"

namespace causeway::slice::step_times_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

model::ModelCard card() { return must(host_card(testing::small_model(3, false), kib(16))); }

schedule::StepTable table_of(Tokens most) {
  schedule::StepTable table{.decodes = 4};
  for (const Tokens tokens : schedule::table_sizes(most)) {
    table.times.push_back({.tokens = tokens, .alone = 0.01, .beside = 0.02});
  }
  return table;
}

// Tables of the small model on two processors, and of another shape on three.
schedule::Options options(std::string machine, Tokens most) {
  schedule::Options options{.tokens_per_step_max = 512};
  options.chunk.automatic = true;
  options.chunk.profile = {
      .file = "p.json",
      .machine = std::move(machine),
      .tables = {{.shape = "another", .processors = 3, .table = table_of(Tokens(64))},
                 {.shape = model::shape_text(card().config, card().storage),
                  .processors = 2,
                  .table = table_of(most)}}};
  return options;
}

TEST(StepTimes, AreThoseOfShapeAndSlice) {
  const schedule::Options given = options("m", Tokens(512));
  StepTimes times = must(StepTimes::of(given, "m", 2));
  EXPECT_EQ(times.table(card()).times.size(), table_of(Tokens(512)).times.size());
  StepTimes four = must(StepTimes::of(given, "m", 4));
  EXPECT_TRUE(four.table(card()).empty());
  model::ModelCard other = card();
  other.config.layers += 1;
  EXPECT_TRUE(times.table(other).empty());
}

TEST(StepTimes, WithoutAProfileThereAreNone) {
  const schedule::Options none;
  StepTimes times = must(StepTimes::of(none, "m", 2));
  EXPECT_TRUE(times.table(card()).empty());
}

TEST(StepTimes, OfAnotherMachineAreRefused) {
  const auto refused = StepTimes::of(options("NVIDIA H100", Tokens(512)), "NVIDIA H200", 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("p.json"), HasSubstr("machine"), HasSubstr("NVIDIA H100"),
                    HasSubstr("NVIDIA H200"), HasSubstr("measured anew")));
}

TEST(StepTimes, MustReachTheLargestStep) {
  const schedule::Options given = options("m", Tokens(384));
  const auto refused = StepTimes::of(given, "m", 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("p.json"), HasSubstr("tables[1].steps end at 384 tokens"),
                    HasSubstr("512"), HasSubstr("larger steps")));
  // Tables of slices of another size are not asked.
  EXPECT_TRUE(StepTimes::of(given, "m", 5).ok());
}

TEST(StepTimes, WrongTablesAreRefused) {
  schedule::Options given = options("m", Tokens(512));
  given.chunk.profile.tables[1].table.times.clear();
  EXPECT_THAT(StepTimes::of(given, "m", 2).error().message,
              AllOf(HasSubstr("p.json"), HasSubstr("tables[1]")));
}

TEST(StepTimes, NamesMachines) {
  EXPECT_THAT(host_machine_name(), HasSubstr("cpu ("));
  EXPECT_EQ(gpu_machine_name("GPU 0 (NVIDIA H200)"), "NVIDIA H200");
  EXPECT_EQ(gpu_machine_name("NVIDIA H200"), "NVIDIA H200");
}

// A slice of the CPU hands its models' tables to their engine.
TEST(StepTimes, AHostSliceHasThem) {
  const RealClock clock;
  ModelHome home(clock, mib(64));
  engine::CollectingSink sink;
  const auto machine = must(Machine::open_host({}, {}, home, clock));
  HostSliceOptions slice_options{.kv = mib(4), .kv_frame = kib(16)};
  const auto open = [&](schedule::Options schedule) {
    schedule.chunk.profile.tables[0].processors = machine->host()->processors() + 1;
    schedule.chunk.profile.tables[1].processors = machine->host()->processors();
    slice_options.engine.core.schedule = schedule;
    return open_host_slice(slice_options, *machine, sink);
  };
  EXPECT_FALSE(open(options("another", Tokens(512))).ok());
  const auto slice = must(open(options(host_machine_name(), Tokens(512))));
  const model::ModelCard its_card = must(slice->card(testing::small_model(3, false)));
  const auto fill = [](std::span<std::byte> memory) {
    testing::fill_random(memory, 1);
    return Status();
  };
  must(home.pool.make(ModelId(0), its_card.layout, fill, {}));
  const auto facts = must(slice->attach({.id = ModelId(0),
                                         .card = its_card,
                                         .home = must(home.pool.pin(ModelId(0))),
                                         .max_model_len = Tokens(256)}));
  EXPECT_EQ(facts.step_table.of({.prompt = Tokens(64)}), millis(10));
  EXPECT_EQ(facts.step_min, Nanos(0)) << "what the CPU computes in a second is not known";
  EXPECT_TRUE(slice->engine().add_model(ModelId(0), facts).ok());
  EXPECT_TRUE(slice->engine().remove_model(ModelId(0), seconds(10)).ok());
  slice->detach(ModelId(0));
}

}  // namespace
}  // namespace causeway::slice::step_times_test
