#include "device/host/host_machine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "device/host/host_arena_memory.h"
#include "device/host/host_state.h"
#include "device/host/host_stream.h"

namespace causeway::device {
namespace {

class HostDevice final : public Device {
 public:
  HostDevice(HostMachine::State& machine, DeviceId id, Capabilities capabilities,
             std::unique_ptr<ArenaMemory> memory)
      : machine_(machine),
        id_(id),
        capabilities_(std::move(capabilities)),
        arena_(std::move(memory), capabilities_.arena_bytes / capabilities_.extent_bytes,
               capabilities_.extent_bytes) {}
  ~HostDevice() override {
    const std::lock_guard lock(machine_.mutex);
    machine_.devices.erase(id_);
  }
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  DeviceId id() const override { return id_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Arena& arena() override { return arena_; }
  Result<std::unique_ptr<Stream>> make_stream(const std::string& name) override {
    return HostStream::create(machine_, capabilities_.name + "/" + name);
  }
  Result<std::unique_ptr<Event>> make_event() override {
    return std::unique_ptr<Event>(std::make_unique<HostEvent>(machine_.events));
  }
  Result<std::unique_ptr<Semaphore>> make_semaphore() override {
    return std::unique_ptr<Semaphore>(std::make_unique<HostSemaphore>(machine_.semaphores));
  }

 private:
  HostMachine::State& machine_;
  const DeviceId id_;
  const Capabilities capabilities_;
  Arena arena_;
};

int all_processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

HostMachine::HostMachine(std::unique_ptr<State> state) : state_(std::move(state)) {}

HostMachine::~HostMachine() {
  CAUSEWAY_CHECK(state_->devices.empty(), "devices outlive their machine");
}

Result<std::unique_ptr<HostMachine>> HostMachine::create(HostMachineOptions options,
                                                         const Clock& clock, HostMemory& memory) {
  if (options.devices < 1 || options.extent_bytes.count < 4096 ||
      options.extent_bytes % Bytes(4096) != Bytes(0)) {
    return invalid_argument("a machine has at least one device and extents of whole pages");
  }
  if (options.links) {
    CAUSEWAY_TRY(check(*options.links));
    for (const LinkPath& path : options.links->paths) {
      if (std::max(path.source, path.target) < options.devices) continue;
      return invalid_argument("the link profile has paths of devices that the machine has not");
    }
  }
  auto state = std::make_unique<State>(std::move(options), clock, memory);
  return std::make_unique<HostMachine>(std::move(state));
}

int HostMachine::processors() const { return all_processors(); }

int HostMachine::devices() const { return state_->options.devices; }

Bytes HostMachine::extent_bytes() const { return state_->options.extent_bytes; }

bool HostMachine::reaches(int source, int target) const {
  return source == target || !links() || links()->find(source, target) != nullptr;
}

const std::optional<LinkProfile>& HostMachine::links() const { return state_->options.links; }

Result<std::unique_ptr<Device>> HostMachine::open(const SliceSpec& slice) {
  if (slice.physical_device < 0 || slice.physical_device >= state_->options.devices) {
    return not_found("slice '" + slice.name + "': the machine has no device " +
                     std::to_string(slice.physical_device));
  }
  if (slice.processors < 0 || slice.processors > all_processors()) {
    return invalid_argument("slice '" + slice.name + "': the machine has no " +
                            std::to_string(slice.processors) + " threads; it has " +
                            std::to_string(all_processors()));
  }
  const Bytes extent = state_->options.extent_bytes;
  if (slice.arena_bytes < Bytes(0)) {
    return invalid_argument("slice '" + slice.name + "': its arena has a negative size");
  }
  Capabilities capabilities;
  capabilities.name = slice.name;
  capabilities.processors = slice.processors > 0 ? slice.processors : all_processors();
  capabilities.extent_bytes = extent;
  capabilities.arena_bytes = extent * (slice.arena_bytes / extent);
  capabilities.copies_max = HostStream::kCopiesMax;
  capabilities.host_readable = true;
  capabilities.semaphores = true;
  const auto& links = state_->options.links;
  capabilities.peer_copies =
      state_->options.devices > 1 &&
      (!links || std::any_of(links->paths.begin(), links->paths.end(), [&](const LinkPath& path) {
        return path.source == slice.physical_device && path.target != kHostEnd;
      }));
  CAUSEWAY_ASSIGN(auto memory,
                  reserve_host_arena(capabilities.arena_bytes, capabilities.extent_bytes));
  const std::lock_guard lock(state_->mutex);
  const DeviceId id(state_->next_device++);
  auto device =
      std::make_unique<HostDevice>(*state_, id, std::move(capabilities), std::move(memory));
  state_->devices[id] = {slice.physical_device, &device->arena()};
  return std::unique_ptr<Device>(std::move(device));
}

Bytes HostMachine::moved(int source, int target, CopyPriority priority) const {
  return state_->pacer.moved({source, target}, priority);
}

Bytes HostMachine::accounted(int resource) const { return state_->pacer.accounted(resource); }

}  // namespace causeway::device
