#include "topology/gpu_names.h"

#include <algorithm>
#include <array>
#include <optional>

#include "topology/topology.h"

namespace causeway::topology {
namespace {

constexpr std::string_view kGpu = "GPU-", kInstance = "MIG-";
constexpr std::size_t kQuotedMax = 80;  // of a name that a user gave, in a message
constexpr unsigned kGpusNamedMax = 256, kInstancesMax = 64;
constexpr unsigned kUuidMax = 96;     // of the library's texts, with the end
constexpr std::size_t kUuidMin = 40;  // "MIG-" and 32 digits in five groups

std::string quoted(std::string_view text) {
  std::string shown(text.substr(0, kQuotedMax));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + shown + (text.size() > kQuotedMax ? "…'" : "'");
}

bool plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::optional<std::string> uuid_of(const NvmlApi& api, NvmlDevice device) {
  std::array<char, kUuidMax> text{};
  if (api.nvmlDeviceGetUUID(device, text.data(), kUuidMax - 1) != 0) return std::nullopt;
  return std::string(text.data());
}

std::vector<std::string> instances_of(const NvmlApi& api, NvmlDevice device) {
  std::vector<std::string> names;
  unsigned count = 0;
  if (api.nvmlDeviceGetMaxMigDeviceCount == nullptr ||
      api.nvmlDeviceGetMigDeviceHandleByIndex == nullptr ||
      api.nvmlDeviceGetMaxMigDeviceCount(device, &count) != 0) {
    return names;
  }
  for (unsigned i = 0; i < std::min(count, kInstancesMax); ++i) {
    NvmlDevice instance = nullptr;
    if (api.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &instance) != 0) continue;
    if (auto uuid = uuid_of(api, instance)) names.push_back(std::move(*uuid));
  }
  return names;
}

Result<std::vector<NamedGpu>> read_names(const NvmlApi& api) {
  unsigned count = 0;
  if (const int result = api.nvmlDeviceGetCount_v2(&count); result != 0) {
    return Error{ErrorCode::kDevice, "NVIDIA's management library cannot list GPUs (error " +
                                         std::to_string(result) + "): name them by number"};
  }
  std::vector<NamedGpu> gpus;
  for (unsigned i = 0; i < std::min(count, kGpusNamedMax); ++i) {
    NvmlDevice device = nullptr;
    NvmlPciInfo pci;
    if (api.nvmlDeviceGetHandleByIndex_v2(i, &device) != 0) continue;  // not for this process
    const auto uuid = uuid_of(api, device);
    if (!uuid || api.nvmlDeviceGetPciInfo_v3(device, &pci) != 0) continue;
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    gpus.push_back({*uuid, normal_pci_id(pci.bus_id), instances_of(api, device)});
  }
  return gpus;
}

// Hexadecimal digits match in upper and lower case; the prefix does not.
bool begins_alike(std::string_view whole, std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; };
  return name.size() <= whole.size() &&
         std::equal(name.begin(), name.end(), whole.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

std::optional<int> number_seen(const NamedGpu& gpu, std::span<const std::string> seen) {
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!gpu.pci_id.empty() && normal_pci_id(seen[i]) == gpu.pci_id) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::string what_there_is(std::span<const NamedGpu> gpus, std::span<const std::string> seen) {
  if (gpus.empty()) return "the driver names none";
  std::string text = "there are";
  for (const NamedGpu& gpu : gpus) {
    const auto number = number_seen(gpu, seen);
    text += (&gpu == &gpus.front() ? " " : ", ") + gpu.uuid;
    if (!seen.empty()) {
      text += number ? " (GPU " + std::to_string(*number) + ")" : " (not seen by this process)";
    }
    for (const std::string& instance : gpu.instances) text += ", its instance " + instance;
  }
  return text;
}

// Finds an instance by the beginning of its name. Nothing is returned when the driver lists no
// instance at all.
Result<std::optional<ChosenInstance>> find_instance(std::string_view name,
                                                    std::span<const NamedGpu> gpus) {
  std::vector<ChosenInstance> found;
  bool listed = false;
  for (const NamedGpu& gpu : gpus) {
    for (const std::string& one : gpu.instances) {
      listed = true;
      if (begins_alike(one, name)) found.push_back({one, gpu.pci_id});
    }
  }
  if (found.size() == 1) return std::optional(found.front());
  if (!listed) return std::optional<ChosenInstance>();
  return invalid_argument(quoted(name) +
                          (found.empty() ? " is no MIG instance"
                                         : " is the beginning of several MIG instances' names") +
                          "; " + what_there_is(gpus, {}));
}

// The error for an instance's name where one GPU is asked for.
Error about_instance(std::string_view name, std::span<const NamedGpu> gpus) {
  const auto found = find_instance(name, gpus);
  if (!found.ok()) return found.error();
  const std::string whole = *found ? (*found)->uuid : std::string(kInstance) + "…";
  return invalid_argument(quoted(name) +
                          ": a process has one MIG instance: a worker process can have " + whole +
                          ", or this process if that is all that it sees");
}

// "MIG-8f3c" or "MIG-8f3c:all".
Result<ChosenInstance> chosen_instance(std::string_view entry, std::span<const NamedGpu> gpus) {
  const std::size_t colon = entry.find(':');
  const std::string_view name = entry.substr(0, colon);
  if (!name.starts_with(kInstance)) {
    return invalid_argument(quoted(entry) + " stands beside MIG instances, and is none");
  }
  if (colon != std::string_view::npos && entry.substr(colon + 1) != "all") {
    return invalid_argument(quoted(entry) + ": a MIG instance is one slice; leave out " +
                            quoted(entry.substr(colon)) + ", or make smaller instances");
  }
  CAUSEWAY_ASSIGN(const auto listed, find_instance(name, gpus));
  if (listed) return *listed;
  if (name.size() < kUuidMin || name.size() > kUuidMax || !plain(name)) {
    return invalid_argument(
        quoted(name) +
        " has to be the whole name, since the driver lists no MIG instance: there is none, or "
        "listing them takes permission (/proc/driver/nvidia/capabilities/mig/monitor)");
  }
  return ChosenInstance{std::string(name), ""};
}

}  // namespace

bool is_gpu_name(std::string_view text) {
  return text.starts_with(kGpu) || text.starts_with(kInstance);
}

Result<std::vector<NamedGpu>> read_gpu_names(const NvmlApi& api) {
  if (api.nvmlInit_v2 == nullptr || api.nvmlShutdown == nullptr ||
      api.nvmlDeviceGetCount_v2 == nullptr || api.nvmlDeviceGetHandleByIndex_v2 == nullptr ||
      api.nvmlDeviceGetPciInfo_v3 == nullptr || api.nvmlDeviceGetUUID == nullptr) {
    return unavailable("the driver's management library cannot name GPUs: name them by number");
  }
  if (const int result = api.nvmlInit_v2(); result != 0) {
    return unavailable("the driver's management library does not start (error " +
                       std::to_string(result) + "): name GPUs by number");
  }
  auto gpus = read_names(api);
  (void)api.nvmlShutdown();
  return gpus;
}

Result<int> number_of_gpu(std::string_view name, std::span<const NamedGpu> gpus,
                          std::span<const std::string> seen) {
  if (name.starts_with(kInstance)) return about_instance(name, gpus);
  std::vector<const NamedGpu*> found;
  for (const NamedGpu& gpu : gpus) {
    if (begins_alike(gpu.uuid, name)) found.push_back(&gpu);
  }
  if (found.size() > 1) {
    return invalid_argument(quoted(name) + " is the beginning of several GPUs' names; " +
                            what_there_is(gpus, seen));
  }
  const auto number = found.empty() ? std::nullopt : number_seen(*found.front(), seen);
  if (number && !found.front()->instances.empty()) {
    return invalid_argument(
        found.front()->uuid +
        " is divided into MIG instances: name these, for a worker process each; " +
        what_there_is(gpus, seen));
  }
  if (number) return *number;
  return invalid_argument("there is no GPU " + quoted(name) + " in this process's sight; " +
                          what_there_is(gpus, seen));
}

bool names_instances(std::string_view slices) { return slices.starts_with(kInstance); }

Result<std::vector<ChosenInstance>> instances_of_slices(std::string_view slices,
                                                        std::span<const NamedGpu> gpus) {
  std::vector<ChosenInstance> instances;
  while (true) {
    const std::size_t end = slices.find(';');
    CAUSEWAY_ASSIGN(ChosenInstance instance, chosen_instance(slices.substr(0, end), gpus));
    const auto alike = [&](const auto& one) { return one.uuid == instance.uuid; };
    if (std::any_of(instances.begin(), instances.end(), alike)) {
      return invalid_argument(instance.uuid + " is named twice");
    }
    if (instances.size() == kInstancesMax) {
      return invalid_argument("more than " + std::to_string(kInstancesMax) + " MIG instances");
    }
    instances.push_back(std::move(instance));
    if (end == std::string_view::npos) return instances;
    slices.remove_prefix(end + 1);
  }
}

int link_of_instance(std::span<const ChosenInstance> instances, int instance) {
  const std::string& gpu = instances[static_cast<std::size_t>(instance)].pci_id;
  const auto first = std::find_if(instances.begin(), instances.end(),
                                  [&](const auto& other) { return other.pci_id == gpu; });
  return static_cast<int>(first - instances.begin());
}

Result<std::string> with_gpu_numbers(std::string_view slices, std::span<const NamedGpu> gpus,
                                     std::span<const std::string> seen) {
  std::string text;
  while (true) {
    const std::size_t end = slices.find(';');
    const std::string_view entry = slices.substr(0, end);
    const std::size_t colon = entry.find(':');
    if (colon != std::string_view::npos && is_gpu_name(entry)) {
      CAUSEWAY_ASSIGN(const int number, number_of_gpu(entry.substr(0, colon), gpus, seen));
      text += std::to_string(number) + std::string(entry.substr(colon));
    } else {
      text += entry;
    }
    if (end == std::string_view::npos) return text;
    text += ';';
    slices.remove_prefix(end + 1);
  }
}

}  // namespace causeway::topology
