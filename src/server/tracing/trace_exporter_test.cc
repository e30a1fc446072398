#include "server/tracing/trace_exporter.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/testing/log_lines.h"
#include "server/testing/collector.h"

namespace causeway::server::trace_exporter_test {
namespace {

using testing::Collector;

RequestTrace make_trace(const std::string& id = "x") {
  RequestTrace trace;
  trace.context.trace = {1, 2};
  trace.root = 1;
  trace.ended = seconds(1);
  trace.id = id;
  return trace;  // of two spans
}

class TraceExporterTest : public ::testing::Test {
 protected:
  TraceExporterTest() {
    options_.endpoint = collector_.endpoint();
    options_.period = millis(10);
    options_.first_retry = millis(10);
    options_.flush_time_max = millis(500);
  }
  void start() { exporter_ = TraceExporter::start(options_, {.version = "1"}).value(); }
  bool await(std::int64_t TraceCounts::*count, std::int64_t wanted) {
    for (const Nanos limit = clock_.now() + seconds(20); clock_.now() < limit;) {
      if (exporter_->counts().*count >= wanted) return true;
      std::this_thread::yield();
    }
    return false;
  }
  // How long it took.
  Nanos stop() {
    const Nanos began = clock_.now();
    exporter_->stop();
    return clock_.now() - began;
  }
  std::int64_t seen() const {
    const TraceCounts counts = exporter_->counts();
    return counts.exported + counts.dropped_full + counts.dropped_failed + counts.dropped_rejected +
           counts.dropped_stopped;
  }

