#include "topology/gpu_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

namespace causeway::topology::gpu_names_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<NamedGpu> kGpus = {
    {"GPU-8f3c01d2-0000-1111-2222-333344445555", "0000:1b:00.0"},
    {"GPU-8f9912ab-0000-1111-2222-333344445555", "0000:9b:00.0"},
    {"GPU-01020304-0000-1111-2222-333344445555",
     "0000:ab:00.0",
     {"MIG-aaaa0001-0000-1111-2222-333344445555", "MIG-aabb0002-0000-1111-2222-333344445555"}},
    {"GPU-deadbeef-0000-1111-2222-333344445555", "0000:cb:00.0"},
};
// CUDA's numbers are its own.
const std::vector<std::string> kSeen = {"00000000:9B:00.0", "0000:1b:00.0", "0000:AB:00.0"};

std::string refused(std::string_view name) {
  const auto number = number_of_gpu(name, kGpus, kSeen);
  if (number.ok()) return "it is GPU " + std::to_string(*number);
  EXPECT_EQ(number.error().code, ErrorCode::kInvalidArgument);
  return number.error().message;
}

TEST(GpuNames, AreToldFromNumbers) {
  EXPECT_TRUE(is_gpu_name("GPU-1") && is_gpu_name("MIG-1"));
  for (const char* text : {"", "0", "GPU", "gpu-1", "*", "all", "MIG"}) {
    EXPECT_FALSE(is_gpu_name(text)) << text;
  }
}

TEST(GpuNames, BecomeCudasNumbersByPciId) {
  EXPECT_EQ(number_of_gpu(kGpus[0].uuid, kGpus, kSeen).value(), 1);
  EXPECT_EQ(number_of_gpu(kGpus[1].uuid, kGpus, kSeen).value(), 0);
  EXPECT_EQ(number_of_gpu("GPU-8f3", kGpus, kSeen).value(), 1);
  EXPECT_EQ(number_of_gpu("GPU-8F9912AB", kGpus, kSeen).value(), 0);
}

