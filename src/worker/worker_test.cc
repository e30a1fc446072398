#include "worker/worker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "base/quantile.h"
#include "engine/testing/tiny_slice.h"
#include "fleet/engine_slice.h"
#include "worker/channel.h"
#include "worker/child.h"
#include "worker/testing/host_opener.h"
#include "worker/testing/worker_fixture.h"

namespace causeway::worker::worker_test {
namespace {

using ::testing::HasSubstr;
using testing::kVocab;
using testing::send;

// Every token and what was asked about it.
class AnswerSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::scoped_lock lock(mutex_);
    for (request::Output& output : outputs) {
      if (!first_) first_ = clock_.now();
      engine::Answer& answer = answers_[output.request.value];
      for (auto& token : output.tokens) answer.tokens.push_back(std::move(token));
      for (auto& token : output.prompt) answer.prompt.push_back(std::move(token));
      if (output.finished) answer.embedding = std::move(output.embedding);
      if (!output.finished) continue;
      answer.reason = output.reason;
      answer.error = output.error;
      ends_ += 1;
    }
    changed_.notify_all();
  }
  bool wait_for_ends(std::int64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ends_ >= count; });
  }
  engine::Answers answers() {
    const std::scoped_lock lock(mutex_);
    return answers_;
  }
  // When the first output came since forget(); waits for it and the end.
  Nanos first_of_one() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ends_ > 0; });
    return first_.value_or(Nanos(0));
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    answers_.clear();
    first_.reset();
    ends_ = 0;
  }

 private:
  const RealClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  engine::Answers answers_;
  std::optional<Nanos> first_;
  std::int64_t ends_ = 0;
};

class WorkerTest : public testing::WorkerFixture {
 protected:
  // A worker of one slice with model 0 attached.
  std::unique_ptr<Worker> serving(const WorkerOptions& options) {
    EXPECT_TRUE(home_.pool.is_loaded(ModelId(0)) || load(ModelId(0)).ok());
    auto worker = start(options);
    if (worker) attach(*worker);
    return worker;
  }
  void attach(Worker& worker, int slice = 0, ModelId model = ModelId(0)) {
    const auto attached =
        worker.slices()[static_cast<std::size_t>(slice)]->attach(entry(model), source(), false);
    EXPECT_TRUE(attached.ok()) << attached.error().message;
  }
  WorkerSlice& slice(Worker& worker) { return *worker.slices()[0]; }
  // What of the pool a process has mapped, with its rights.
  static std::vector<std::string> mapped(int pid) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    std::vector<std::string> lines;
    for (std::string line; std::getline(maps, line);) {
      if (line.find("causeway-weights") != std::string::npos) {
        lines.push_back(line.substr(line.find(' ') + 1, 4));
      }
    }
    return lines;
  }
  // Starts a child that misbehaves, gives it a request, and waits until it is taken for lost.
  std::string lost_by(const std::string& kind) {
    const auto worker = serving(options(1, {"--misbehave", kind}));
    if (!worker) return "";
    EXPECT_TRUE(slice(*worker).submit(request(next_)).ok());
    EXPECT_TRUE(wait_until([&] { return !slice(*worker).observe().lost.empty(); }));
    EXPECT_TRUE(wait_until([&] { return sink_.of(RequestId(next_)).ends > 0; }));
    const auto collected = sink_.of(RequestId(next_++));
    EXPECT_EQ(collected.ends, 1);
    EXPECT_EQ(collected.end->code, ErrorCode::kUnavailable);
    EXPECT_TRUE(collected.tokens.empty());
    return slice(*worker).observe().lost;
  }
  std::int64_t next_ = 1;
};

// A slice of this process, of the same plan.
struct InProcess {
  InProcess(slice::ModelHome& home, const Clock& clock, const WorkerPlan& plan,
            engine::OutputSink& sink)
      : machine(opener.open_machine(plan, home, clock).value()),
        slice(opener.open_slice(plan, 0, *machine, sink).value()),
        engine(home, *slice) {}
  testing::HostOpener opener;
  std::unique_ptr<slice::Machine> machine;
  std::unique_ptr<slice::Slice> slice;
  fleet::EngineSlice engine;
};

