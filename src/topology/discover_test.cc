#include "topology/discover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "topology/render.h"

namespace causeway::topology::discover_test {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the fake management library answers. Its functions carry no state, so there is one at a
// time.
struct FakeNvml {
  int gpus = 2;
  int init = 0;
  int cuda = 13'000;
  int mig_mode = 0;  // the result of asking
  unsigned mig_now = 0;
  int mig_list = 6;  // the result of listing instances: not found
  int nvlinks = 18;
  int sessions = 0;
};
FakeNvml fake;

int index_of(NvmlDevice device) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(device));
}

void add_links(NvmlApi& api) {
  api.nvmlDeviceGetCurrPcieLinkGeneration = [](NvmlDevice, unsigned* value) {
    return *value = 1, 0;
  };
  api.nvmlDeviceGetMaxPcieLinkGeneration = [](NvmlDevice, unsigned* value) {
    return *value = 5, 0;
  };
  api.nvmlDeviceGetCurrPcieLinkWidth = [](NvmlDevice, unsigned* value) { return *value = 16, 0; };
  api.nvmlDeviceGetMaxPcieLinkWidth = [](NvmlDevice, unsigned* value) { return *value = 16, 0; };
  api.nvmlDeviceGetNvLinkState = [](NvmlDevice, unsigned link, unsigned* active) {
    *active = static_cast<int>(link) < fake.nvlinks ? 1 : 0;
    return 0;
  };
  api.nvmlDeviceGetNvLinkVersion = [](NvmlDevice, unsigned, unsigned* version) {
    return *version = 6, 0;  // NVLink 4
  };
  api.nvmlDeviceGetNvLinkRemoteDeviceType = [](NvmlDevice, unsigned, int* type) {
    return *type = 2, 0;
  };
  api.nvmlDeviceGetP2PStatus = [](NvmlDevice, NvmlDevice, int, int* status) {
    return *status = 0, 0;
  };
}

void add_mig(NvmlApi& api) {
  api.nvmlDeviceGetMigMode = [](NvmlDevice, unsigned* now, unsigned* pending) {
    *now = *pending = fake.mig_now;
    return fake.mig_mode;
  };
  api.nvmlDeviceGetMaxMigDeviceCount = [](NvmlDevice, unsigned* count) { return *count = 7, 0; };
  api.nvmlDeviceGetMigDeviceHandleByIndex = [](NvmlDevice, unsigned index, NvmlDevice* instance) {
    *instance = reinterpret_cast<NvmlDevice>(static_cast<std::intptr_t>(index + 100));
    return index < 2 ? fake.mig_list : 6;
  };
  api.nvmlDeviceGetGpuInstanceId = [](NvmlDevice instance, unsigned* id) {
    return *id = static_cast<unsigned>(index_of(instance) - 91), 0;
  };
  api.nvmlDeviceGetComputeInstanceId = [](NvmlDevice, unsigned* id) { return *id = 0, 0; };
  api.nvmlDeviceGetAttributes_v2 = [](NvmlDevice, NvmlAttributes* attributes) {
    attributes->sms = 16;
    attributes->memory_mib = 16'384;
    return 0;
  };
}

NvmlApi fake_api() {
  NvmlApi api;
  api.nvmlInit_v2 = [] {
    if (fake.init == 0) ++fake.sessions;
    return fake.init;
  };
  api.nvmlShutdown = [] { return --fake.sessions, 0; };
  api.nvmlSystemGetDriverVersion = [](char* version, unsigned length) {
    std::strncpy(version, "580.159.03", length);
    return 0;
  };
  api.nvmlSystemGetCudaDriverVersion_v2 = [](int* version) { return *version = fake.cuda, 0; };
  api.nvmlDeviceGetCount_v2 = [](unsigned* count) {
    *count = static_cast<unsigned>(fake.gpus);
    return 0;
  };
  api.nvmlDeviceGetHandleByIndex_v2 = [](unsigned index, NvmlDevice* device) {
    *device = reinterpret_cast<NvmlDevice>(static_cast<std::intptr_t>(index));
    return 0;
  };
  api.nvmlDeviceGetName = [](NvmlDevice, char* name, unsigned length) {
    std::strncpy(name, "NVIDIA H200", length);
    return 0;
  };
  api.nvmlDeviceGetPciInfo_v3 = [](NvmlDevice device, NvmlPciInfo* info) {
    std::snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0",
                  index_of(device) == 0 ? 0x1b : 0x9b);
    return 0;
  };
  api.nvmlDeviceGetMemoryInfo = [](NvmlDevice, NvmlMemory* memory) {
    memory->total = 143'771ull << 20;
    return 0;
  };
  api.nvmlDeviceGetNumGpuCores = [](NvmlDevice, unsigned* cores) { return *cores = 16'896, 0; };
  api.nvmlDeviceGetCudaComputeCapability = [](NvmlDevice, int* major, int* minor) {
    *major = 9;
    *minor = 0;
    return 0;
  };
  add_links(api);
  add_mig(api);
  return api;
}

