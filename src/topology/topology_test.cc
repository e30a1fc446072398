#include "topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "topology/discover.h"
#include "topology/render.h"
#include "topology/snapshot.h"

namespace causeway::topology::topology_test {
namespace {

using ::testing::HasSubstr;

// Two packages; two GPUs behind one switch of the first, one behind the second.
Machine small_cluster() {
  Machine machine;
  const auto add = [&](NodeKind kind, int parent, std::string name, int index) {
    Node node;
    node.kind = kind;
    node.parent = parent;
    node.name = std::move(name);
    node.index = index;
    machine.nodes.push_back(node);
    return static_cast<int>(machine.nodes.size()) - 1;
  };
  const int root = add(NodeKind::kMachine, -1, "", -1);
  for (int p = 0; p < 2; ++p) {
    const int package = add(NodeKind::kPackage, root, "A processor", p);
    const int numa = add(NodeKind::kNuma, package, "", p);
    machine.nodes[static_cast<std::size_t>(numa)].memory = gib(256);
    machine.nodes[static_cast<std::size_t>(numa)].cpus = p == 0 ? "0-31" : "32-63";
    const int host = add(NodeKind::kBridge, numa, "", -1);
    const int bridge = add(NodeKind::kBridge, host, p == 0 ? "0000:17:01.0" : "0000:97:01.0", -1);
    for (int g = p == 0 ? 0 : 2; g < (p == 0 ? 2 : 3); ++g) add(NodeKind::kGpu, bridge, "", g);
  }
  for (int g = 0; g < 3; ++g) {
    Gpu gpu;
    gpu.name = "NVIDIA H200";
    gpu.pci_id = "0000:1" + std::to_string(g) + ":00.0";
    gpu.memory = mib(143'771);
    gpu.sms = 132;
    gpu.compute = 90;
    gpu.numa = g / 2;
    gpu.pcie_now = {1, 16};
    gpu.pcie_max = {5, 16};
    gpu.nvlinks = {4, 18, 18};
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != g) gpu.peers.push_back(peer);
    }
    gpu.mig = MigState::kDisabled;
    machine.gpus.push_back(gpu);
  }
  machine.gpus[2].mig = MigState::kEnabled;
  machine.gpus[2].mig_instances = {{1, 0, 60, gib(70)}, {5, 0, 26, gib(35)}};
  machine.cores = 64;
  machine.cpus = 128;
  machine.cpus_usable = 64;
  machine.cpu_quota = 2.5;
  machine.memory = gib(512);
  machine.memory_available = gib(100);
  machine.memory_limited_by = "the limit of control group /x";
  machine.driver = "580.159.03";
  machine.cuda = 13'000;
  machine.notes = {"something \"odd\""};
  return machine;
}

TEST(Topology, LinksCarryWhatTheirSpecificationSays) {
  EXPECT_NEAR(PcieLink({5, 16}).bytes_per_second() * 1e-9, 63.0, 0.02);
  EXPECT_NEAR(PcieLink({4, 16}).bytes_per_second() * 1e-9, 31.5, 0.01);
  EXPECT_NEAR(PcieLink({1, 1}).bytes_per_second() * 1e-9, 0.25, 1e-9);
  EXPECT_EQ(PcieLink({0, 16}).bytes_per_second(), 0);
  EXPECT_EQ(PcieLink({99, 16}).bytes_per_second(), 0);
  EXPECT_NEAR(NvLinks({4, 18, 18}).bytes_per_second() * 1e-9, 450, 1e-6);
  EXPECT_EQ(NvLinks({40, 18, 18}).bytes_per_second(), 0);
}

TEST(Topology, BusIdsComeInManyForms) {
  EXPECT_EQ(normal_pci_id("00000000:1B:00.0"), "0000:1b:00.0");
  EXPECT_EQ(normal_pci_id("0000:1b:00.0"), "0000:1b:00.0");
  EXPECT_EQ(normal_pci_id("1b:00.1"), "0000:1b:00.1");
  EXPECT_EQ(normal_pci_id("00010000:01:1f.7"), "10000:01:1f.7");
  for (const char* bad : {"", ":", "1b", "1b:00", "1b:0g.0", "x:1b:00.0", "0:0:1b:00.0", "1b:20.0",
                          "100:00.0", "1b:00.8", "-1:00.0"}) {
    EXPECT_EQ(normal_pci_id(bad), "") << bad;
  }
}

TEST(Topology, FindsAGpuInTheTree) {
  const Machine machine = small_cluster();
  ASSERT_TRUE(check(machine).ok());
  const int node = node_of_gpu(machine, 2);
  ASSERT_GE(node, 0);
  EXPECT_EQ(machine.nodes[static_cast<std::size_t>(node)].kind, NodeKind::kGpu);
  EXPECT_EQ(machine.nodes[static_cast<std::size_t>(node)].index, 2);
  EXPECT_EQ(node_of_gpu(machine, 7), -1);
}

TEST(Snapshot, SurvivesTheRoundTrip) {
  const Machine machine = small_cluster();
  const std::string text = write_snapshot(machine);
  const auto again = read_snapshot(text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(write_snapshot(*again), text);
  EXPECT_EQ(again->gpus[2].mig_instances[1].memory, gib(35));
  EXPECT_EQ(again->nodes[2].cpus, "0-31");
  EXPECT_EQ(again->notes, machine.notes);
  EXPECT_EQ(render_tree(*again), render_tree(machine));
}

std::string message_of(const std::string& text) {
  const auto read = read_snapshot(text);
  return read.ok() ? "ok" : read.error().message;
}

TEST(Snapshot, KeepsListsOfManyCpus) {
  Machine machine = small_cluster();
  for (Node& node : machine.nodes) {
    if (node.kind != NodeKind::kNuma) continue;
    // Two nodes that take turns.
    for (int cpu = node.index; cpu < 1'024; cpu += 2) {
      node.cpus += (node.cpus.empty() ? "" : ",") + std::to_string(cpu);
    }
  }
  const auto again = read_snapshot(write_snapshot(machine));
  ASSERT_TRUE(again.ok()) << again.error().message;
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    EXPECT_EQ(again->nodes[i].cpus, machine.nodes[i].cpus);
  }
}

TEST(Snapshot, HostileInputIsNamed) {
  const std::string head = R"({"causeway_topology": 1, "nodes": [{"kind": "machine")";
  EXPECT_EQ(message_of(head + R"(, "parent": -1}]})"), "ok");
  EXPECT_THAT(message_of(""), HasSubstr("no valid JSON"));
  EXPECT_THAT(message_of("[]"), HasSubstr("file is no object"));
  EXPECT_THAT(message_of("{}"), HasSubstr("causeway_topology is missing"));
  EXPECT_THAT(message_of(R"({"causeway_topology": 2})"), HasSubstr("version 2"));
  EXPECT_EQ(read_snapshot(R"({"causeway_topology": 2})").error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(message_of(R"({"causeway_topology": 1})"), HasSubstr("at least the machine"));
  EXPECT_THAT(message_of(R"({"causeway_topology": 1, "nodes": 3})"), HasSubstr("file.nodes"));
  EXPECT_THAT(message_of(R"({"causeway_topology": 1, "nodes": [3]})"), HasSubstr("nodes[0]"));
  EXPECT_THAT(message_of(head + R"(}, {"kind": "gpu", "parent": 0, "index": 0}]})"),
              HasSubstr("GPU 0, which is not listed"));
  EXPECT_THAT(message_of(head + R"(}, {"kind": "numa", "parent": 1}]})"),
              HasSubstr("does not come before"));
  EXPECT_THAT(message_of(head + R"(}, {"kind": "machine", "parent": 0}]})"),
              HasSubstr("second machine"));
  EXPECT_THAT(message_of(head + R"(}, {"kind": "moon", "parent": 0}]})"), HasSubstr("'moon'"));
  EXPECT_THAT(message_of(head + R"(}], "memory": 18446744073709551615})"),
              HasSubstr("memory is too large"));
  EXPECT_THAT(message_of(head + R"(}], "memory": -1})"), HasSubstr("out of range"));
  EXPECT_THAT(message_of(head + R"(}], "cpu_quota": 1e300})"), HasSubstr("cpu_quota"));
  EXPECT_THAT(message_of(head + R"(}], "driver": "a\u0007"})"), HasSubstr("control characters"));
  EXPECT_THAT(message_of(head + R"(}], "driver": ")" + std::string(600, 'x') + "\"}"),
              HasSubstr("too long"));
  EXPECT_THAT(message_of(head + R"(}], "gpus": [{"mig": "disabled", "peers": [0]}]})"),
              HasSubstr("peer 0"));
  EXPECT_THAT(message_of(std::string(100'000, '[')), HasSubstr("nested too deep"));
  EXPECT_THAT(message_of(std::string(5 << 20, ' ')), HasSubstr("larger than"));
}

TEST(Snapshot, ManglingNeverCrashes) {
  const std::string text = write_snapshot(small_cluster());
  Random random(1);
  for (int round = 0; round < 3'000; ++round) {
    std::string mangled = text;
    for (std::int64_t i = random.between(1, 4); i > 0; --i) {
      const auto at = static_cast<std::size_t>(random.below(std::ssize(mangled)));
      if (random.chance(0.3)) {
        mangled.erase(at, static_cast<std::size_t>(random.between(1, 40)));
      } else {
        mangled[at] = static_cast<char>(random.between(32, 126));
      }
      if (mangled.empty()) mangled = "x";
    }
    const auto read = read_snapshot(mangled);
    if (read.ok()) {
      EXPECT_TRUE(check(*read).ok());
      EXPECT_FALSE(render_tree(*read).empty());
    } else {
      EXPECT_FALSE(read.error().message.empty());
    }
  }
}

TEST(Snapshot, RecordedMachinesRead) {
  int seen = 0;
  for (const auto& file : std::filesystem::directory_iterator(CAUSEWAY_TOPOLOGY_TESTDATA)) {
    if (file.path().extension() != ".json") continue;
    const auto machine = load_snapshot(file.path());
    ASSERT_TRUE(machine.ok()) << machine.error().message;
    ++seen;
    EXPECT_GT(machine->gpus.size(), 0u);
    for (std::size_t g = 0; g < machine->gpus.size(); ++g) {
      const Gpu& gpu = machine->gpus[g];
      EXPECT_EQ(gpu.name, "NVIDIA H200");
      EXPECT_EQ(gpu.sms, 132);
      EXPECT_EQ(gpu.compute, 90);
      EXPECT_NEAR(gpu.pcie_max.bytes_per_second() * 1e-9, 63, 0.1);
      EXPECT_EQ(gpu.peers.size(), machine->gpus.size() - 1);
      EXPECT_GE(node_of_gpu(*machine, static_cast<int>(g)), 0);
    }
    EXPECT_EQ(write_snapshot(*read_snapshot(write_snapshot(*machine))), write_snapshot(*machine));
  }
  EXPECT_GE(seen, 1);
  EXPECT_EQ(load_snapshot("no/such/file").error().code, ErrorCode::kIo);
}

TEST(Render, ShowsTreeTableAndNotes) {
  const Machine machine = small_cluster();
  const std::string tree = render_tree(machine);
  EXPECT_THAT(tree, HasSubstr("64 cores, 128 threads, 64 usable by this process for 2.5 CPUs"));
  EXPECT_THAT(tree, HasSubstr("512.0 GiB, 100.0 GiB available to this process (by the limit"));
  EXPECT_THAT(tree, HasSubstr("NVIDIA 580.159.03, CUDA 13.0"));
  EXPECT_THAT(tree, HasSubstr("│  └─ NUMA node 0 (256.0 GiB, CPUs 0-31)"));
  EXPECT_THAT(tree,
              HasSubstr("GPU 0 (NVIDIA H200 at 0000:10:00.0, NVLink 450.0 GB/s to GPU 1, 2)"));
  const std::string table = render_gpus(machine);
  EXPECT_THAT(table, HasSubstr("1 x16"));
  EXPECT_THAT(table, HasSubstr("5 x16    63.0 GB/s"));
  EXPECT_THAT(table, HasSubstr("18 of v4 disabled"));
  EXPECT_THAT(table, HasSubstr("MIG 5/0: 26 SMs, 35.0 GiB"));
  EXPECT_EQ(render_notes(machine), "note: something \"odd\"\n");
  EXPECT_EQ(render_gpus(Machine()), "");
}

TEST(CpuQuota, TheTightestGroupCounts) {
  namespace fs = std::filesystem;
  const TemporaryDirectory directory;
  const fs::path& root = directory.path();
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  const auto quota = [&] {
    return read_cpu_quota((root / "proc").string(), (root / "cg").string());
  };
  EXPECT_EQ(quota(), 0);
  write("proc/self/cgroup", "0::/a/b\n");
  write("cg/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("cg/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota(), 2.5);
  write("cg/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("cg/cpu.max", "garbage");
  EXPECT_EQ(quota(), 2.5);
  write("proc/self/cgroup", "4:cpu,cpuacct:/v1\n");
  write("cg/cpu/v1/cpu.cfs_quota_us", "-1\n");
  write("cg/cpu/v1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("cg/cpu/v1/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(quota(), 0.5);
  fs::remove_all(root);
}

}  // namespace
}  // namespace causeway::topology::topology_test
