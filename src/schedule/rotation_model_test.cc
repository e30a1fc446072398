// Random histories of one model against largest lag first as docs/design/rotary.md describes it,
// evaluated anew in every iteration over all requests: which come in, in which order, which leave,
// and that neither number could have been larger or smaller by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"
#include "schedule/testing/rotary_harness.h"

namespace causeway::schedule::rotation_model_test {
namespace {

constexpr ModelId kA(1);

struct Person {  // the naive book's facts of a request
  enum class State { kWaiting, kRunning, kRotary } state = State::kWaiting;
  std::int64_t id = 0;
  Nanos arrival;
  request::Slo slo;
  std::int64_t known = 0;
  std::int64_t computed = 0;
  std::int64_t length_max = 0;
  int in_flight = 0;
  bool answered = false;
  std::int64_t output = 0;
  Nanos first_token;
  Nanos last_token;
  Nanos since;

  std::int64_t wanted() const { return std::min(known, length_max - 1); }
  bool late(Nanos now) const { return !answered && now > arrival + slo.ttft; }
  Nanos onset(const LagOptions& options, Nanos now) const {
    if (!answered) {
      const bool back = options.late_after > 0 && late(now);
      const double share = back ? options.late_after : slo.ttft_slack;
      return arrival + nanos_from_seconds(share * to_seconds(slo.ttft));
    }
    const double paced = static_cast<double>(output - 1) * to_seconds(slo.tpot);
    const double ahead = options.ahead_share * (paced - to_seconds(last_token - first_token));
    return last_token + nanos_from_seconds(std::clamp(ahead, 0.0, to_seconds(slo.ttft))) +
           nanos_from_seconds(slo.tpot_slack * to_seconds(slo.tpot));
  }
};

struct Setting {
  std::int64_t frames = 100;
  std::int64_t block = 4;
  double alpha = 3;
  LagOptions lag = {};
  int steps_in_flight = 2;
};

class Naive {
 public:
  Naive(const Setting& setting, RotaryHarness& harness) : setting_(setting), harness_(harness) {}

  void add(const RotarySequence& one) {
    people_[one.id] = {.id = one.id,
                       .arrival = one.arrival,
                       .slo = one.slo,
                       .known = one.prompt,
                       .length_max = one.prompt + one.output,
                       .first_token = one.arrival,
                       .last_token = one.arrival,
                       .since = {}};
  }
  void remove(std::int64_t id) { people_.erase(id); }

  // Before decide().
  void decide(Nanos now) {
    now_ = now;
    const kv::FrameCounts counts = harness_.kv().counts();
    available_ = counts.available();
    coming_ = counts.quarantined;
    if (!paid_) pay();
    std::int64_t running = 0, outside = 0;
    promised_ = 0;
    for (const auto& [id, person] : people_) {
      if (person.state == Person::State::kRunning) {
        ++running;
        promised_ += promise_of(person);
      } else {
        outside += frames_for(person.known);
      }
    }
    running_ = running;
    growth_ = running == 0 ? 0 : 1 + running / setting_.block;
    keep_ = 2 * growth_;
    victims_ = may_go();
    candidates_ = may_come();
    came_.clear();
    went_.clear();
    for_whom_ = -1;
    goal_ = gone_frames_ = 0;
    if (outside > spare() && !candidates_.empty() && displaces(candidates_.front())) {
      for_whom_ = candidates_.front();
      keep_ = std::max(keep_, running == 0 ? 0 : 2 * harness_.budget.exchange);
    }
    take_in();
    take_out();
  }

  // After decide(): the decision is the same.
  void compare(const Decision& decision) {
    std::vector<std::int64_t> in;
    for (const auto& one : decision.admitted) in.push_back(one.request.value);
    for (const auto& one : decision.rotated_in) in.push_back(one.request.value);
    std::sort(in.begin(), in.end());
    std::vector<std::int64_t> expected = came_;
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(in, expected) << "came in";
    std::vector<std::int64_t> out;
    for (const auto& one : decision.rotated_out) out.push_back(one.request.value);
    // Nothing runs, is in flight or becomes free: the first victim leaves, whatever that costs.
    const bool stuck = !decision.model.valid() && harness_.in_flight() == 0 && coming_ == 0;
    if (stuck && went_.empty() && running_ > 1 && !victims_.empty()) {
      went_.push_back(victims_.front());
      out_credit_ = std::max<std::int64_t>(
          0, out_credit_ - harness_.twins().out_cost(RequestId(went_.front())).copies);
    }
    EXPECT_EQ(out, went_) << "went";
    EXPECT_TRUE(decision.preempted.empty());
  }

