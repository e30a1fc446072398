#include "client/load_generator.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

namespace causeway::bench {

namespace asio = boost::asio;

namespace {

std::string make_body(const LoadRequest& request, const LoadOptions& options) {
  return nlohmann::json{{"model", request.model},
                        {"prompt", request.prompt},
                        {"max_tokens", request.output_tokens},
                        {"temperature", options.temperature},
                        {"ignore_eos", options.ignore_eos},
                        {"stream", true},
                        {"stream_options", {{"include_usage", true}}}}
      .dump();
}

// The state of a run, on one thread.
class Run {
 public:
  Run(const std::vector<LoadRequest>& requests, const LoadOptions& options, const Clock& clock)
      : requests_(requests), options_(options), clock_(clock), places_(io_), ticker_(io_) {}

  std::vector<LoadRecord> to_end() {
    start_ = clock_.now();
    records_.resize(requests_.size());
    progress_.total = static_cast<std::int64_t>(requests_.size());
    asio::co_spawn(io_, send_all(), asio::detached);
    asio::co_spawn(io_, tick(), asio::detached);
    io_.run();
    report();
    return std::move(records_);
  }

 private:
  asio::awaitable<void> send_all() {
    asio::steady_timer timer(io_);
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Nanos until = start_ + requests_[i].arrival - clock_.now();
      boost::system::error_code error;
      if (until > Nanos(0)) {
        timer.expires_after(std::chrono::nanoseconds(until.count));
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
      while (options_.outstanding_max > 0 && outstanding_ >= options_.outstanding_max) {
        places_.expires_after(std::chrono::hours(1));
        co_await places_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
      ++outstanding_;
      ++progress_.sent;
      asio::co_spawn(io_, send_one(i), asio::detached);
    }
  }

  asio::awaitable<void> send_one(std::size_t i) {
    const LoadRequest& request = requests_[i];
    LoadRecord& record = records_[i];
    record.model = request.model;
    record.scheduled = start_ + request.arrival;
    const Patience patience{.silence = options_.timeout, .whole = options_.request_max};
    record.outcome = co_await post_stream(options_.endpoint, "/completions",
                                          make_body(request, options_), &clock_, patience);
    ++(record.outcome.ok() ? progress_.completed : progress_.failed);
    progress_.output_tokens += record.outcome.completion_tokens;
    --outstanding_;
    places_.cancel();
    if (progress_.completed + progress_.failed == progress_.total) ticker_.cancel();
  }

  asio::awaitable<void> tick() {
    while (progress_.completed + progress_.failed < progress_.total) {
      report();
      boost::system::error_code error;
      ticker_.expires_after(std::chrono::milliseconds(200));
      co_await ticker_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }

  void report() {
    progress_.elapsed = clock_.now() - start_;
    if (options_.progress) options_.progress(progress_);
  }

  const std::vector<LoadRequest>& requests_;
  const LoadOptions& options_;
  const Clock& clock_;
  asio::io_context io_{1};
  asio::steady_timer places_;
  asio::steady_timer ticker_;
  Nanos start_;
  std::int64_t outstanding_ = 0;
  LoadProgress progress_;
  std::vector<LoadRecord> records_;
};

}  // namespace

std::vector<LoadRecord> run_load(const std::vector<LoadRequest>& requests,
                                 const LoadOptions& options, const Clock& clock) {
  if (requests.empty()) return {};
  return Run(requests, options, clock).to_end();
}

}  // namespace causeway::bench
