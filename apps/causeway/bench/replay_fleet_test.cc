// A replay of a fleet that answers as the test says.
#include "bench/replay_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace causeway::bench::replay_fleet_test {
namespace {

// Two models. Answers at once, in two outputs; refuses, or lets wait, some.
class ScriptedFleet final : public fleet::Fleet {
 public:
  explicit ScriptedFleet(engine::OutputSink& sink) : sink_(sink) {
    for (const char* name : {"a", "b"}) {
      auto& entry = entries_.emplace_back();
      entry.id = ModelId(std::ssize(entries_) + 6);  // its own, not the place in the list
      entry.name = name;
      entry.max_model_len = Tokens(1000);
    }
  }
  std::vector<const fleet::CatalogueEntry*> catalogue() const override {
    return {&entries_[0], &entries_[1]};
  }
  const fleet::CatalogueEntry* find(std::string_view) const override { return nullptr; }
  fleet::ModelStatus status(ModelId) const override { return {}; }
  Status submit(request::Request request) override {
    asked_.push_back(request);
    const std::int64_t id = request.id.value;
    if (refuses.contains(id)) return exhausted("the queue is full");
    if (waits.contains(id)) return {};
    request::Output first, last;
    first.request = last.request = request.id;
    first.tokens.resize(1);
    first.switched.emplace().took = millis(30);
    last.finished = true;
    last.tokens.resize(static_cast<std::size_t>(request.max_tokens.count - 1));
    last.reason =
        fails.contains(id) ? request::FinishReason::kError : request::FinishReason::kLength;
    last.error = fails.contains(id) ? "the step failed" : "";
    if (fails.contains(id)) last.tokens.clear();
    sink_.on_outputs({first});
    sink_.on_outputs({last, last});  // what comes behind an end counts no more
    seen_.link_bytes += Bytes(10);
    return {};
  }
  Status probe(request::Request) override { return {}; }
  Status ask(const fleet::Ask&) override { return {}; }
  void cancel(RequestId request) override {
    cancelled.insert(request.value);
    request::Output end;
    end.request = request;
    end.finished = true;
    end.reason = request::FinishReason::kCancelled;
    sink_.on_outputs({end});
  }
  bool asleep() const override { return false; }
  fleet::ReloadReport last_reload() const override { return {}; }
  request::Observation observe() const override { return seen_; }
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override {
    return {};
  }
  const std::vector<request::Request>& asked() const { return asked_; }

  std::set<std::int64_t> refuses, fails, waits, cancelled;

 private:
  engine::OutputSink& sink_;
  std::vector<fleet::CatalogueEntry> entries_;
  std::vector<request::Request> asked_;
  request::Observation seen_;
};

class ReplayFleetTest : public ::testing::Test {
 protected:
  Result<ReplayReport> run(std::int64_t request_ms = 200) {
    return replay_on_fleet(fleet_, answers_,
                           {.source = "here", .vocab = 50, .request_max = millis(request_ms)},
                           list_, clock_);
  }
  RealClock clock_;
  ReplaySink answers_{clock_};
  ScriptedFleet fleet_{answers_};
  ReplayOptions list_{
      .rate = 200, .seconds = 0, .requests_max = 20, .input = 30, .output = 4, .zipf = 1};
};

TEST_F(ReplayFleetTest, EveryRequestIsAskedAtItsTimeAndReported) {
  const auto report = run().value();
  EXPECT_EQ(report.mode, "in-process");
  EXPECT_EQ(report.source, "here");
  EXPECT_EQ(report.load.all.requests, 20);
  EXPECT_EQ(report.load.all.failed, 0) << to_text(report);
  EXPECT_EQ(report.load.all.output_tokens, 20 * 4);
  EXPECT_EQ(report.short_answers, 0);
  EXPECT_EQ(report.counters.switches, 20);
  EXPECT_EQ(report.counters.switch_ms, 30);
  EXPECT_EQ(report.counters.bytes.at("weights in"), 200);
  const auto list = replay_list(list_, 2).value();
  ASSERT_EQ(fleet_.asked().size(), 20u);
  const Nanos begin = fleet_.asked().front().arrival - list.front().at;
  for (std::size_t i = 0; i < 20; ++i) {
    const request::Request& asked = fleet_.asked()[i];
    EXPECT_EQ(asked.model, ModelId(static_cast<std::int64_t>(list[i].model) + 7));
    EXPECT_EQ(asked.prompt, simulate::prompt_tokens(list[i], static_cast<std::int64_t>(i), 50));
    EXPECT_EQ(asked.slo.ttft, millis(1000));
    // By the first, which may have been late itself.
    EXPECT_GE(asked.arrival - begin, list[i].at - millis(50));
  }
}

TEST_F(ReplayFleetTest, WhatIsRefusedOrFailsIsAnErrorOfItsKind) {
  fleet_.refuses = {3, 4};
  fleet_.fails = {7};
  const auto report = run().value();
  EXPECT_EQ(report.load.all.failed, 3);
  EXPECT_EQ(report.errors.at(std::string(name_of(ErrorCode::kResourceExhausted))), 2);
  EXPECT_EQ(report.errors.at(std::string(name_of(ErrorCode::kDevice))), 1);
}

TEST_F(ReplayFleetTest, WhatTakesTooLongIsGivenUp) {
  fleet_.waits = {2, 19};
  const auto report = run(50).value();
  EXPECT_EQ(report.load.all.failed, 2);
  EXPECT_EQ(report.errors.at("timeout"), 2);
  EXPECT_EQ(fleet_.cancelled, (std::set<std::int64_t>{2, 19}));
}

TEST_F(ReplayFleetTest, WhatNeverEndsIsLeft) {
  answers_.begin(1);
  answers_.refused(0, unavailable("no"));
  EXPECT_TRUE(answers_.wait(clock_.now())) << "all that there were have ended";
  EXPECT_FALSE(answers_.give_up(0));
  answers_.begin(2);
  EXPECT_FALSE(answers_.wait(clock_.now() + millis(1)));
  answers_.refused(1, unavailable("no"));
  const auto taken = answers_.take();
  EXPECT_EQ(taken.of[0].failure, "timeout");
  EXPECT_EQ(taken.of[1].error, "no");
}

TEST_F(ReplayFleetTest, WhatAModelDoesNotTakeIsSaidBefore) {
  list_.input = 1000;
  EXPECT_EQ(run().error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fleet_.asked().empty());
}

}  // namespace
}  // namespace causeway::bench::replay_fleet_test
