#include "bench/switch_links.h"

#include <fmt/format.h>

#include <vector>

#include "bench/slice_parts.h"

namespace causeway::bench {
namespace {

using transfer::LinkSet;

constexpr int kExhaustiveMax = 4;  // links
constexpr double kWorth = 1.01;    // what one more link must bring
constexpr double kRatio = 1.25;    // of the limit, wanted
constexpr double kSlackMs = 10;

class Prober {
 public:
  Prober(slice::Slice& slice, const BestLinksWanted& wanted, const Clock& clock)
      : slice_(slice), links_(*slice.links()), wanted_(wanted), clock_(clock) {}

  Result<BestLinks> run() {
    device::Arena& arena = slice_.device().arena();
    CAUSEWAY_ASSIGN(range_, arena.reserve(arena.extents_for(wanted_.bytes)));
    CAUSEWAY_TRY(range_.commit(0, range_.extents()));
    best_.links = links_.links;
    CAUSEWAY_TRY(links_.links <= kExhaustiveMax ? try_every() : climb());
    return best_;
  }

 private:
  Status try_every() {
    for (std::uint64_t bits = 1; bits < std::uint64_t{1} << links_.links; ++bits) {
      CAUSEWAY_TRY(try_set({bits}));
    }
    return {};
  }

  Status climb() {
    CAUSEWAY_TRY(try_set(LinkSet::of(0)));
    for (double before = 0; best_.rate > before * kWorth;) {
      before = best_.rate;
      const LinkSet from = best_.set;
      for (int link = 0; link < links_.links; ++link) {
        if (!from.has(link)) CAUSEWAY_TRY(try_set(from.with(link)));
      }
    }
    return try_set(LinkSet::first(links_.links));
  }

  Status try_set(LinkSet set) {
    Samples rates;
    for (std::int64_t i = 0; i <= wanted_.rounds; ++i) {
      CAUSEWAY_ASSIGN(const Nanos took, move(set));
      if (i > 0) rates.add(static_cast<double>(wanted_.bytes.count) / to_seconds(took));
    }
    if (rates.median() <= best_.rate) return {};
    best_.set = set;
    best_.rate = rates.median();
    return {};
  }

  Result<Nanos> move(LinkSet set) {
    const device::DeviceId device = slice_.device().id();
    const Nanos begin = clock_.now();
    CAUSEWAY_ASSIGN(const auto moved,
                    links_.engine->submit(
                        {.direction = transfer::Direction::kIn,
                         .target = device,
                         .segments = {{device::MemoryAddress::in_host(wanted_.home),
                                       device::MemoryAddress::in_arena(device, range_.offset()),
                                       wanted_.bytes}},
                         .only = set}));
    CAUSEWAY_TRY(moved.wait(kPatience));
    return clock_.now() - begin;
  }

  slice::Slice& slice_;
  const slice::SliceLinks& links_;
  const BestLinksWanted& wanted_;
  const Clock& clock_;
  device::AddressRange range_;
  BestLinks best_;
};

}  // namespace

Result<BestLinks> measure_best_links(slice::Slice& slice, const BestLinksWanted& wanted,
                                     const Clock& clock) {
  return Prober(slice, wanted, clock).run();
}

Figure over_best_links(Figure first, const BestLinks& best, Bytes crossing) {
  const auto bytes = static_cast<double>(crossing.count);
  first.what += fmt::format(", over {} links", best.links);
  first.limit = 1e3 * bytes / best.rate;
  first.limit_name = fmt::format("{:.2f} GB over links {} at {:.1f} GB/s", bytes / 1e9,
                                 transfer::text_of(best.set), best.rate / 1e9);
  first.wanted = kRatio * first.limit + kSlackMs;
  return first;
}

}  // namespace causeway::bench