// Two packages with a NUMA node each; GPU 1b:00.0 behind a bridge of the first, 9b:00.0 directly at
// the host bridge of the second, and a network card that does not matter.
std::string two_sockets() {
  std::ifstream file(CAUSEWAY_TOPOLOGY_TESTDATA "/two_sockets.xml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class DiscoverTest : public ::testing::Test {
 protected:
  void SetUp() override { fake = FakeNvml(); }
  void TearDown() override { EXPECT_EQ(fake.sessions, 0); }
  Result<Machine> discover_two_sockets() {
    api_ = fake_api();
    DiscoverOptions options;
    options.nvml = &api_;
    options.hwloc_xml = two_sockets();
    options.memory_available = gib(1);
    options.memory_limited_by = "a test";
    return discover(options);
  }
  NvmlApi api_;
};

TEST_F(DiscoverTest, JoinsTheTwoSourcesByBusId) {
  const Machine machine = discover_two_sockets().value();
  EXPECT_THAT(machine.notes, ElementsAre());
  ASSERT_EQ(machine.gpus.size(), 2u);
  const Gpu& gpu = machine.gpus[0];
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.pci_id, "0000:1b:00.0");
  EXPECT_EQ(gpu.memory, mib(143'771));
  EXPECT_EQ(gpu.sms, 132);
  EXPECT_EQ(gpu.numa, 0);
  EXPECT_EQ(machine.gpus[1].numa, 1);
  EXPECT_EQ(gpu.pcie_now.generation, 1);
  EXPECT_EQ(gpu.pcie_max.generation, 5);
  EXPECT_EQ(gpu.nvlinks.active, 18);
  EXPECT_EQ(gpu.nvlinks.to_switch, 18);
  EXPECT_EQ(gpu.nvlinks.version, 4);
  EXPECT_THAT(gpu.peers, ElementsAre(1));
  EXPECT_EQ(gpu.mig, MigState::kDisabled);
  EXPECT_EQ(machine.driver, "580.159.03");
  EXPECT_EQ(machine.cpus, 4);
  EXPECT_EQ(machine.cores, 2);
  // Each GPU hangs below its own NUMA node; the network card is left out.
  const auto above = [&](int gpu_index) {
    std::string path;
    for (int n = node_of_gpu(machine, gpu_index); n >= 0;) {
      const Node& node = machine.nodes[static_cast<std::size_t>(n)];
      path += std::string(name_of(node.kind)) + (node.name.empty() ? " " : "=" + node.name + " ");
      n = node.parent;
    }
    return path;
  };
  EXPECT_EQ(above(0), "gpu bridge=0000:17:01.0 bridge numa package=A processor machine ");
  EXPECT_EQ(above(1), "gpu bridge numa package machine ");
  EXPECT_EQ(machine.nodes.size(), 10u);
  EXPECT_THAT(render_tree(machine), HasSubstr("PCI bridge 0000:17:01.0"));
}

TEST_F(DiscoverTest, OldDriversAreToldBothVersions) {
  fake.cuda = 12'020;
  EXPECT_THAT(discover_two_sockets().value().notes,
              Contains(AllOf(HasSubstr("580.159.03"), HasSubstr("CUDA 12.2"),
                             HasSubstr("needs CUDA 13.0"))));
}

TEST_F(DiscoverTest, MigIsReadNeverChanged) {
  fake.mig_now = 1;
  fake.mig_list = 0;
  const Machine machine = discover_two_sockets().value();
  EXPECT_EQ(machine.gpus[0].mig, MigState::kEnabled);
  ASSERT_EQ(machine.gpus[0].mig_instances.size(), 2u);
  EXPECT_EQ(machine.gpus[0].mig_instances[1].gpu_instance, 10);
  EXPECT_EQ(machine.gpus[0].mig_instances[1].sms, 16);
  EXPECT_EQ(machine.gpus[0].mig_instances[1].memory, gib(16));
}

TEST_F(DiscoverTest, MigWithoutPermissionIsExplained) {
  fake.mig_mode = 4;
  const Machine denied = discover_two_sockets().value();
  EXPECT_EQ(denied.gpus[0].mig, MigState::kNoPermission);
  EXPECT_THAT(denied.notes, Contains(HasSubstr("no permission to ask for its MIG state")));
  fake = FakeNvml();
  fake.mig_now = 1;
  fake.mig_list = 4;
  const Machine listed = discover_two_sockets().value();
  EXPECT_EQ(listed.gpus[1].mig, MigState::kNoPermission);
  EXPECT_THAT(listed.notes, Contains(HasSubstr("nvidia-caps")));
  fake = FakeNvml();
  fake.mig_mode = 3;
  EXPECT_EQ(discover_two_sockets().value().gpus[0].mig, MigState::kUnsupported);
}

TEST_F(DiscoverTest, LibrariesThatLackCallsLeaveGaps) {
  api_ = NvmlApi();
  const NvmlApi full = fake_api();
  api_.nvmlInit_v2 = full.nvmlInit_v2;
  api_.nvmlShutdown = full.nvmlShutdown;
  api_.nvmlDeviceGetCount_v2 = full.nvmlDeviceGetCount_v2;
  api_.nvmlDeviceGetHandleByIndex_v2 = full.nvmlDeviceGetHandleByIndex_v2;
  Machine machine;
  ASSERT_TRUE(read_gpus(api_, machine).ok());
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].sms, 0);
  EXPECT_THAT(machine.notes, Contains(HasSubstr("GPU 1: its memory is unknown: the driver's "
                                                "library lacks the call")));
}