  void carry_out(const Decision& decision) {
    for (const auto& one : decision.rotated_out) {
      people_[one.request.value].state = Person::State::kRotary;
    }
    for (const std::int64_t id : came_) {
      people_[id].state = Person::State::kRunning;
      people_[id].since = now_;
    }
    for (const auto& run : decision.runs) {
      Person& person = people_[run.request.value];
      EXPECT_EQ(person.computed, run.context.count);
      person.computed += run.tokens.count;
      person.in_flight += 1;
      if (run.samples) person.known += 1;
    }
    if (decision.model.valid()) paid_ = false;
  }

  void finish(const Decision& decision, Nanos now) {
    last_step_ = now;
    for (const auto& run : decision.runs) {
      const auto at = people_.find(run.request.value);
      if (at == people_.end()) continue;
      at->second.in_flight -= 1;
      if (!run.samples) continue;
      if (at->second.output++ == 0) at->second.first_token = now;
      at->second.answered = true;
      at->second.last_token = now;
      if (run.context + run.tokens == Tokens(at->second.length_max - 1)) people_.erase(at);
    }
  }

 private:
  std::int64_t frames_for(std::int64_t tokens) const {
    return (tokens + setting_.block - 1) / setting_.block;
  }
  std::int64_t promise_of(const Person& person) const {
    const auto table = std::ssize(harness_.kv().table(RequestId(person.id)));
    return std::max<std::int64_t>(0, frames_for(person.wanted()) - table);
  }
  double lag(const Person& person) const {
    const double since = to_seconds(now_ - person.onset(setting_.lag, now_));
    return (person.answered ? setting_.alpha : 1.0) * std::max(0.0, since);
  }
  std::int64_t spare() const { return available_ + coming_ - promised_ - keep_; }

  void pay() {
    const auto one = [](std::int64_t& credit, std::int64_t& price, std::int64_t budget) {
      credit = std::min(credit + budget, std::max(budget, price));
      price = 0;
    };
    one(in_credit_, in_price_, harness_.budget.in);
    one(out_credit_, out_price_, harness_.budget.out);
    paid_ = true;
  }

  std::vector<std::int64_t> may_go() const {
    std::vector<std::int64_t> ids;
    for (const auto& [id, person] : people_) {
      if (person.state != Person::State::kRunning) continue;
      if (person.computed == person.wanted()) continue;
      if (harness_.twins().may_leave(RequestId(id))) ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) {
      const Person& x = people_.at(a);
      const Person& y = people_.at(b);
      return std::tuple(x.since, -x.arrival, -a) < std::tuple(y.since, -y.arrival, -b);
    });
    return ids;
  }

  std::vector<std::int64_t> may_come() const {
    std::vector<std::int64_t> ids;
    for (const auto& [id, person] : people_) {
      if (person.state == Person::State::kRunning || person.in_flight > 0) continue;
      const bool rotary = person.state == Person::State::kRotary;
      if (rotary && !harness_.twins().may_return(RequestId(id))) continue;
      ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) {
      const Person& x = people_.at(a);
      const Person& y = people_.at(b);
      const double lag_x = lag(x), lag_y = lag(y);
      if (lag_x != lag_y) return lag_x > lag_y;
      return std::tuple(x.onset(setting_.lag, now_), x.arrival, a) <
             std::tuple(y.onset(setting_.lag, now_), y.arrival, b);
    });
    return ids;
  }

  bool displaces(std::int64_t candidate) const {
    if (harness_.budget.exchange == 0 || victims_.size() == went_.size()) return false;
    const Person& victim = people_.at(victims_[went_.size()]);
    double owed = 0;
    if (harness_.in_flight() == 0) {
      const Nanos served = std::max(last_step_, victim.since);
      const double slack = std::max(0.5, victim.slo.tpot_slack) * to_seconds(victim.slo.tpot);
      owed = setting_.alpha * std::max(0.0, to_seconds(now_ - served) - slack);
    }
    if (owed >= to_seconds(now_ - victim.since)) return false;
    const Person& person = people_.at(candidate);
    const bool unanswered = !person.answered && !(setting_.lag.late_after > 0 && person.late(now_));
    if (setting_.lag.early == DisplacesEarly::kAll) return true;
    return (setting_.lag.early == DisplacesEarly::kUnanswered && unanswered) || lag(person) > 0;
  }

  void take_in() {
    for (const std::int64_t id : candidates_) {
      const Person& person = people_.at(id);
      const std::int64_t need = frames_for(person.wanted());
      const bool rotary = person.state == Person::State::kRotary;
      const std::int64_t held = rotary ? frames_for(person.computed) : 0;
      const bool alone = running_ == 0;
      const bool may = displaces(id);
      const std::int64_t hard = available_ - promised_;
      const std::int64_t allowance =
          may ? harness_.budget.exchange : -(1 + harness_.kv().frames() / 100);
      const std::int64_t soft = alone ? hard : spare() + allowance;
      if (need > soft || need > hard) {
        if (need > soft && may && came_.empty()) {
          for_whom_ = id;
          goal_ = need;
        }
        return;
      }
      if (held > in_credit_ && !(alone && harness_.in_flight() == 0)) {
        in_price_ = held;
        return;
      }
      if (may && !alone && need > spare()) for_whom_ = id;
      in_credit_ = std::max<std::int64_t>(0, in_credit_ - held);
      available_ -= held;
      promised_ += need - held;
      running_ += 1;
      came_.push_back(id);
    }
  }

