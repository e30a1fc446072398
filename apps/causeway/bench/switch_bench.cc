#include "bench/switch_bench.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "bench/modelled_machine.h"
#include "bench/slice_parts.h"
#include "bench/switch_links.h"
#include "bench/token_times.h"
#include "device/arena.h"
#include "device/memory_headroom.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"
#include "slice/model_home.h"

namespace causeway::bench {
namespace {

constexpr Nanos kPatience = seconds(120);
constexpr std::int64_t kModels = 3;
constexpr std::int64_t kCached = 2;  // of them have room at the same time
constexpr Bytes kLinkBytes = gib(1);
constexpr double kSlack = 10;  // ms, beside what a limit allows

SwitchRow row_of(std::string what, const Samples& samples) {
  return {.what = std::move(what),
          .measured = samples.median(),
          .least = samples.least(),
          .most = samples.most(),
          .limit_name = ""};
}

// Bytes of what a step needs in the cache.
Bytes needed_bytes(const model::ModelCard& card) {
  Bytes needed;
  for (const weights::ReadingStep& step : card.reading) {
    if (step.readable_at_home) continue;
    needed += card.layout.groups[static_cast<std::size_t>(step.group)].bytes;
  }
  return needed;
}

// Room for kCached models, but not for a bit of a third: every switch moves a whole model.
Bytes cache_bytes(const model::ModelCard& card, Bytes extent) {
  return (round_up(needed_bytes(card), extent) + extent) * kCached;
}

class Bench {
 public:
  Bench(const SwitchSettings& settings, const Clock& clock, Bytes pool)
      : settings_(settings), clock_(clock), home_(clock, pool), sink_(clock) {}
  ~Bench() {
    if (!slice_) return;
    slice_->engine().stop(Nanos(0));
    slice_.reset();
  }

  Result<SwitchReport> run();

 private:
  Status open();
  Status add(ModelId model);
  Status measure_link();
  Status cold(SwitchReport& report);
  Status cached(SwitchReport& report);
  Status beside_neighbour(SwitchReport& report);
  Result<std::vector<RequestId>> start_neighbour();
  Status stop_neighbour(const std::vector<RequestId>& requests);
  // Between their tokens: every gap of which a part lies in the time.
  Samples gaps_of(const std::vector<RequestId>& requests, Nanos from, Nanos to);

  struct Asked {
    double first = 0;             // ms from submit to the first token
    double there = 0;             // ms from submit until what a step needs had come
    Bytes crossed;                // until the first token
    std::vector<double> further;  // ms between tokens
  };
  // Whether all that a step needs had to come.
  bool whole(const Asked& asked) const { return asked.crossed >= crossing_; }
  Result<RequestId> submit(ModelId model, std::int64_t prompt, std::int64_t output);
  Result<Asked> ask(ModelId model, std::int64_t prompt, std::int64_t output);

  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const SwitchSettings& settings_;
  const Clock& clock_;
  slice::ModelHome home_;
  TokenTimesSink sink_;
  std::unique_ptr<slice::Machine> machine_;
  std::unique_ptr<slice::Slice> slice_;
  std::int64_t next_request_ = 0;

