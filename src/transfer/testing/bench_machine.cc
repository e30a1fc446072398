#include "transfer/testing/bench_machine.h"

#include <algorithm>
#include <cstring>

namespace causeway::transfer::testing {

using device::MemoryAddress;

TransferEngineOptions small_chunks() {
  TransferEngineOptions options;
  options.dispatch.chunk_bytes = {kib(64), kib(48)};
  options.dispatch.chunk_bytes_min = kib(4);
  options.dispatch.chunk_bytes_direct = kib(256);
  options.dispatch.multipath_bytes_min = kib(128);
  return options;
}

BenchMachine::BenchMachine(BenchMachineOptions options) {
  constexpr Bytes kExtent = kib(256);
  machine_ = device::HostMachine::create(
                 {.devices = options.devices, .links = options.links, .extent_bytes = kExtent},
                 clock, memory)
                 .value();
  for (int d = 0; d < options.devices; ++d) {
    devices_.push_back(machine_
                           ->open({.name = "d" + std::to_string(d),
                                   .physical_device = d,
                                   .arena_bytes = options.device_bytes + options.staging_bytes})
                           .value());
    extents_.push_back(devices_.back()
                           ->arena()
                           .allocate(options.device_bytes / kExtent, device::Arena::End::kLow)
                           .value());
    plans_.push_back(std::make_unique<FaultPlan>());
    faulty_.push_back(std::make_unique<FaultyDevice>(*devices_.back(), *plans_.back()));
  }
  region_ = memory.allocate({.name = "bench", .bytes = options.host_bytes}).value();
}

void BenchMachine::start(TransferEngineOptions options) {
  start(std::move(options), assume_all_links(static_cast<int>(faulty_.size())));
}

void BenchMachine::start(TransferEngineOptions options, PathFacts facts) {
  engine.reset();
  std::vector<EngineLink> links;
  for (const auto& device : faulty_) links.push_back({{device.get()}});
  engine = TransferEngine::create(std::move(options), links, std::move(facts), clock).value();
}

MemoryAddress BenchMachine::host(Bytes offset) const {
  return MemoryAddress::in_host({region_, offset});
}

MemoryAddress BenchMachine::data(int device, Bytes offset) const {
  const auto d = static_cast<std::size_t>(device);
  return MemoryAddress::in_arena(devices_[d]->id(), extents_[d].offset() + offset);
}

std::span<std::byte> BenchMachine::host_bytes(Bytes offset, Bytes bytes) {
  return memory.resolve({region_, offset}, bytes);
}

std::span<std::byte> BenchMachine::device_bytes(int device, Bytes offset, Bytes bytes) {
  return {extents_[static_cast<std::size_t>(device)].data() + offset.count, to_size(bytes)};
}

TransferRequest BenchMachine::request(Direction direction, int target, Bytes bytes,
                                      Bytes host_offset, Bytes device_offset) const {
  TransferRequest request;
  request.direction = direction;
  request.target = devices_[static_cast<std::size_t>(target)]->id();
  request.segments = {{host(host_offset), data(target, device_offset), bytes}};
  return request;
}

Status BenchMachine::move_and_compare(Direction direction, int target, Bytes bytes,
                                      std::uint64_t seed) {
  Random random(seed);
  const auto on_host = host_bytes(Bytes(0), bytes);
  const auto on_device = device_bytes(target, Bytes(0), bytes);
  const bool in = direction == Direction::kIn;
  fill(in ? on_host : on_device, random);
  std::fill((in ? on_device : on_host).begin(), (in ? on_device : on_host).end(), std::byte{0xA5});
  CAUSEWAY_ASSIGN(const Completion completion, engine->submit(request(direction, target, bytes)));
  CAUSEWAY_TRY(completion.wait(kPatience));
  if (std::memcmp(on_host.data(), on_device.data(), on_host.size()) == 0) return {};
  return corrupt("the bytes that arrived differ");
}

void fill(std::span<std::byte> bytes, Random& random) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random.bits();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  for (; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.bits());
}

}  // namespace causeway::transfer::testing