  void take_out() {
    for (const std::int64_t id : victims_) {
      if (running_ < 2) return;
      const bool growth = spare() + keep_ < 2 * growth_;
      const bool others =
          for_whom_ >= 0 && spare() < goal_ && gone_frames_ < harness_.budget.exchange;
      if (!growth && !others) return;
      if (!growth && !displaces(for_whom_)) return;
      const RotateOutCost cost = harness_.twins().out_cost(RequestId(id));
      if (cost.copies > out_credit_) {
        out_price_ = cost.copies;
        return;
      }
      out_credit_ -= cost.copies;
      promised_ -= promise_of(people_.at(id));
      coming_ += cost.frames;
      gone_frames_ += cost.frames;
      running_ -= 1;
      went_.push_back(id);
    }
  }

  const Setting setting_;
  RotaryHarness& harness_;
  std::map<std::int64_t, Person> people_;
  Nanos now_, last_step_;
  std::int64_t available_ = 0, coming_ = 0, promised_ = 0, growth_ = 0, keep_ = 0, running_ = 0;
  std::int64_t in_credit_ = 0, in_price_ = 0, out_credit_ = 0, out_price_ = 0;
  std::int64_t goal_ = 0, gone_frames_ = 0, for_whom_ = -1;
  bool paid_ = false;
  std::vector<std::int64_t> victims_, candidates_, came_, went_;
};

RotarySequence random_sequence(Random& random, std::int64_t id, Nanos now) {
  RotarySequence one{.id = id,
                     .model = kA,
                     .prompt = random.between(1, 60),
                     .output = random.between(2, 60),
                     .arrival = now};
  one.slo.ttft = millis(random.between(1, 2'000));
  one.slo.tpot = millis(random.between(1, 300));
  one.slo.ttft_slack = random.uniform();
  one.slo.tpot_slack = 2 * random.uniform() - 1;
  return one;
}

LagOptions random_lag(Random& random) {
  LagOptions lag{.early = static_cast<DisplacesEarly>(random.below(3))};
  lag.ahead_share = random.chance(0.5) ? random.uniform() : 0;
  lag.late_after = random.chance(0.5) ? static_cast<double>(random.between(1, 10)) : 0;
  return lag;
}

void run_history(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const Setting setting{.frames = random.between(40, 200),
                        .block = random.between(1, 8),
                        .alpha = 0.5 + 5 * random.uniform(),
                        .lag = random_lag(random),
                        .steps_in_flight = random.chance(0.5) ? 1 : 2};
  RotaryOptions options;
  options.schedule = {.policy = PolicyKind::kRotary,
                      .preemption = PreemptionKind::kRotate,
                      .tokens_per_step_max = 100'000,
                      .running_max = 100'000,
                      .rotation = {.lag = setting.lag}};
  options.frames = setting.frames;
  options.twins = 1'000'000;
  options.eager = random.chance(0.5);
  options.steps_in_flight = setting.steps_in_flight;
  RotaryHarness harness(options);
  harness.add_model(kA, setting.block, setting.alpha);
  Naive naive(setting, harness);
  std::int64_t next_id = 0;
  Nanos now = seconds(1);
  int rotations = 0;
  for (int step = 0; step < 400; ++step) {
    now += millis(random.between(1, 60));
    const std::int64_t in = random.between(1, 12);
    harness.budget = {.out = random.between(1, 12), .in = in, .exchange = random.between(0, in)};
    while (harness.left() < 40 && random.chance(0.7)) {
      const RotarySequence one = random_sequence(random, next_id++, now);
      if ((one.prompt + one.output) / setting.block + 2 > setting.frames) continue;
      harness.add(one);
      naive.add(one);
    }
    while (harness.in_flight() < static_cast<std::size_t>(setting.steps_in_flight)) {
      naive.decide(now);
      harness.decide(now);
      naive.compare(harness.decision());
      if (::testing::Test::HasFailure()) {
        FAIL() << "at step " << step;
      }
      rotations += static_cast<int>(harness.decision().rotated_out.size());
      naive.carry_out(harness.decision());
      if (!harness.execute()) break;
    }
    if (harness.in_flight() == 0) continue;
    naive.finish(harness.oldest(), now);
    harness.finish(now);
    const Status intact = harness.check();
    ASSERT_TRUE(intact.ok()) << intact.error().message;
  }
  EXPECT_GT(rotations, 5);
}

TEST(RotationModel, DecidesAsALookAtEverybodyWould) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    run_history(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace causeway::schedule::rotation_model_test