  Bytes crossing_;             // of a model, that a step needs
  double link_ = 0;            // bytes per second
  BestLinks best_links_;       // where there are several
  double resident_gap_ = 0;    // ms between tokens when nothing else runs
  double resident_first_ = 0;  // ms to the first token of a cached model
};

Status Bench::open() {
  engine::EngineOptions engine;
  engine.core.prefix_caching = false;
  engine.core.step_start = settings_.start;
  engine.core.schedule.tokens_per_step_max = settings_.tokens_per_step_max;
  if (settings_.device == "cpu") {
    slice::HostSliceOptions options{
        .kv = std::max(settings_.kv, mib(512)), .kv_frame = settings_.frame, .engine = engine};
    CAUSEWAY_ASSIGN(const auto card,
                    model::make_card(settings_.config, model::host_dtype(settings_.config.dtype),
                                     settings_.frame));
    CAUSEWAY_ASSIGN(machine_, open_modelled({.link = settings_.modelled_link,
                                             .devices = settings_.modelled_links,
                                             .links = settings_.links},
                                            home_, clock_));
    options.cache = cache_bytes(card, machine_->host()->extent_bytes());
    CAUSEWAY_ASSIGN(slice_, slice::open_host_slice(options, *machine_, sink_));
    return {};
  }
  CAUSEWAY_ASSIGN(machine_, slice::Machine::open_gpus(settings_.links, home_, clock_));
  CAUSEWAY_ASSIGN(const auto card,
                  model::make_card(settings_.config, DType::kBF16, settings_.frame));
  std::vector<slice::CudaCandidate> candidates;
  for (std::int64_t m = 0; m < kModels; ++m) {
    candidates.push_back({.id = ModelId(m),
                          .name = "model " + std::to_string(m),
                          .config = settings_.config,
                          .max_model_len = Tokens(settings_.neighbour_context + 8192)});
  }
  CAUSEWAY_ASSIGN(slice_,
                  slice::open_cuda_slice({.gpu = settings_.gpu,
                                          .kv = settings_.kv,
                                          .kv_frame = settings_.frame,
                                          .weights = cache_bytes(card, device::kExtentBytes),
                                          .engine = engine},
                                         candidates, *machine_, sink_));
  return {};
}

Status Bench::add(ModelId id) {
  const Tokens context(settings_.neighbour_context + 8192);
  CAUSEWAY_ASSIGN(const model::ModelCard card,
                  add_random_model(id, settings_.config, context, home_, *slice_));
  crossing_ = needed_bytes(card);
  return {};
}

// What the copy engine gives: one batch of copies from a model's home to memory of the arena.
Status Bench::measure_link() {
  say("the link alone");
  device::Device& device = slice_->device();
  device::Arena& arena = device.arena();
  CAUSEWAY_ASSIGN(const auto home, home_.pool.pin(ModelId(0)));
  const Bytes whole = std::min(kLinkBytes, home->bytes());
  CAUSEWAY_ASSIGN(auto range, arena.reserve(arena.extents_for(whole)));
  CAUSEWAY_TRY(range.commit(0, range.extents()));
  CAUSEWAY_ASSIGN(const auto stream, device.make_stream("link"));
  std::vector<device::Copy> copies;
  for (Bytes at; at < whole; at += mib(32)) {
    copies.push_back({.target = device::MemoryAddress::in_arena(device.id(), range.offset() + at),
                      .source = device::MemoryAddress::in_host(home->address(at)),
                      .bytes = std::min(mib(32), whole - at)});
  }
  Samples rates;
  constexpr int kTimes = 4;  // a run: what it begins and ends with does not count
  for (std::int64_t i = 0; i <= settings_.rounds; ++i) {
    const Nanos begin = clock_.now();
    for (int time = 0; time < kTimes; ++time) {
      CAUSEWAY_TRY(stream->copy(copies, device::CopyPriority::kStep));
    }
    CAUSEWAY_TRY(stream->synchronize(kPatience));
    if (i > 0) {
      rates.add(kTimes * static_cast<double>(whole.count) / to_seconds(clock_.now() - begin));
    }
  }
  link_ = rates.median();
  if (slice_->links()->links < 2) return {};
  range = {};
  say("sets of links");
  CAUSEWAY_ASSIGN(
      best_links_,
      measure_best_links(
          *slice_, {.home = home->address(), .bytes = whole, .rounds = settings_.rounds}, clock_));
  return {};
}

Result<RequestId> Bench::submit(ModelId model, std::int64_t prompt, std::int64_t output) {
  request::Request request;
  request.id = RequestId(next_request_++);
  request.model = model;
  Random random(static_cast<std::uint64_t>(request.id.value));
  for (std::int64_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(random.below(settings_.config.vocab)));
  }
  request.sampling.temperature = 0;
  request.max_tokens = Tokens(output);
  request.arrival = clock_.now();
  const RequestId id = request.id;
  CAUSEWAY_TRY(slice_->engine().submit(std::move(request)));
  return id;
}

Result<Bench::Asked> Bench::ask(ModelId model, std::int64_t prompt, std::int64_t output) {
  constexpr Nanos kLook = micros(200);
  const Bytes before = slice_->link_bytes();
  const Nanos begin = clock_.now();
  CAUSEWAY_ASSIGN(const RequestId id, submit(model, prompt, output));
  Asked asked;
  for (bool begun = false; !begun && clock_.now() - begin < kPatience;) {
    begun = sink_.begun(id, kLook);
    const Bytes crossed = slice_->link_bytes() - before;
    if (crossed > asked.crossed) asked.there = to_millis(clock_.now() - begin);
    asked.crossed = crossed;
  }
  CAUSEWAY_ASSIGN(const TokenTimes times,
                  sink_.wait(id, static_cast<std::size_t>(output), kPatience));
  asked.first = to_millis(times.at.front() - begin);
  for (std::size_t i = 1; i < times.at.size(); ++i) {
    asked.further.push_back(to_millis(times.at[i] - times.at[i - 1]));
  }
  return asked;
}

Status Bench::cached(SwitchReport& report) {
  say("models that are cached");
  Samples alone, alternating, gaps;
  const auto ask_next = [&](ModelId model, Samples& firsts) -> Status {
    CAUSEWAY_ASSIGN(const Asked asked, ask(model, settings_.prompt, settings_.output));
    firsts.add(asked.first);
    for (const double gap : asked.further) gaps.add(gap);
    return {};
  };
  // The first of each brings it, and captures its graphs.
  Samples warming;
  for (int i = 0; i < 3; ++i) {
    for (const ModelId model : {ModelId(0), ModelId(1)}) {
      CAUSEWAY_TRY(ask_next(model, warming));
    }
  }
  gaps.values.clear();
  // Each model behind the other and behind itself, in turn: neither the models' places in memory
  // nor the time of the run make a difference between the two.
  for (std::int64_t i = 0; i < settings_.rounds; ++i) {
    for (const ModelId model : {ModelId(0), ModelId(1)}) {
      CAUSEWAY_TRY(ask_next(model, alternating));
      CAUSEWAY_TRY(ask_next(model, alone));
    }
  }
  resident_gap_ = gaps.median();
  resident_first_ = alone.median();
  report.rows.push_back(row_of("first token, model cached", alone));
  report.rows.push_back(row_of("first token, A→B→A, both cached", alternating));
  report.rows.back().limit = resident_first_;
  report.rows.back().wanted = resident_first_ + 1;
  report.rows.back().limit_name = "without a switch";
  report.rows.push_back(row_of("between tokens, model cached", gaps));
  return {};
}

// Three models in turn, with room for two: each comes from home.
Status Bench::cold(SwitchReport& report) {
  say("models that come from home");
  Samples firsts, there, gaps, bytes;
  for (std::int64_t i = 0; std::ssize(firsts.values) < settings_.rounds && i < 100; ++i) {
    CAUSEWAY_ASSIGN(const Asked asked,
                    ask(ModelId((i + 2) % kModels), settings_.prompt, settings_.output));
    if (!whole(asked)) continue;
    firsts.add(asked.first);
    there.add(asked.there);
    bytes.add(static_cast<double>(asked.crossed.count) / 1e9);
    for (const double gap : asked.further) gaps.add(gap);
  }
  const double floor = 1e3 * static_cast<double>(crossing_.count) / link_;
  SwitchRow first = row_of("first token, from home", firsts);
  first.limit = floor;
  first.limit_name = fmt::format("{:.2f} GB over {:.1f} GB/s",
                                 static_cast<double>(crossing_.count) / 1e9, link_ / 1e9);
  first.wanted = 1.05 * floor + kSlack;
  report.rows.push_back(first);
  if (best_links_.links > 1) {
    report.rows.push_back(over_best_links(first, best_links_, crossing_));
  }
  SwitchRow arrived = row_of("its weights there", there);
  arrived.limit = floor;
  arrived.limit_name = "bytes over the link";
  report.rows.push_back(arrived);
  SwitchRow further = row_of("between tokens after a switch", gaps);
  further.limit = resident_gap_;
  further.limit_name = "model cached";
  further.wanted = 1.02 * resident_gap_;
  report.rows.push_back(further);
  SwitchRow link = row_of("link bytes of a switch", bytes);
  link.unit = "GB";
  link.limit = static_cast<double>(crossing_.count) / 1e9;
  link.limit_name = "what a step needs";
  link.wanted = 1.01 * link.limit;
  report.rows.push_back(link);
  return {};
}

Result<std::vector<RequestId>> Bench::start_neighbour() {
  std::vector<RequestId> requests;
  for (std::int64_t i = 0; i < settings_.neighbour_batch; ++i) {
    CAUSEWAY_ASSIGN(const RequestId id, submit(ModelId(0), settings_.neighbour_context, 8000));
    requests.push_back(id);
  }
  for (const RequestId id : requests) CAUSEWAY_TRY(status_of(sink_.wait(id, 20, kPatience)));
  return requests;
}

Status Bench::stop_neighbour(const std::vector<RequestId>& requests) {
  for (const RequestId id : requests) slice_->engine().cancel(id);
  for (const RequestId id : requests) CAUSEWAY_TRY(status_of(sink_.wait(id, 1 << 20, kPatience)));
  return {};
}

Samples Bench::gaps_of(const std::vector<RequestId>& requests, Nanos from, Nanos to) {
  Samples gaps;
  for (const RequestId id : requests) {
    const TokenTimes times = sink_.of(id);
    for (std::size_t i = 1; i < times.at.size(); ++i) {
      if (times.at[i] <= from || times.at[i - 1] >= to) continue;
      gaps.add(to_millis(times.at[i] - times.at[i - 1]));
    }
  }
  return gaps;
}

Status Bench::beside_neighbour(SwitchReport& report) {
  if (settings_.neighbour_batch < 1) return {};
  say("models that come from home while another decodes");
  CAUSEWAY_ASSIGN(const auto neighbour, start_neighbour());
  // Alone for as long as some switches take.
  Nanos from = clock_.now();
  CAUSEWAY_TRY(status_of(sink_.wait(neighbour.front(), 200, kPatience)));
  const Samples alone = gaps_of(neighbour, from, clock_.now());
  Samples firsts, there, worst, during;
  for (std::int64_t i = 0; std::ssize(firsts.values) < settings_.rounds && i < 100; ++i) {
    from = clock_.now();
    CAUSEWAY_ASSIGN(const Asked asked, ask(ModelId(1 + i % 2), settings_.prompt, 1));
    if (!whole(asked)) continue;
    const Nanos to = clock_.now();
    // The gap that the prefill makes ends with the neighbour's next token.
    const std::size_t seen = sink_.of(neighbour.front()).at.size();
    CAUSEWAY_TRY(status_of(sink_.wait(neighbour.front(), seen + 2, kPatience)));
    const Samples gaps = gaps_of(neighbour, from, to);
    firsts.add(asked.first);
    there.add(asked.there);
    worst.add(gaps.most());
    during.values.insert(during.values.end(), gaps.values.begin(), gaps.values.end());
  }
  CAUSEWAY_TRY(stop_neighbour(neighbour));

  const double floor = 1e3 * static_cast<double>(crossing_.count) / link_;
  SwitchRow first = row_of("first token, from home, beside a neighbour", firsts);
  first.limit = floor;
  first.limit_name = "bytes over the link";
  first.wanted = 1.10 * floor + kSlack;
  report.rows.push_back(first);
  SwitchRow arrived = row_of("its weights there", there);
  arrived.limit = floor;
  arrived.limit_name = "bytes over the link";
  report.rows.push_back(arrived);
  SwitchRow step = row_of("the neighbour's tokens meanwhile", during);
  step.limit = alone.median();
  step.limit_name = "the neighbour alone";
  step.wanted = 1.10 * alone.median();
  report.rows.push_back(step);
  SwitchRow gap = row_of("its longest gap", worst);
  gap.limit = alone.median() + resident_first_;
  gap.limit_name = "its step and a cached prefill";
  gap.wanted = 1.25 * gap.limit;
  report.rows.push_back(gap);
  return {};
}

Result<SwitchReport> Bench::run() {
  SwitchReport report;
  CAUSEWAY_TRY(open());
  for (std::int64_t m = 0; m < kModels; ++m) {
    say("making model " + std::to_string(m + 1) + " of " + std::to_string(kModels));
    CAUSEWAY_TRY(add(ModelId(m)));
  }
  CAUSEWAY_TRY(measure_link());
  CAUSEWAY_TRY(cached(report));
  CAUSEWAY_TRY(cold(report));
  CAUSEWAY_TRY(beside_neighbour(report));
  return report;
}

}  // namespace

