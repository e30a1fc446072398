#include "bench/prefix_bench.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/link_rate.h"

namespace causeway::bench {
namespace {

double to_gb(Bytes bytes) { return static_cast<double>(bytes.count) * 1e-9; }

constexpr std::int64_t kAnswer = 2;
constexpr Nanos kTwinsPatience = seconds(30);  // for copies of what was computed

class PrefixBench {
 public:
  PrefixBench(const PrefixBenchSettings& settings, const Clock& clock, Bytes home)
      : settings_(settings), clock_(clock), home_(clock, home), local_(home_, clock) {}

  Result<PrefixReport> run();

 private:
  using Prompt = std::vector<TokenId>;

  Status open();
  std::int64_t prompt_tokens() const { return settings_.prefix + settings_.rest; }
  Prompt random_tokens(std::int64_t count);
  // Milliseconds to the first token of a prompt: the prefix, and random tokens behind it.
  Result<double> ask(const Prompt& prefix);
  // Until host memory has what HBM has of the prefixes that were computed.
  Status wait_for_twins(std::int64_t blocks);
  Status bring_back(const Prompt& first, const Prompt& second, PrefixReport& report);
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const PrefixBenchSettings& settings_;
  const Clock& clock_;
  model::ModelCard card_;
  Random random_{1};
  slice::ModelHome home_;
  LocalSlice local_;
};

PrefixBench::Prompt PrefixBench::random_tokens(std::int64_t count) {
  Prompt tokens(static_cast<std::size_t>(count));
  for (TokenId& token : tokens) token = static_cast<TokenId>(random_.below(settings_.config.vocab));
  return tokens;
}

Status PrefixBench::open() {
  SliceSettings settings = settings_.slice;
  CAUSEWAY_ASSIGN(card_, settings.card(settings_.config));
  const std::int64_t blocks =
      (prompt_tokens() + kAnswer + card_.kv.tokens.count - 1) / card_.kv.tokens.count;
  // One prompt and what admission keeps in reserve: asking for another drives its prefix out.
  if (settings.kv == Bytes(0)) settings.kv = settings.kv_frame * (blocks + blocks / 16 + 4);
  if (settings.kv_host < settings.kv_frame * (2 * blocks)) {
    return invalid_argument(fmt::format("host memory for KV has {:.1f} GB; two prompts take {:.1f}",
                                        to_gb(settings.kv_host),
                                        to_gb(settings.kv_frame * (2 * blocks))));
  }
  settings.weights = round_up(card_.layout.bytes, settings.extent());
  settings.engine.core.schedule.policy = schedule::PolicyKind::kRotary;
  settings.engine.core.schedule.preemption = schedule::PreemptionKind::kRotate;
  CAUSEWAY_TRY(
      local_.open(settings, {{kModel, settings_.config, Tokens(prompt_tokens() + kAnswer)}}));
  CAUSEWAY_TRY(status_of(local_.add(kModel)));
  // So that the weights have come.
  return status_of(ask(random_tokens(1)));
}

Result<double> PrefixBench::ask(const Prompt& prefix) {
  Prompt prompt = prefix;
  const Prompt rest = random_tokens(settings_.rest);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  const Nanos begin = clock_.now();
  CAUSEWAY_ASSIGN(const RequestId id, local_.submit(kModel, std::move(prompt), kAnswer));
  CAUSEWAY_ASSIGN(const TokenTimes times, local_.sink().wait_for_end(id, kPatience));
  if (times.at.empty()) return Error{ErrorCode::kDevice, "a request ended without a token"};
  return to_millis(times.at.front() - begin);
}

Status PrefixBench::wait_for_twins(std::int64_t blocks) {
  const Nanos until = clock_.now() + kTwinsPatience;
  while (local_.slice().engine().observe().twins_used < blocks) {
    if (clock_.now() > until) {
      return Error{ErrorCode::kDeadlineExceeded, "a prefix did not reach host memory in time"};
    }
    pause_until(clock_.now() + millis(5), clock_);
  }
  return {};
}

// By turns: each drives the other out of HBM.
Status PrefixBench::bring_back(const Prompt& first, const Prompt& second, PrefixReport& report) {
  const std::int64_t before = local_.slice().engine().observe().prefix_host_tokens;
  for (int run = 0; run < settings_.runs; ++run) {
    for (const Prompt* prefix : {&first, &second}) {
      CAUSEWAY_ASSIGN(const double took, ask(*prefix));
      report.in_host.add(took);
    }
  }
  const std::int64_t found = local_.slice().engine().observe().prefix_host_tokens - before;
  report.found = found / report.in_host.count();
  report.bytes = settings_.slice.kv_frame * (report.found / card_.kv.tokens.count);
  return {};
}

Result<PrefixReport> PrefixBench::run() {
  say("weights and KV");
  CAUSEWAY_TRY(open());
  PrefixReport report;
  CAUSEWAY_ASSIGN(const auto pinned, home_.pool.pin(kModel));
  CAUSEWAY_ASSIGN(report.link, measure_link_rate(local_, *pinned, settings_.runs));
  const std::int64_t blocks = settings_.prefix / card_.kv.tokens.count;
  say("computed");
  for (int run = 0; run < settings_.runs; ++run) {
    CAUSEWAY_ASSIGN(const double took, ask(random_tokens(settings_.prefix)));
    report.computed.add(took);
  }
  const Prompt first = random_tokens(settings_.prefix), second = random_tokens(settings_.prefix);
  CAUSEWAY_TRY(status_of(ask(first)));
  CAUSEWAY_TRY(wait_for_twins(blocks));
  CAUSEWAY_TRY(status_of(ask(second)));
  say("in HBM");
  for (int run = 0; run < settings_.runs; ++run) {
    CAUSEWAY_ASSIGN(const double took, ask(second));
    report.in_hbm.add(took);
  }
  CAUSEWAY_TRY(wait_for_twins(2 * blocks));
  say("in host memory");
  CAUSEWAY_TRY(bring_back(first, second, report));
  return report;
}

}  // namespace

Result<PrefixReport> bench_prefix(const PrefixBenchSettings& settings, const Clock& clock) {
  CAUSEWAY_ASSIGN(const Bytes home, settings.slice.home());
  return PrefixBench(settings, clock, home).run();
}

std::vector<Figure> prefix_figures(const PrefixReport& report) {
  constexpr double kCopies = 1.10, kRestMs = 10;
  const double rest = report.in_hbm.median();
  const double copies =
      report.link > 0 ? static_cast<double>(report.bytes.count) / report.link * 1e3 : 0;
  return {figure_of("prefix computed", report.computed),
          figure_of("prefix in HBM: what the rest costs", report.in_hbm),
          figure_of("prefix in host memory", report.in_host,
                    {.value = copies + rest,
                     .name = fmt::format("{:.2f} GB at {:.1f} GB/s, and the rest",
                                         to_gb(report.bytes), report.link * 1e-9),
                     .wanted = kCopies * copies + rest + kRestMs})};
}

}  // namespace causeway::bench