TEST_F(WorkerTest, AnswersAreThoseOfASliceOfThisProcess) {
  ASSERT_TRUE(load(ModelId(0)).ok());
  Random random(3);
  auto requests = engine::random_requests({.count = 60,
                                           .prompt_max = 60,
                                           .output_max = 40,
                                           .vocab = kVocab,
                                           .edited = true,
                                           .scored = true,
                                           .embedded = true},
                                          random);
  for (request::Request& request : requests) request.model = ModelId(0);
  AnswerSink here, there;
  InProcess local(home_, clock_, options().plan, here);
  ASSERT_TRUE(local.engine.attach(entry(ModelId(0)), source(), false).ok());
  auto worker = Worker::start(options(), home_, clock_, there).value();
  attach(*worker);
  // One after the other: which requests share a step depends on time, and with it, in their last
  // bits, the products of a CPU that has other kernels for few rows than for many.
  int ended = 0;
  for (const request::Request& request : requests) {
    ASSERT_TRUE(local.engine.submit(request).ok());
    ASSERT_TRUE(slice(*worker).submit(request).ok());
    ++ended;
    ASSERT_TRUE(here.wait_for_ends(ended) && there.wait_for_ends(ended));
  }
  const auto expected = here.answers();
  for (const auto& [id, answer] : there.answers()) {
    EXPECT_EQ(answer.ids(), expected.at(id).ids()) << id;
    EXPECT_EQ(answer.reason, expected.at(id).reason) << id;
    for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
      EXPECT_EQ(answer.tokens[i].logprob, expected.at(id).tokens[i].logprob);
      EXPECT_EQ(answer.tokens[i].top.size(), expected.at(id).tokens[i].top.size());
    }
    EXPECT_EQ(answer.embedding, expected.at(id).embedding);
    ASSERT_EQ(answer.prompt.size(), expected.at(id).prompt.size());
    for (std::size_t i = 0; i < answer.prompt.size(); ++i) {
      EXPECT_EQ(answer.prompt[i].token, expected.at(id).prompt[i].token);
      EXPECT_EQ(answer.prompt[i].logprob, expected.at(id).prompt[i].logprob);
    }
  }
  EXPECT_EQ(slice(*worker).frames(), 256);
  EXPECT_TRUE(wait_until([&] {
    const request::Observation seen = slice(*worker).observe();
    return seen.requests() == 0 && seen.generated_tokens > 0;
  }));
  EXPECT_EQ(slice(*worker).observe().generated_tokens,
            slice(*worker).observe(ModelId(0)).generated_tokens);
  EXPECT_TRUE(slice(*worker).detach(ModelId(0), seconds(5)).ok());
  EXPECT_TRUE(local.engine.detach(ModelId(0), seconds(5)).ok());
}