Result<SwitchReport> bench_switch(const SwitchSettings& settings, const Clock& clock) {
  CAUSEWAY_ASSIGN(const device::MemoryHeadroom headroom, device::read_memory_headroom());
  return Bench(settings, clock, headroom.bytes).run();
}

void print_report(const SwitchReport& report) {
  fmt::print("{:<46} {:>10} {:>10} {:>10} {:>10} {:>7} {:>10}\n", "what", "measured", "least",
             "most", "limit", "ratio", "wanted");
  for (const SwitchRow& row : report.rows) {
    fmt::print("{:<46} {:>7.2f} {:<2} {:>10.2f} {:>10.2f} ", row.what, row.measured, row.unit,
               row.least, row.most);
    if (row.limit > 0) {
      fmt::print("{:>10.2f} {:>7.3f} ", row.limit, row.measured / row.limit);
    } else {
      fmt::print("{:>10} {:>7} ", "-", "-");
    }
    if (row.wanted > 0) {
      fmt::print("{:>10.2f} {}", row.wanted, row.met() ? "met" : "MISSED");
    }
    fmt::print("  {}\n", row.limit_name);
  }
}

nlohmann::ordered_json report_json(const SwitchReport& report) {
  auto rows = nlohmann::ordered_json::array();
  for (const SwitchRow& row : report.rows) {
    rows.push_back({{"what", row.what},
                    {"unit", row.unit},
                    {"measured", row.measured},
                    {"least", row.least},
                    {"most", row.most},
                    {"limit", row.limit},
                    {"limit_name", row.limit_name},
                    {"wanted", row.wanted},
                    {"met", row.met()}});
  }
  return {{"rows", rows}};
}

}  // namespace causeway::bench
