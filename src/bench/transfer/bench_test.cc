// Every part of the benchmark on modelled links: it ends, its rows are whole, and what must hold on
// any machine holds. How fast a busy machine's model is, is not tested.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bench/transfer/background_traffic.h"
#include "bench/transfer/parts.h"
#include "device/host/host_machine.h"
#include "transfer/link_map.h"

namespace causeway::transfer::bench::bench_test {
namespace {

using device::LinkTree;

// "Another process" that is a thread with an engine of its own.
class ThreadProcess final : public SecondProcess {
 public:
  ThreadProcess(Rig& rig, std::unique_ptr<TransferEngine> engine, Direction direction, Nanos length)
      : rig_(rig), engine_(std::move(engine)), direction_(direction), length_(length) {}
  ~ThreadProcess() override {
    if (thread_.joinable()) thread_.join();
  }
  Status go() override {
    thread_ = std::thread(
        [this] { rate_ = steady_rate_of(rig_, *engine_, rig_.gpus() - 1, direction_, length_); });
    return {};
  }
  Result<double> rate() override {
    thread_.join();
    return rate_;
  }

 private:
  Rig& rig_;
  std::unique_ptr<TransferEngine> engine_;
  const Direction direction_;
  const Nanos length_;
  Result<double> rate_ = 0.0;
  std::thread thread_;
};

class Parts : public ::testing::Test {
 protected:
  void SetUp() override {
    open({.devices = 2, .link = 80e6, .link_duplex = 160e6, .peer_link = 800e6});
  }

  void open(const LinkTree& tree) {
    machine_ = device::HostMachine::create({.devices = tree.devices,
                                            .links = device::make_link_tree(tree),
                                            .extent_bytes = kib(256)},
                                           clock_, memory_)
                   .value();
    for (int d = 0; d < tree.devices; ++d) {
      devices_.push_back(
          machine_->open({.name = "d", .physical_device = d, .arena_bytes = mib(64)}).value());
      setup_.devices.push_back(devices_.back().get());
    }
    setup_.clock = &clock_;
    setup_.memory = &memory_;
    setup_.engine.dispatch.chunk_bytes = {kib(64), kib(64)};
    setup_.engine.dispatch.chunk_bytes_min = kib(16);
    setup_.engine.dispatch.multipath_bytes_min = kib(256);
    setup_.sizes = {kib(4), mib(1), mib(2)};
    setup_.runs = 3;
    setup_.quick = true;
    setup_.large = mib(1);
    setup_.steady = millis(20);
    setup_.native = [this](int gpu) {
      return make_stream_copies(*setup_.devices[static_cast<std::size_t>(gpu)]);
    };
    setup_.free_memory = [](int) { return Result<Bytes>(gib(1)); };
    setup_.map = map_of(tree);
  }

  // What the model is, not what a busy machine makes of it: whether a relay pays must not depend on
  // who else computes here. Links and peers alike; every set moves the sum of its links.
  static LinkMap map_of(const LinkTree& tree) {
    LinkMap map;
    map.machine = "host";
    map.links = tree.devices;
    map.duplex.assign(static_cast<std::size_t>(tree.devices), tree.link_duplex);
    for (const Direction direction : kBothDirections) {
      auto& own = map.own[index_of(direction)];
      for (int link = 0; link < tree.devices; ++link) {
        own.push_back({LinkSet::of(link), tree.link});
      }
      own.push_back({LinkSet::first(tree.devices), tree.devices * tree.link});
      for (int target = 0; target < tree.devices; ++target) {
        map.relayed[index_of(direction)].push_back(
            {target, LinkSet::first(tree.devices), tree.devices * tree.link});
      }
    }
    for (int source = 0; source < tree.devices; ++source) {
      for (int target = 0; target < tree.devices; ++target) {
        if (source != target) map.peers.push_back({source, target, tree.peer_link});
      }
    }
    return map;
  }

  std::vector<BenchRow> run(Status (*part)(Rig&, Report&)) {
    const auto rig = Rig::make(setup_).value();
    setup_.second_process = [&](int, Direction direction, Nanos length) {
      return Result<std::unique_ptr<SecondProcess>>(std::make_unique<ThreadProcess>(
          *rig, rig->make_engine(setup_.engine).value(), direction, length));
    };
    Report report([](const BenchRow&) {});
    const Status status = part(*rig, report);
    EXPECT_TRUE(status.ok()) << status.error().message;
    for (const BenchRow& row : report.rows()) {
      EXPECT_FALSE(row.figures.empty()) << row.what;
      for (const Figure& figure : row.figures) {
        EXPECT_TRUE(std::isfinite(figure.value)) << row.what << ": " << figure.name;
      }
    }
    return report.rows();
  }
  static double figure(const BenchRow& row, const std::string& name) {
    for (const Figure& one : row.figures) {
      if (one.name == name) return one.value;
    }
    ADD_FAILURE() << row.what << " has no " << name;
    return 0;
  }