TEST_F(DiscoverTest, NoDriverNoGpuNoLibrary) {
  fake.init = 9;
  EXPECT_THAT(discover_two_sockets().value().notes,
              Contains(HasSubstr("no GPU: the NVIDIA management library does not start: the "
                                 "driver is not loaded")));
  fake.init = 18;
  EXPECT_THAT(discover_two_sockets().value().notes, Contains(HasSubstr("different versions")));
  fake.init = 0;
  fake.gpus = 0;
  EXPECT_THAT(discover_two_sockets().value().notes, Contains(HasSubstr("the NVIDIA driver lists")));
  // The bus shows GPUs that no library speaks for.
  DiscoverOptions options;
  options.hwloc_xml = two_sockets();
  options.no_nvml_because = load_nvml("libnvidia-ml-that-nobody-has.so.1").error().message;
  const Machine machine = discover(options).value();
  EXPECT_TRUE(machine.gpus.empty());
  EXPECT_THAT(machine.notes, Contains(HasSubstr("no GPU: no NVIDIA management library")));
  EXPECT_THAT(machine.notes, Contains(HasSubstr("GPU at 0000:1b:00.0 is on the bus, but")));
}

TEST_F(DiscoverTest, GpusThatTheBusHidesAreListed) {
  api_ = fake_api();
  DiscoverOptions options;
  options.nvml = &api_;
  const Machine machine = discover(options).value();  // this machine's bus
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_GE(node_of_gpu(machine, 1), 0);
  EXPECT_GE(machine.cpus_usable, 1);
  EXPECT_GT(machine.memory, mib(64));
  options.hwloc_xml = "<no topology>";
  EXPECT_FALSE(discover(options).ok());
}

TEST(Discover, AThreadBoundToACpuMayUseThatOne) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  Machine machine;
  std::thread([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    machine = discover({}).value();
  }).join();
  EXPECT_EQ(machine.cpus_usable, 1);
  for (const Node& node : machine.nodes) {
    EXPECT_THAT(node.cpus, AnyOf("", std::to_string(cpu)));
  }
}

TEST(LoadNvml, OtherLibrariesAreRefused) {
  EXPECT_EQ(load_nvml("libm.so.6").error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace causeway::topology::discover_test