TEST(GpuNames, WhatIsNotThereIsRefusedWithWhatIs) {
  EXPECT_THAT(refused("GPU-77"),
              AllOf(HasSubstr("no GPU 'GPU-77'"), HasSubstr(kGpus[0].uuid + " (GPU 1)"),
                    HasSubstr(kGpus[3].uuid + " (not seen by this process)"),
                    HasSubstr("its instance MIG-aaaa0001")));
  EXPECT_THAT(refused("GPU-deadbeef"), HasSubstr("no GPU 'GPU-deadbeef' in this process's sight"));
  EXPECT_THAT(refused("GPU-8f"), HasSubstr("the beginning of several"));
  EXPECT_THAT(refused("GPU-"), HasSubstr("the beginning of several"));
  EXPECT_THAT(refused("GPU-\n" + std::string(1000, 'x')), HasSubstr("'GPU-?xxx"));
  EXPECT_LT(refused("GPU-" + std::string(100'000, 'x')).size(), 1000u);
  EXPECT_THAT(number_of_gpu("GPU-1", {}, kSeen).error().message, HasSubstr("names none"));
}

TEST(GpuNames, AnInstanceIsNoGpuOfThisProcess) {
  EXPECT_THAT(refused("MIG-aaaa"),
              AllOf(HasSubstr("a worker process can have MIG-aaaa0001-0000-1111-2222-333344445555"),
                    HasSubstr("or this process if that is all that it sees")));
  EXPECT_THAT(refused("MIG-aa"), HasSubstr("several MIG instances"));
  EXPECT_THAT(refused("MIG-77"),
              AllOf(HasSubstr("no MIG instance"), HasSubstr("its instance MIG-aaaa0001")));
  EXPECT_THAT(refused("GPU-0102"), HasSubstr("is divided into MIG instances: name these"));
}

std::string instances(std::string_view slices, std::span<const NamedGpu> gpus = kGpus) {
  const auto chosen = instances_of_slices(slices, gpus);
  if (!chosen.ok()) return "refused: " + chosen.error().message;
  std::string text;
  for (const ChosenInstance& one : *chosen) text += one.uuid.substr(0, 12) + "@" + one.pci_id + " ";
  return text;
}

TEST(GpuNames, InstancesAreSlices) {
  EXPECT_TRUE(names_instances("MIG-aa;0:all"));
  EXPECT_FALSE(names_instances("0:all;MIG-aa") || names_instances("") || names_instances("all"));
  EXPECT_EQ(instances("MIG-aaaa;MIG-AABB:all"),
            "MIG-aaaa0001@0000:ab:00.0 MIG-aabb0002@0000:ab:00.0 ");
  EXPECT_THAT(instances("MIG-aaaa;MIG-aaaa0001:all"), HasSubstr("named twice"));
  EXPECT_THAT(instances("MIG-aa"), HasSubstr("the beginning of several"));
  EXPECT_THAT(instances("MIG-77"), AllOf(HasSubstr("no MIG instance"), HasSubstr("GPU-deadbeef")));
  EXPECT_THAT(instances("MIG-aaaa;0:all"), HasSubstr("'0:all' stands beside MIG instances"));
  EXPECT_THAT(instances("MIG-aaaa;"), HasSubstr("stands beside"));
  EXPECT_THAT(instances("MIG-aaaa:2x8"), HasSubstr("is one slice"));
  EXPECT_LT(instances("MIG-" + std::string(100'000, 'x')).size(), 1000u);
}

TEST(GpuNames, InstancesOfAGpuShareItsLink) {
  const std::vector<ChosenInstance> instances = {
      {"MIG-1", "0000:1b:00.0"}, {"MIG-2", "0000:9b:00.0"},
      {"MIG-3", "0000:1b:00.0"}, {"MIG-4", ""},
      {"MIG-5", "0000:9b:00.0"}, {"MIG-6", ""}};
  std::vector<int> links;
  for (int i = 0; i < 6; ++i) links.push_back(link_of_instance(instances, i));
  EXPECT_THAT(links, ElementsAre(0, 1, 0, 3, 1, 3));
}

TEST(GpuNames, InstancesThatMayNotBeListedAreTakenByTheirWholeNames) {
  const std::vector<NamedGpu> silent = {kGpus[0], kGpus[1]};
  EXPECT_EQ(instances("MIG-cccc0001-0000-1111-2222-333344445555", silent), "MIG-cccc0001@ ");
  EXPECT_EQ(instances("MIG-cccc0001-0000-1111-2222-333344445555", {}), "MIG-cccc0001@ ");
  for (const std::string name : {"MIG-cccc", "MIG-cccc0001-0000-1111-2222-33334444555\n",
                                 "MIG-cccc0001-0000-1111 2222-333344445555"}) {
    EXPECT_THAT(instances(name, silent), HasSubstr("has to be the whole name")) << name;
  }
  std::string many;
  for (int i = 100; i < 165; ++i) {
    many += (many.empty() ? "" : ";") +
            ("MIG-cccc0" + std::to_string(i) + "-0000-1111-2222-333344445555");
  }
  EXPECT_THAT(instances(many, silent), HasSubstr("more than 64"));
}

TEST(GpuNames, OfSlicesAreReplaced) {
  const auto numbered = [](std::string_view text) {
    const auto made = with_gpu_numbers(text, kGpus, kSeen);
    return made.ok() ? *made : "refused: " + made.error().message;
  };
  EXPECT_EQ(numbered("GPU-8f3c:2x56;GPU-8f99:all"), "1:2x56;0:all");
  for (const char* text : {"", ";", "all", "2x56", "0:all;1:4x32", "*:2x8", ":", "x:GPU-8f3c"}) {
    EXPECT_EQ(numbered(text), text);
  }
  EXPECT_EQ(numbered("0:all;GPU-8f3c:1x8+1x16;"), "0:all;1:1x8+1x16;");
  EXPECT_EQ(numbered("0:all;GPU-8f99:2x56"), "0:all;0:2x56");  // twice: parse_slices() says so
  EXPECT_EQ(numbered("GPU-8f3c"), "GPU-8f3c");  // no GPU's slices: parse_slices() says so
  EXPECT_THAT(numbered("0:all;GPU-77:all"), HasSubstr("refused: there is no GPU 'GPU-77'"));
}

int sessions = 0;

NvmlApi fake_api() {
  NvmlApi api;
  api.nvmlInit_v2 = [] { return ++sessions, 0; };
  api.nvmlShutdown = [] { return --sessions, 0; };
  api.nvmlDeviceGetCount_v2 = [](unsigned* count) { return *count = 3, 0; };
  api.nvmlDeviceGetHandleByIndex_v2 = [](unsigned index, NvmlDevice* device) {
    *device = reinterpret_cast<NvmlDevice>(static_cast<std::intptr_t>(index + 1));
    return index == 1 ? 4 : 0;  // no permission
  };
  api.nvmlDeviceGetUUID = [](NvmlDevice device, char* uuid, unsigned length) {
    const auto id = reinterpret_cast<std::intptr_t>(device);
    std::snprintf(uuid, length, "%s-%ld", id > 100 ? "MIG" : "GPU", static_cast<long>(id));
    return 0;
  };
  api.nvmlDeviceGetPciInfo_v3 = [](NvmlDevice device, NvmlPciInfo* info) {
    std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:0%ld:00.0",
                  static_cast<long>(reinterpret_cast<std::intptr_t>(device)));
    return 0;
  };
  return api;
}

TEST(GpuNames, AreReadFromTheDriver) {
  NvmlApi api = fake_api();
  const auto plain = read_gpu_names(api).value();
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_EQ(plain[1].uuid, "GPU-3");
  EXPECT_EQ(plain[1].pci_id, "0000:03:00.0");
  EXPECT_THAT(plain[1].instances, IsEmpty());
  api.nvmlDeviceGetMaxMigDeviceCount = [](NvmlDevice, unsigned* count) { return *count = 7, 0; };
  api.nvmlDeviceGetMigDeviceHandleByIndex = [](NvmlDevice, unsigned index, NvmlDevice* instance) {
    *instance = reinterpret_cast<NvmlDevice>(static_cast<std::intptr_t>(index + 101));
    return index < 2 ? 0 : 6;
  };
  EXPECT_THAT(read_gpu_names(api).value()[0].instances, ElementsAre("MIG-101", "MIG-102"));
  EXPECT_EQ(sessions, 0);
}

TEST(GpuNames, ADriverThatDoesNotSayIsAnError) {
  EXPECT_EQ(read_gpu_names({}).error().code, ErrorCode::kUnavailable);
  NvmlApi api = fake_api();
  api.nvmlDeviceGetCount_v2 = [](unsigned*) { return 15; };
  EXPECT_EQ(read_gpu_names(api).error().code, ErrorCode::kDevice);
  EXPECT_EQ(sessions, 0);
  api.nvmlInit_v2 = [] { return 9; };
  EXPECT_THAT(read_gpu_names(api).error().message, HasSubstr("error 9"));
}

}  // namespace
}  // namespace causeway::topology::gpu_names_test
