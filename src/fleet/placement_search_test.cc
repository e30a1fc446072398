// The search of the bandwidth placement against the scan, over random fleets larger than those of
// the histories: it must choose the same slice, victims and demand.
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "fleet/testing/placement_scan.h"

namespace causeway::fleet::placement_search_test {
namespace {

// As many orders of magnitude as limits have; now and then equal to others.
double rate(Random& random, double largest) {
  if (random.chance(0.1)) return 0;
  return largest * static_cast<double>(random.between(1, 8)) / 8;
}

class RandomFleet {
 public:
  explicit RandomFleet(std::uint64_t seed) : random_(seed), view_(make()) {}

  // What is on a slice changes, or whether it is up.
  void change() {
    const SliceId slice = any_slice();
    const ModelId model(random_.below(60));
    const double dice = random_.uniform();
    if (random_.chance(0.1)) view_.set_request_work(rate(random_, 100));
    if (dice < 0.05) return view_.set_up(slice, !view_.slice(slice).up);
    if (dice < 0.35) return view_.remove(slice, model);
    PlacedModel placed{.model = model, .demand = demand_of(any_model(), any_bytes())};
    placed.may_drain = random_.chance(0.8);
    placed.may_go = placed.may_drain && random_.chance(0.6);
    placed.bytes = any_bytes();
    placed.requests = placed.may_go ? 0 : random_.between(0, 3);
    for (std::int64_t i = random_.below(3); i > 0; --i) placed.rate.add(seconds(random_.below(90)));
    view_.put(slice, placed);
  }

  // Whether somewhere was found; a CHECK fails if the two differ.
  bool choose() {
    const ModelSpec model = any_model();
    std::vector<SliceId> unfit;
    if (random_.chance(0.2)) unfit = {any_slice(), any_slice()};
    const bool evicts = random_.chance(0.8);
    const Candidate candidate{.model = ModelId(99),
                              .spec = model,
                              .evicts = evicts,
                              .drains = evicts && random_.chance(0.3),
                              .last = random_.chance(0.5) ? any_slice() : SliceId(),
                              .time_shared = random_.chance(0.5),
                              .unfit = unfit};
    return compared_->choose(view_, candidate).has_value();
  }

 private:
  FleetView make() {
    const std::int64_t slices = random_.between(1, 70), links = random_.between(1, 10);
    const bool alike = random_.chance(0.5), tight = random_.chance(0.5);
    std::vector<SliceSpec> specs;
    std::vector<LinkSpec> of_links;
    for (std::int64_t i = 0; i < links; ++i) {
      of_links.push_back({.bytes_per_second = rate(random_, tight ? 200 : 2000)});
    }
    for (std::int64_t i = 0; i < slices; ++i) {
      SliceSpec spec{.link = random_.chance(0.9) ? LinkId(random_.below(links)) : LinkId(),
                     .models_max = random_.between(0, 4),
                     .memory = random_.chance(0.2) ? Bytes(0) : Bytes(random_.between(5, 60)),
                     .memory_bytes_per_second = rate(random_, tight ? 200 : 2000),
                     .flops_per_second = rate(random_, 50)};
      if (alike && i > 0) spec = specs.front();
      specs.push_back(spec);
    }
    return {std::move(specs), std::move(of_links)};
  }
  ModelSpec any_model() {
    ModelSpec model;
    model.weights = Bytes(random_.between(0, 20));
    model.slo.tpot = millis(random_.between(1, 4) * 50);
    model.slo.ttft = seconds(1);
    model.flops_per_token = static_cast<double>(random_.below(3));
    model.prompt = Tokens(random_.below(6));
    model.memory_min = Bytes(random_.below(8));
    return model;
  }
  Bytes any_bytes() { return Bytes(random_.between(0, 20)); }
  SliceId any_slice() { return SliceId(random_.below(view_.size())); }

  Random random_;
  FleetView view_;
  const std::unique_ptr<PlacementPolicy> compared_ = testing::make_compared_placement();
};

TEST(PlacementSearch, ChoosesAsTheScanDoes) {
  std::int64_t found = 0, not_found = 0;
  for (std::uint64_t seed = 1; seed <= rounds<std::uint64_t>(300); ++seed) {
    SCOPED_TRACE(seed);
    RandomFleet fleet(seed);
    for (int i = 0; i < 200; ++i) {
      for (int n = 0; n < 4; ++n) fleet.change();
      (fleet.choose() ? found : not_found) += 1;
    }
  }
  EXPECT_GT(found, rounds(30'000));
  EXPECT_GT(not_found, rounds(1'000));
}

}  // namespace
}  // namespace causeway::fleet::placement_search_test