  RealClock clock_;
  Collector collector_;
  TraceOptions options_;
  std::unique_ptr<TraceExporter> exporter_;
};

TEST_F(TraceExporterTest, SendsWhatIsAdded) {
  start();
  exporter_->add(make_trace("first"));
  ASSERT_TRUE(await(&TraceCounts::exported, 2));
  ASSERT_EQ(collector_.bodies().size(), 1u);
  EXPECT_NE(collector_.bodies()[0].find("\"first\""), std::string::npos);
  EXPECT_LT(stop(), millis(400));
}

TEST_F(TraceExporterTest, BatchesWhatComesTogether) {
  options_.period = seconds(100);
  options_.batch_spans_max = 20;
  start();
  for (int i = 0; i < 25; ++i) exporter_->add(make_trace());
  ASSERT_TRUE(await(&TraceCounts::exported, 40));
  EXPECT_EQ(collector_.bodies().size(), 2u) << "the rest waits for more, or for the period";
  stop();
  EXPECT_EQ(exporter_->counts().exported, 50) << "what is left is sent at the end";
}

TEST_F(TraceExporterTest, TriesAgainWhereThatMayHelp) {
  for (const char* status : {"503 Busy", "429 Later", "502 Gateway", "504 Late"}) {
    const LogLines log;
    Collector collector;
    collector.answer_status(status);
    options_.endpoint = collector.endpoint();
    options_.posts_max = 1000;
    options_.retry_max = millis(10);
    start();
    exporter_->add(make_trace());
    ASSERT_TRUE(collector.wait_for(3)) << status;
    collector.answer_status("200 OK");
    ASSERT_TRUE(await(&TraceCounts::exported, 2)) << status;
    EXPECT_EQ(log.count("spans cannot be sent"), 1) << "it says so once";
    EXPECT_EQ(log.count("again"), 2) << "and when it works";
    EXPECT_EQ(seen(), 2) << status;
  }
}

TEST_F(TraceExporterTest, GivesUpAfterSoMany) {
  const LogLines log;
  collector_.answer_status("503 Busy");
  options_.posts_max = 3;
  start();
  exporter_->add(make_trace());
  ASSERT_TRUE(await(&TraceCounts::dropped_failed, 2));
  EXPECT_EQ(collector_.bodies().size(), 3u);
}

TEST_F(TraceExporterTest, ARefusalIsFinal) {
  const LogLines log;
  for (const char* status : {"400 Bad", "404 None", "500 Broken", "301 Moved"}) {
    Collector collector;
    collector.answer_status(status);
    options_.endpoint = collector.endpoint();
    start();
    exporter_->add(make_trace());
    ASSERT_TRUE(await(&TraceCounts::dropped_failed, 2)) << status;
    EXPECT_EQ(collector.bodies().size(), 1u) << status;
  }
}

TEST_F(TraceExporterTest, AnswersThatAreNoHttpAreFailures) {
  const LogLines log;
  options_.posts_max = 1;
  for (const std::string& answer :
       {std::string("what?\r\n\r\n"), "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'),
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + std::string(100, 'x'),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")}) {
    Collector collector;
    collector.answer(answer);
    options_.endpoint = collector.endpoint();
    start();
    exporter_->add(make_trace());
    ASSERT_TRUE(await(&TraceCounts::dropped_failed, 2)) << answer.substr(0, 30);
  }
}

TEST_F(TraceExporterTest, CountsWhatACollectorRejects) {
  collector_.answer_status("200 OK", R"({"partialSuccess":{"rejectedSpans":"1"}})");
  start();
  exporter_->add(make_trace());
  ASSERT_TRUE(await(&TraceCounts::dropped_rejected, 1));
  EXPECT_EQ(exporter_->counts().exported, 1);
  collector_.answer_status("200 OK", R"({"partialSuccess":{"rejectedSpans":"1000"}})");
  exporter_->add(make_trace());
  ASSERT_TRUE(await(&TraceCounts::dropped_rejected, 3)) << "no more than it was sent";
}

TEST_F(TraceExporterTest, AFullQueueDropsAndNeverWaits) {
  const LogLines log;
  collector_.answer("");  // it hangs
  options_.queued_spans_max = 100;
  options_.post_time_max = seconds(100);
  start();
  const Nanos began = clock_.now();
  for (int i = 0; i < 5000; ++i) exporter_->add(make_trace());
  EXPECT_LT(clock_.now() - began, seconds(2));
  EXPECT_GE(exporter_->counts().dropped_full, 10'000 - 100 - options_.batch_spans_max - 2);
  EXPECT_LT(stop(), seconds(3)) << "a collector that hangs does not hold a stop";
  EXPECT_EQ(seen(), 10'000) << "every span is counted once";
  EXPECT_EQ(exporter_->counts().exported, 0);
  exporter_->add(make_trace());
  EXPECT_EQ(seen(), 10'002);
}

TEST_F(TraceExporterTest, ACollectorThatIsAbsentDoesNotHoldAStop) {
  const LogLines log;
  {
    Collector gone;
    options_.endpoint = gone.endpoint();
  }
  options_.first_retry = options_.retry_max = seconds(100);
  start();
  exporter_->add(make_trace());
  EXPECT_LT(stop(), millis(400));
  EXPECT_EQ(seen(), 2);
}

TEST_F(TraceExporterTest, AHostWithoutAnAddressIsAFailure) {
  const LogLines log;
  options_.endpoint.host = "no-such-host.invalid";
  options_.posts_max = 1;
  start();
  exporter_->add(make_trace());
  ASSERT_TRUE(await(&TraceCounts::dropped_failed, 2));
  EXPECT_EQ(log.count("cannot be resolved"), 1);
}

TEST_F(TraceExporterTest, ManyThreadsAddAtOnce) {
  start();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) exporter_->add(make_trace());
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop();
  EXPECT_EQ(seen(), 1600);
  EXPECT_GT(exporter_->counts().exported, 0);
}

TEST_F(TraceExporterTest, TheCallerDecidesAndElseTheRatio) {
  options_.sample_ratio = 0;
  start();
  EXPECT_FALSE(exporter_->context({}));
  const TraceContext of_caller{.trace = {5, 6}, .parent = 7, .state = {}};
  EXPECT_EQ(exporter_->context(of_caller), of_caller);
  options_.sample_ratio = 1;
  start();
  TraceContext unsampled = of_caller;
  unsampled.sampled = false;
  EXPECT_FALSE(exporter_->context(unsampled));
  const auto first = exporter_->context({}), second = exporter_->context({});
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->trace, second->trace);
  EXPECT_EQ(first->parent, 0u);
  EXPECT_NE(exporter_->make_root(), exporter_->make_root());
}

}  // namespace
}  // namespace causeway::server::trace_exporter_test
