// What clients are told while their model is being loaded, by a fleet whose loader a test holds.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "fleet/local_fleet.h"
#include "fleet/testing/idle_slice.h"
#include "server/byte_model.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_loading_test {
namespace {

using testing::Answer;
using testing::Client;

constexpr std::chrono::seconds kLoadPatience{20};

// Loads a model when it is let go.
class HeldHome final : public fleet::FleetHome {
 public:
  Result<fleet::HostRoom> room_for(const fleet::CatalogueEntry&,
                                   const fleet::ModelSource&) override {
    return fleet::HostRoom{.needed = Bytes(10), .used = Bytes(0), .budget = Bytes(100)};
  }
  Status load(const fleet::CatalogueEntry&, const fleet::ModelSource&,
              const fleet::LoadWatch& watch) override {
    std::unique_lock lock(mutex_);
    while (!open_ && !watch.cancelled()) changed_.wait_for(lock, std::chrono::milliseconds(5));
    return open_ ? Status() : Status(Error{ErrorCode::kCancelled, "cancelled"});
  }
  void unload(ModelId) override {}
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Answers what it has when it is told to.
class PatientSlice final : public fleet::testing::IdleSlice {
 public:
  Status submit(request::Request request) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request.id);
    changed_.notify_all();
    return {};
  }
  // Once there are so many.
  std::vector<request::Output> answers(std::size_t count) {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, kLoadPatience, [&] { return requests_.size() >= count; });
    EXPECT_TRUE(came);
    std::vector<request::Output> outputs;
    for (const RequestId id : std::exchange(requests_, {})) {
      request::Output output;
      output.request = id;
      output.tokens.push_back({'y', -0.5f, {}});
      output.finished = true;
      output.reason = request::FinishReason::kStop;
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RequestId> requests_;
};

class Loading : public ::testing::Test {
 protected:
  static constexpr std::size_t kWaitingMax = 2;

  void SetUp() override {
    ServerOptions options;
    options.port = 0;
    server_.emplace(options, clock_);
    sink_.emplace(server_->sink());
    std::vector<fleet::CatalogueModel> catalogue;
    catalogue.push_back({byte_model_entry(ModelId(0), "tiny", Tokens(100)), {"tiny", {}}});
    fleet::FleetSlices slices;
    slices.slices.push_back(&slice_);
    auto fleet = fleet::LocalFleet::start(
        std::move(catalogue), {.load_ahead = false, .waiting_for_load_max = kWaitingMax}, home_,
        std::move(slices), *sink_);
    ASSERT_TRUE(fleet.ok()) << fleet.error().message;
    fleet_ = std::move(fleet).value();
    ASSERT_TRUE(server_->start(*fleet_).ok());
  }
  void TearDown() override {
    server_->stop();
    fleet_.reset();
  }

  static std::string body(const std::string& content) {
    return R"({"model":"tiny","messages":[{"role":"user","content":")" + content +
           R"("}],"max_tokens":5})";
  }
  Answer chat(const std::string& content) {
    return Client(server_->port()).post("/v1/chat/completions", body(content));
  }
  static nlohmann::json error_of(const Answer& answer) {
    return nlohmann::json::parse(answer.body, nullptr, false)["error"];
  }
  // As many as may wait do.
  void fill() {
    for (std::size_t i = 0; i < kWaitingMax; ++i) {
      waiting_.push_back(std::make_unique<Client>(server_->port()));
      waiting_.back()->send(testing::post_request("/v1/chat/completions", body("hi")));
      wait_until_waiting(static_cast<std::int64_t>(i) + 1);
    }
  }
  void wait_until_waiting(std::int64_t count) {
    const Nanos limit = clock_.now() + seconds(20);
    while (fleet_->observe().requests_waiting != count) {
      ASSERT_LT(clock_.now(), limit) << "requests do not arrive";
      std::this_thread::yield();
    }
  }
  fleet::ModelState state() const { return fleet_->status(ModelId(0)).state; }

  RealClock clock_;
  HeldHome home_;
  PatientSlice slice_;
  std::optional<Server> server_;
  std::optional<fleet::SerialSink> sink_;
  std::unique_ptr<fleet::LocalFleet> fleet_;
  std::vector<std::unique_ptr<Client>> waiting_;
};

TEST_F(Loading, AFullQueueIs429) {
  fill();
  ASSERT_EQ(state(), fleet::ModelState::kLoading);
  const Answer more = chat("hi");
  EXPECT_EQ(more.status, 429) << more.body;
  EXPECT_EQ(more.headers.at("retry-after"), "1");
  EXPECT_EQ(error_of(more)["code"], "queue_full");
  const Answer streamed = Client(server_->port())
                              .post("/v1/chat/completions",
                                    R"({"model":"tiny","stream":true,"messages":[{"role":"user",)"
                                    R"("content":"hi"}],"max_tokens":5})");
  EXPECT_EQ(streamed.status, 429) << "its status, not an event";
  // Those that wait are served when it is loaded.
  home_.open();
  sink_->on_outputs(slice_.answers(kWaitingMax));
  for (const auto& client : waiting_) {
    const Answer answer = client->read_answer();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.body.find("\"content\":\"y\""), std::string::npos) << answer.body;
  }
}

TEST_F(Loading, AnOverLongPromptIs400) {
  const std::string prompt(100, 'x');
  const Answer cold = chat(prompt);
  EXPECT_EQ(cold.status, 400) << "of a model that nobody has asked for";
  EXPECT_EQ(state(), fleet::ModelState::kUnloaded) << "it is not loaded for that";
  fill();
  for (const Answer& answer : {chat(prompt), chat(prompt)}) {
    EXPECT_EQ(answer.status, 400) << "and not 429, although the queue is full: " << answer.body;
    EXPECT_EQ(error_of(answer)["code"], "context_length_exceeded");
  }
  EXPECT_EQ(state(), fleet::ModelState::kLoading);
}

TEST_F(Loading, WhoLeavesMakesRoom) {
  fill();
  waiting_.back()->close();
  wait_until_waiting(kWaitingMax - 1);
  Client next(server_->port());
  next.send(testing::post_request("/v1/chat/completions", body("hi")));
  wait_until_waiting(kWaitingMax);
  home_.open();
  sink_->on_outputs(slice_.answers(kWaitingMax));
  EXPECT_EQ(next.read_answer().status, 200);
}

}  // namespace
}  // namespace causeway::server::server_loading_test