  RealClock clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::HostMachine> machine_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  BenchSetup setup_;
};

TEST_F(Parts, Sizes) {
  const auto rows = run(run_sizes);
  ASSERT_EQ(rows.size(), 7u);  // each way; both at once of what fits twice
  bool relayed = false;
  for (const BenchRow& row : rows) {
    if (row.part == "duplex") continue;
    EXPECT_LE(figure(row, "native GB/s"), 1.05 * 0.08) << row.what;
    const bool small = row.what.find("KiB") != std::string::npos;
    EXPECT_TRUE(!small || figure(row, "any relayed") == 0) << row.what;
    relayed = relayed || figure(row, "any relayed") > 0;
    EXPECT_TRUE(row.bar.has_value());
  }
  EXPECT_TRUE(relayed);
}

TEST_F(Parts, BreakEven) {
  const auto rows = run(run_break_even);
  ASSERT_EQ(rows.size(), 2u * 2);  // 1 MiB and the result
  EXPECT_TRUE(rows.back().bar.has_value());
}

TEST_F(Parts, SetsAreAllTried) {
  const auto rows = run(run_sets);
  std::set<std::string> sets;
  int beside_best = 0;
  for (const BenchRow& row : rows) {
    if (row.part == "sets") sets.insert(row.what);
    if (row.part == "of best set") ++beside_best;
  }
  EXPECT_EQ(sets.size(), 6u);  // 0; 1; 0,1 each way
  EXPECT_EQ(beside_best, 4);   // 1 MiB and 2 MiB each way
}

TEST_F(Parts, Gpus) { EXPECT_EQ(run(run_gpus).size(), 4u); }
TEST_F(Parts, Chunks) { EXPECT_EQ(run(run_chunks).size(), 14u); }
TEST_F(Parts, Segments) { EXPECT_EQ(run(run_segments).size(), 4u); }  // 64, 256 KiB

TEST_F(Parts, DirectFirstKeepsPeersFree) {
  const auto rows = run(run_direct_first);
  ASSERT_EQ(rows.size(), 4u);
  // Without it half of the bytes travel over NVLink, on a machine that has time.
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    EXPECT_LT(figure(rows[i], "share over NVLink"), 0.25);
  }
}

TEST_F(Parts, Background) {
  const auto rows = run(run_background);
  EXPECT_GE(rows.size(), 2u);
  for (const BenchRow& row : rows) EXPECT_GT(figure(row, "native GB/s"), 0);
}

TEST_F(Parts, StaticSplits) {
  const auto rows = run(run_static);
  ASSERT_EQ(rows.size(), 6u);
  for (const BenchRow& row : rows) {
    const bool disturbed = row.what.find("undisturbed") == std::string::npos;
    EXPECT_EQ(row.figures.size(), disturbed ? 8u : 4u);
  }
}

TEST_F(Parts, Processes) { EXPECT_EQ(run(run_processes).size(), 4u); }

TEST_F(Parts, Costs) {
  EXPECT_EQ(run(run_cpu).back().part, "cpu idle");
  const auto rows = run(run_memory);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(figure(rows[0], "staging MiB"), 0.25);  // 2 ways × 2 chunks of 64 KiB
  EXPECT_TRUE(rows[0].bar->met);
}

TEST_F(Parts, NothingToMeasureIsRefused) {
  setup_.sizes.clear();
  EXPECT_EQ(Rig::make(setup_).error().code, ErrorCode::kInvalidArgument);
}

TEST(Names, OfSizes) {
  EXPECT_EQ(size_text(Bytes(7)), "7 B");
  EXPECT_EQ(size_text(kib(64)), "64 KiB");
  EXPECT_EQ(size_text(kib(2'816)), "2.8 MiB");
  EXPECT_EQ(size_text(gib(8)), "8 GiB");
  const Spread spread = spread_of({3, 1, 2});
  EXPECT_EQ(spread.median, 2);
  EXPECT_EQ(spread.low, 1);
  EXPECT_EQ(spread.high, 3);
}

}  // namespace
}  // namespace causeway::transfer::bench::bench_test
