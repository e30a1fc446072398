#include "grammar/work_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <utility>

namespace causeway::grammar {
namespace {

// Grammars nest, and what compiles them recurses; memory that is not touched costs nothing.
constexpr std::size_t kStackBytes = std::size_t{256} << 20;
constexpr std::chrono::milliseconds kLook{20};  // between looks for late threads, while jobs wait
constexpr std::chrono::seconds kEnd{2};

}  // namespace

class WorkPool::State : public std::enable_shared_from_this<WorkPool::State> {
 public:
  State(const WorkPoolOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  bool post(std::function<void()> job);
  void stop();

 private:
  using Begun = std::list<Nanos>;  // when the jobs that run began

  // What a thread does.
  void run();
  void look_after();
  void run_job(std::unique_lock<std::mutex>& lock);
  // Starts a thread if all that are not late are busy. False: there is none that will do the job.
  bool grow();
  bool start_thread(void (State::*what)());
  int late() const;

  const WorkPoolOptions options_;
  const Clock& clock_;  // not used once stopping_

  std::mutex mutex_;                 // guards what follows
  std::condition_variable changed_;  // the threads: a job, or the end
  std::condition_variable waiting_;  // the thread that looks after them: a job waits, or the end
  std::condition_variable ended_;
  std::deque<std::function<void()>> jobs_;
  Begun begun_;
  int threads_ = 0;  // that do jobs
  int alive_ = 0;    // with the one that looks after them
  bool looked_after_ = false;
  bool stopping_ = false;
};

int WorkPool::State::late() const {
  int count = 0;
  for (const Nanos since : begun_) count += clock_.now() - since > options_.late ? 1 : 0;
  return count;
}

bool WorkPool::State::start_thread(void (State::*what)()) {
  struct Start {
    std::shared_ptr<State> state;
    void (State::*what)();
  };
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  auto start = std::make_unique<Start>(Start{shared_from_this(), what});
  const auto body = [](void* argument) -> void* {
    const std::unique_ptr<Start> mine(static_cast<Start*>(argument));
    (mine->state.get()->*mine->what)();
    return nullptr;
  };
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, body, start.get()) == 0;
  pthread_attr_destroy(&attributes);
  if (!started) return false;
  (void)start.release();  // the thread's
  ++alive_;
  return true;
}

bool WorkPool::State::grow() {
  if (!looked_after_) looked_after_ = start_thread(&State::look_after);
  const bool wanted = static_cast<int>(begun_.size()) >= threads_ &&
                      threads_ - late() < options_.threads && threads_ < options_.threads_max;
  if (wanted && start_thread(&State::run)) ++threads_;
  return threads_ > late();
}

void WorkPool::State::look_after() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (jobs_.empty()) {
      waiting_.wait(lock);
    } else if (waiting_.wait_for(lock, kLook) == std::cv_status::timeout && !stopping_) {
      (void)grow();
    }
  }
  --alive_;
  ended_.notify_all();
}

bool WorkPool::State::post(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || jobs_.size() >= options_.queued_max || !grow()) return false;
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  if (jobs_.size() == 1) waiting_.notify_one();
  return true;
}

void WorkPool::State::run_job(std::unique_lock<std::mutex>& lock) {
  std::function<void()> job = std::move(jobs_.front());
  jobs_.pop_front();
  const auto place = begun_.insert(begun_.end(), clock_.now());
  lock.unlock();
  job();
  job = nullptr;
  lock.lock();
  begun_.erase(place);
}

void WorkPool::State::run() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), options_.niceness);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!jobs_.empty()) {
      run_job(lock);
      continue;
    }
    // One that came back late, with another in its place, is not needed any more.
    if (threads_ - static_cast<int>(begun_.size()) > options_.threads) break;
    changed_.wait(lock);
  }
  --threads_;
  --alive_;
  ended_.notify_all();
}

void WorkPool::State::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  std::deque<std::function<void()>> dropped;
  dropped.swap(jobs_);
  changed_.notify_all();
  waiting_.notify_all();
  lock.unlock();
  dropped.clear();
  lock.lock();
  ended_.wait_for(lock, kEnd, [this] { return alive_ == 0; });
}

WorkPool::WorkPool(const WorkPoolOptions& options, const Clock& clock)
    : state_(std::make_shared<State>(options, clock)) {}
WorkPool::~WorkPool() { state_->stop(); }
bool WorkPool::post(std::function<void()> job) { return state_->post(std::move(job)); }

}  // namespace causeway::grammar
