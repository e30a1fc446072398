#include "commands/gpu_option.h"

#include <charconv>
#include <optional>
#include <vector>

namespace causeway::app {
namespace {

std::optional<int> number_of(const std::string& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 ? std::optional(number) : std::nullopt;
}

bool names_a_gpu(const std::string& slices) {
  for (std::size_t at = 0; at < slices.size(); at = slices.find(';', at) + 1) {
    if (topology::is_gpu_name(std::string_view(slices).substr(at))) return true;
    if (slices.find(';', at) == std::string::npos) return false;
  }
  return false;
}

Result<std::vector<std::string>> seen_by(slice::Machine& machine) {
  std::vector<std::string> ids;
  for (int gpu = 0; gpu < machine.gpus(); ++gpu) {
    CAUSEWAY_ASSIGN(const device::CudaGpu described, machine.cuda()->describe(gpu));
    ids.push_back(described.pci_id);
  }
  return ids;
}

Result<GpuChoice> named(const std::string& gpu, const std::string& slices,
                        slice::Machine& machine) {
  CAUSEWAY_ASSIGN(const auto nvml, topology::load_nvml());
  CAUSEWAY_ASSIGN(const auto gpus, topology::read_gpu_names(nvml));
  if (topology::names_instances(slices)) {
    auto instances = topology::instances_of_slices(slices, gpus);
    if (!instances.ok()) return instances.error().with_context("--slices");
    return GpuChoice{.slices = slices, .instances = std::move(instances).value()};
  }
  CAUSEWAY_ASSIGN(const auto seen, seen_by(machine));
  GpuChoice choice;
  if (topology::is_gpu_name(gpu)) {
    auto number = topology::number_of_gpu(gpu, gpus, seen);
    if (!number.ok()) return number.error().with_context("--gpu");
    choice.gpu = *number;
  } else {
    choice.gpu = *number_of(gpu);
  }
  auto numbered = topology::with_gpu_numbers(slices, gpus, seen);
  if (!numbered.ok()) return numbered.error().with_context("--slices");
  choice.slices = std::move(numbered).value();
  return choice;
}

}  // namespace

std::string check_gpu_option(const std::string& text) {
  if (number_of(text) || topology::is_gpu_name(text)) return "";
  return "neither a number from 0, nor a name such as GPU-8f3c…";
}

Result<GpuChoice> gpu_choice(const std::string& gpu, const std::string& slices,
                             slice::Machine& machine) {
  CAUSEWAY_CHECK(check_gpu_option(gpu).empty(), "a value of --gpu that was not checked");
  if (!topology::is_gpu_name(gpu) && !names_a_gpu(slices)) {
    return GpuChoice{*number_of(gpu), slices};
  }
  if (machine.cuda() == nullptr) {
    return invalid_argument(
        "--gpu and --slices name a GPU, and models run on the CPU: add "
        "--device cuda");
  }
  return named(gpu, slices, machine);
}

}  // namespace causeway::app