TEST_F(WorkerTest, SlicesShareOneMappingAndLeaveNone) {
  ASSERT_TRUE(load(ModelId(0)).ok() && load(ModelId(1)).ok());
  const auto worker = start(options(2));
  attach(*worker, 0, ModelId(0));
  attach(*worker, 1, ModelId(0));
  attach(*worker, 1, ModelId(1));
  // Read-only, and shared.
  EXPECT_THAT(mapped(worker->pid()), ::testing::ElementsAre("r--s", "r--s"));
  EXPECT_EQ(home_.pool.unload(ModelId(0)).error().code, ErrorCode::kUnavailable);

  ASSERT_TRUE(worker->slices()[0]->detach(ModelId(0), seconds(5)).ok());
  EXPECT_EQ(worker->slices()[0]->submit(request(1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(worker->slices()[0]->detach(ModelId(0), seconds(5)).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(worker->slices()[1]->submit(request(2)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(1));
  EXPECT_EQ(sink_.of(RequestId(2)).tokens.size(), 8u);
  ASSERT_TRUE(worker->slices()[1]->detach(ModelId(0), seconds(5)).ok());
  EXPECT_EQ(mapped(worker->pid()).size(), 1u);
  EXPECT_TRUE(home_.pool.unload(ModelId(0)).ok());
}

TEST_F(WorkerTest, WhatCannotRunIsRefusedAtOnceOrEnds) {
  auto options = this->options();
  options.plan.slices[0].engine.requests_max = 3;
  const auto worker = serving(options);
  WorkerSlice& slice = this->slice(*worker);
  EXPECT_EQ(slice.submit(request(1, 8, ModelId(5))).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(slice.submit(request(2, 1000)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(1));
  const auto end = sink_.of(RequestId(2)).end.value();
  EXPECT_EQ(end.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(end.error, HasSubstr("context is 128 tokens"));

  ASSERT_TRUE(send(*worker, SIGSTOP));  // so that nothing ends
  EXPECT_TRUE(slice.submit(request(3)).ok());
  EXPECT_EQ(slice.submit(request(3)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(slice.submit(request(4)).ok());
  EXPECT_TRUE(slice.submit(request(5)).ok());
  EXPECT_EQ(slice.submit(request(6)).error().code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(send(*worker, SIGCONT));
  ASSERT_TRUE(sink_.wait_for_ends(4));
  EXPECT_EQ(sink_.of(RequestId(5)).end->reason, request::FinishReason::kLength);
  EXPECT_EQ(worker->starts(), 1);
}

TEST_F(WorkerTest, ARequestIsCancelled) {
  const auto worker = serving(options());
  ASSERT_TRUE(send(*worker, SIGSTOP));
  ASSERT_TRUE(slice(*worker).submit(request(1, 100)).ok());
  slice(*worker).cancel(RequestId(1));
  slice(*worker).cancel(RequestId(99));
  ASSERT_TRUE(send(*worker, SIGCONT));
  ASSERT_TRUE(sink_.wait_for_ends(1));
  EXPECT_EQ(sink_.of(RequestId(1)).end->reason, request::FinishReason::kCancelled);
}

TEST_F(WorkerTest, AttachingWhatDoesNotFitFailsAndLeavesNothing) {
  ASSERT_TRUE(load(ModelId(0)).ok());
  const auto worker = start(options());
  const auto missing = slice(*worker).attach(entry(ModelId(7)), source(), false);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const auto config = directory_.path() / "config.json";
  std::ifstream file(config);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  fleet::testing::write_file(
      config, text.replace(text.find("\"num_hidden_layers\":2"), 21, "\"num_hidden_layers\":3"));
  const auto changed = slice(*worker).attach(entry(ModelId(0)), source(), false);
  EXPECT_EQ(changed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(changed.error().message, HasSubstr("changed since it was loaded"));
  EXPECT_TRUE(mapped(worker->pid()).empty());
  EXPECT_TRUE(home_.pool.unload(ModelId(0)).ok());
  EXPECT_EQ(worker->starts(), 1);
}

TEST_F(WorkerTest, AKilledWorkerComesBackEmpty) {
  const auto worker = serving(options());
  const int first = worker->pid();
  ASSERT_GT(first, 0);  // 0 would be the test's own process group
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  ASSERT_TRUE(slice(*worker).submit(request(1, 100)).ok());
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(sink_.wait_for_ends(1));
  const auto end = sink_.of(RequestId(1)).end.value();
  EXPECT_EQ(end.reason, request::FinishReason::kError);
  EXPECT_EQ(end.code, ErrorCode::kUnavailable);
  EXPECT_THAT(end.error, HasSubstr("was lost"));
  EXPECT_THAT(slice(*worker).observe().lost, HasSubstr("closed the connection"));
  EXPECT_EQ(slice(*worker).submit(request(2)).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(slice(*worker).detach(ModelId(0), seconds(1)).ok());
  ASSERT_TRUE(wait_until([&] { return slice(*worker).returned(); }));
  EXPECT_FALSE(slice(*worker).returned());
  EXPECT_TRUE(slice(*worker).observe().lost.empty());
  EXPECT_NE(worker->pid(), first);
  EXPECT_EQ(worker->starts(), 2);
  EXPECT_EQ(slice(*worker).submit(request(3)).error().code, ErrorCode::kInvalidArgument);
  attach(*worker);
  ASSERT_TRUE(slice(*worker).submit(request(4)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(2));
  EXPECT_EQ(sink_.of(RequestId(4)).tokens.size(), 8u);
}

TEST_F(WorkerTest, WhoWasInAStepIsASuspectAndWhoWaitedIsNot) {
  auto options = this->options();
  options.plan.slices[0].engine.core.schedule.running_max = 2;
  const auto worker = serving(options);
  for (std::int64_t id = 0; id < 60; ++id) {
    ASSERT_TRUE(slice(*worker).submit(request(id, 100)).ok());
  }
  ASSERT_TRUE(wait_until([&] {
    // One of which the process has not said yet that it waits would be a suspect, too.
    const request::Observation seen = slice(*worker).observe();
    return seen.generated_tokens > 0 && sink_.ends() + seen.requests() >= 60;
  }));
  ASSERT_TRUE(send(*worker, SIGKILL));
  ASSERT_TRUE(sink_.wait_for_ends(60));
  const auto suspects = slice(*worker).suspects();
  EXPECT_GE(suspects.size(), 1u);
  EXPECT_LE(suspects.size(), 4u) << "of two steps";
  for (const RequestId id : suspects) {
    EXPECT_EQ(sink_.of(id).end->reason, request::FinishReason::kError) << id.value;
  }
  // One that the process has not said to wait may be why, too.
  ASSERT_TRUE(wait_until([&] { return slice(*worker).returned(); }));
  attach(*worker);
  ASSERT_TRUE(send(*worker, SIGSTOP));
  ASSERT_TRUE(slice(*worker).submit(request(100)).ok());
  ASSERT_TRUE(send(*worker, SIGKILL));
  ASSERT_TRUE(sink_.wait_for_ends(61));
  EXPECT_EQ(slice(*worker).suspects(), std::vector{RequestId(100)});
}

TEST_F(WorkerTest, CountersGoOnOverARestart) {
  const auto worker = serving(options());
  ASSERT_TRUE(slice(*worker).submit(request(1)).ok());
  ASSERT_TRUE(wait_until([&] { return slice(*worker).observe().generated_tokens == 8; }));
  ASSERT_TRUE(send(*worker, SIGKILL));
  ASSERT_TRUE(wait_until([&] { return slice(*worker).returned(); }));
  EXPECT_EQ(slice(*worker).observe().generated_tokens, 8);
  attach(*worker);
  ASSERT_TRUE(slice(*worker).submit(request(2)).ok());
  EXPECT_TRUE(wait_until([&] { return slice(*worker).observe().generated_tokens == 16; }));
}

TEST_F(WorkerTest, AWorkerThatHangsIsKilledAndStartedAgain) {
  auto options = this->options();
  options.silence_max = millis(500);
  const auto worker = serving(options);
  const int first = worker->pid();
  ASSERT_GT(first, 0);  // 0 would be the test's own process group
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  const Nanos start = clock_.now();
  ASSERT_TRUE(slice(*worker).submit(request(1)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(1));
  EXPECT_LT(clock_.now() - start, seconds(5));
  EXPECT_EQ(sink_.of(RequestId(1)).end->code, ErrorCode::kUnavailable);
  ASSERT_TRUE(wait_until([&] { return slice(*worker).returned(); }));
  EXPECT_EQ(::kill(first, 0), -1);  // there is no such process any more
}

TEST_F(WorkerTest, AnAttachWithoutAnswerIsALoss) {
  ASSERT_TRUE(load(ModelId(0)).ok());
  auto options = this->options(1, {"--misbehave", "attach"});
  options.attach_max = millis(300);
  const auto worker = start(options);
  const auto attached = slice(*worker).attach(entry(ModelId(0)), source(), false);
  EXPECT_EQ(attached.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(wait_until([&] { return worker->starts() == 2; }));
  EXPECT_THAT(slice(*worker).observe().lost, HasSubstr("did not answer"));
  EXPECT_TRUE(home_.pool.unload(ModelId(0)).ok());
}

TEST_F(WorkerTest, AnythingFromAWorkerIsChecked) {
  EXPECT_THAT(lost_by("token"), HasSubstr("a token that its model has not"));
  EXPECT_THAT(lost_by("garbage"), HasSubstr("make no sense"));
  EXPECT_THAT(lost_by("slice"), HasSubstr("means slice 7 of 1"));
  EXPECT_THAT(lost_by("supervisor"), HasSubstr("only a supervisor says"));
  EXPECT_THAT(lost_by("lost"), HasSubstr("fell off the bus"));
  EXPECT_THAT(lost_by("death"), HasSubstr("closed the connection"));
}

TEST_F(WorkerTest, AnEndIsToldOnce) {
  const auto worker = serving(options(1, {"--misbehave", "twice"}));
  ASSERT_TRUE(slice(*worker).submit(request(1)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(1));
  ASSERT_TRUE(slice(*worker).submit(request(2)).ok());
  ASSERT_TRUE(sink_.wait_for_ends(2));
  EXPECT_EQ(sink_.of(RequestId(1)).ends, 1);
}

TEST_F(WorkerTest, WhatDoesNotStartSaysWhy) {
  const auto why = [&](const WorkerOptions& options) {
    return Worker::start(options, home_, clock_, sink_).error();
  };
  EXPECT_EQ(why(options(1, {"--version", "other"})).code, ErrorCode::kUnsupported);
  EXPECT_THAT(why(options(1, {"--version", "other"})).message,
              HasSubstr("the worker of test: the other process is of version other"));
  auto options = this->options();
  options.command[0] = "/nowhere/causeway";
  EXPECT_THAT(why(options).message, HasSubstr("/nowhere/causeway"));
  options.command[0] = "/bin/true";
  EXPECT_EQ(why(options).code, ErrorCode::kUnavailable);
  options = this->options();
  options.plan.slices[0].kv = Bytes(1);
  EXPECT_THAT(why(options).message, HasSubstr("slice 0: 1 bytes for KV"));
  options.plan.slices.clear();
  EXPECT_EQ(why(options).code, ErrorCode::kInvalidArgument);
  options = this->options(1, {"--misbehave", "lost", "--version", "test"});
  options.command = {"/bin/sleep", "30"};
  options.hello_max = millis(200);
  EXPECT_EQ(why(options).code, ErrorCode::kDeadlineExceeded);
}

TEST_F(WorkerTest, StoppingCancelsWhatRuns) {
  const auto worker = serving(options());
  const int pid = worker->pid();
  ASSERT_GT(pid, 0);  // 0 would be the test's own process group
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_TRUE(slice(*worker).submit(request(1)).ok());
  worker->stop();
  worker->stop();
  EXPECT_EQ(sink_.of(RequestId(1)).end->reason, request::FinishReason::kCancelled);
  EXPECT_EQ(slice(*worker).submit(request(2)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_TRUE(home_.pool.unload(ModelId(0)).ok());
}

TEST_F(WorkerTest, AProcessHasItsOwnEnvironmentEachTimeItIsStarted) {
  const auto seen = directory_.path() / "seen";
  WorkerOptions options = this->options();
  const std::vector<std::string> program = options.command;
  options.command = {"/bin/sh", "-c",
                     "echo \"$CAUSEWAY_A,$HOME,${PATH:+kept}\" >> \"$0\"; exec \"$@\"",
                     seen.string()};
  options.command.insert(options.command.end(), program.begin(), program.end());
  options.environment = {"CAUSEWAY_A=1=2", "HOME=elsewhere"};
  const auto worker = Worker::start(options, home_, clock_, sink_).value();
  ::kill(worker->pid(), SIGKILL);
  EXPECT_TRUE(wait_until([&] { return worker->starts() == 2 && slice(*worker).returned(); }));
  std::ifstream file(seen);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "1=2,elsewhere,kept\n1=2,elsewhere,kept\n");
}

// The worker's process alone, with this test as its supervisor.
class WorkerProcessTest : public WorkerTest {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    channel_ = Channel::open(weights::FileDescriptor(ends[0])).value();
    std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" 2>\"$0\"", log().string()};
    for (const std::string& one : options().command) command.push_back(one);
    child_ = Child::start(command, ends[1]).value();
    ::close(ends[1]);
  }
  std::filesystem::path log() const { return directory_.path() / "worker.log"; }
  // What it has written to the log.
  std::string said() const {
    std::ifstream file(log());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void say(const Message& message) { ASSERT_TRUE(channel_->send(encode(message)).ok()); }
  // Until a message of this kind has come.
  template <typename Kind>
  bool await() {
    return wait_until([&] {
      const auto received = channel_->receive(millis(50));
      if (!received.ok() || !*received) return false;
      return std::holds_alternative<Kind>(decode((*received)->message).value());
    });
  }
  void open() {
    say(Hello{.version = "test"});
    say(Prepare{plan_});
    ASSERT_TRUE(await<Prepared>());
    say(Open{});
    ASSERT_TRUE(await<Opened>());
  }
  std::string end() {
    EXPECT_TRUE(child_.reap(seconds(10)));
    return child_.ended();
  }

  std::unique_ptr<Channel> channel_;
  Child child_;
  WorkerPlan plan_ = options().plan;
};

TEST_F(WorkerProcessTest, EndsWithItsSupervisor) {
  open();
  ASSERT_TRUE(load(ModelId(0)).ok());
  const auto home = home_.pool.pin(ModelId(0)).value();
  const Attach wanted{.call = 1,
                      .model = ModelId(0),
                      .name = "small",
                      .directory = directory_.path(),
                      .max_model_len = Tokens(128),
                      .bytes = home->bytes()};
  ASSERT_TRUE(
      channel_->send(encode(wanted), home_.memory.file_descriptor(home->address().region)).ok());
  ASSERT_TRUE(await<Attached>());
  for (int i = 0; i < 50; ++i) say(Submit{0, request(i, 100)});
  ASSERT_TRUE(await<Outputs>());
  const Nanos start = clock_.now();
  channel_.reset();
  EXPECT_EQ(end(), "ended with status 0");
  EXPECT_LT(clock_.now() - start, seconds(2));
}

// It asks for its share and never gets one, and serves with the least that it has in any case.
TEST_F(WorkerProcessTest, AnswersWhereItsSupervisorGrantsNothing) {
  plan_.slices[0].weights = mib(1);
  plan_.link_least = {.in = 1e3, .out = 1e3};
  open();
  ASSERT_TRUE(load(ModelId(0)).ok());
  const auto home = home_.pool.pin(ModelId(0)).value();
  const Attach wanted{.call = 1,
                      .model = ModelId(0),
                      .name = "small",
                      .directory = directory_.path(),
                      .max_model_len = Tokens(128),
                      .bytes = home->bytes()};
  const int region = home_.memory.file_descriptor(home->address().region);
  ASSERT_TRUE(channel_->send(encode(wanted), region).ok());
  ASSERT_TRUE(await<Attached>());
  say(Submit{0, request(1)});
  ASSERT_TRUE(await<Outputs>());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(await<transfer::LinkAsk>());
  say(transfer::LinkLease{.number = 1, .length = seconds(99)});
  EXPECT_EQ(end(), "ended with status 1");
  EXPECT_THAT(said(), HasSubstr("lease 1 of a link makes no sense"));
}

TEST_F(WorkerProcessTest, EndsWhereItIsLeasedWhatItDoesNotShare) {
  open();
  say(transfer::LinkLease{.number = 1});
  EXPECT_EQ(end(), "ended with status 1");
  EXPECT_THAT(said(), HasSubstr("leases a link that is not shared"));
}

TEST_F(WorkerProcessTest, EndsWhereItsSupervisorMakesNoSense) {
  open();
  say(Cancel{3, RequestId(1)});
  EXPECT_EQ(end(), "ended with status 1");
}

TEST_F(WorkerProcessTest, EndsWithoutAPlan) {
  say(Hello{.version = "test"});
  say(Alive{});
  EXPECT_EQ(end(), "ended with status 1");
  EXPECT_THAT(said(), HasSubstr("the supervisor does not say what to open"));
}

TEST_F(WorkerProcessTest, EndsWhereTwoSupervisorsSpeak) {
  open();
  say(Hello{.version = "test"});
  EXPECT_EQ(end(), "ended with status 1");
  EXPECT_THAT(said(), HasSubstr("a second supervisor speaks on the socket"));
}

TEST_F(WorkerProcessTest, EndsWhereTheSupervisorIsOfAnotherVersion) {
  say(Hello{.version = "newer"});
  EXPECT_EQ(end(), "ended with status 1");
  EXPECT_THAT(said(), HasSubstr("the other process is of version newer"));
}

TEST_F(WorkerProcessTest, EndsWhereTheSocketDisappearsBeforeItServes) {
  channel_.reset();
  EXPECT_EQ(end(), "ended with status 1");
  EXPECT_THAT(said(), HasSubstr("closed the connection"));
}

TEST_F(WorkerProcessTest, MemoryThatIsNotAModelsIsRefused) {
  open();
  Attach wanted{.call = 1,
                .model = ModelId(0),
                .name = "small",
                .directory = directory_.path(),
                .max_model_len = Tokens(128),
                .bytes = card()->layout.bytes};
  const auto answer = [&](int descriptor) {
    EXPECT_TRUE(channel_->send(encode(wanted), descriptor).ok());
    std::string error;
    EXPECT_TRUE(wait_until([&] {
      const auto received = channel_->receive(millis(50));
      if (!received.ok() || !*received) return false;
      const auto message = decode((*received)->message).value();
      const auto* attached = std::get_if<Attached>(&message);
      if (attached != nullptr && attached->error) error = attached->error->message;
      return attached != nullptr;
    }));
    return error;
  };
  EXPECT_THAT(answer(-1), HasSubstr("no memfd"));
  EXPECT_THAT(answer(1), HasSubstr("memfd"));
  const auto small = home_.memory.allocate({.name = "small", .bytes = kib(4)}).value();
  EXPECT_THAT(answer(home_.memory.file_descriptor(small)), HasSubstr("4096 bytes"));
  // A region does not disappear: its size is sealed, and one whose is not is refused.
  EXPECT_EQ(::ftruncate(home_.memory.file_descriptor(small), 0), -1);
  const weights::FileDescriptor open_ended(::memfd_create("open-ended", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(open_ended.get(), wanted.bytes.count), 0);
  EXPECT_THAT(answer(open_ended.get()), HasSubstr("whose size may change"));
  wanted.alpha = -1;
  EXPECT_THAT(answer(-1), HasSubstr("-1"));
  wanted.max_model_len = Tokens(0);
  EXPECT_THAT(answer(-1), HasSubstr("a context"));
  wanted.slice = 9;
  EXPECT_THAT(answer(-1), HasSubstr("slice 9 of 1"));
}

// Time to the first token, in turns. Printed; the bound only catches a wait that should not be.
TEST_F(WorkerTest, AddedTimeToFirstToken) {
  ASSERT_TRUE(load(ModelId(0)).ok());
  AnswerSink here, there;
  InProcess local(home_, clock_, options().plan, here);
  ASSERT_TRUE(local.engine.attach(entry(ModelId(0)), source(), false).ok());
  auto worker = Worker::start(options(), home_, clock_, there).value();
  attach(*worker);
  std::vector<double> in_process, in_worker;
  const auto measure = [&](fleet::FleetSlice& slice, AnswerSink& sink, std::int64_t id) {
    sink.forget();
    const Nanos start = clock_.now();
    EXPECT_TRUE(slice.submit(request(id, 1)).ok());
    return to_millis(sink.first_of_one() - start);
  };
  for (std::int64_t i = 0; i < 220; ++i) {
    const double one = measure(local.engine, here, i), two = measure(slice(*worker), there, i);
    if (i < 20) continue;
    in_process.push_back(one);
    in_worker.push_back(two);
  }
  fmt::print("first token, ms: p50 {:.3f} in process, {:.3f} in a worker; p99 {:.3f}, {:.3f}\n",
             quantile(in_process, 0.5), quantile(in_worker, 0.5), quantile(in_process, 0.99),
             quantile(in_worker, 0.99));
  EXPECT_LT(quantile(in_worker, 0.5) - quantile(in_process, 0.5), 20);
  EXPECT_TRUE(local.engine.detach(ModelId(0), seconds(5)).ok());
}

}  // namespace
}  // namespace causeway::worker::worker_test
