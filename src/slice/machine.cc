#include "slice/machine.h"

#include <span>
#include <utility>

#include "base/log.h"
#include "slice/host_rates.h"
#include "slice/sm_rates.h"
#include "topology/topology.h"
#include "transfer/link_map_part.h"

namespace causeway::slice {
namespace {

// Longer copies than over the link to the host: this one is as fast as some of memory's.
constexpr Bytes kPeerChunk = mib(128);

// Addresses for models on the CPU's backend, whose devices have no memory of their own.
constexpr std::int64_t kHostHomeExtents = 4096;

// Addresses for the staging of several slices' engines; memory is taken as they ask for it.
constexpr int kEnginesOfRelay = 64;

std::string names_of(const std::vector<int>& gpus) {
  std::string text;
  for (const int gpu : gpus) text += (text.empty() ? "" : ", ") + std::to_string(gpu);
  return text;
}

}  // namespace

Machine::Machine(LinkOptions links, ModelHome& home, const Clock& clock)
    : options_(std::move(links)), home_(home), clock_(clock) {}

Machine::~Machine() = default;

Result<std::unique_ptr<Machine>> Machine::open_gpus(LinkOptions links, ModelHome& home,
                                                    const Clock& clock) {
#ifdef CAUSEWAY_CUDA_BUILT
  auto machine = std::make_unique<Machine>(std::move(links), home, clock);
  CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(
      machine->cuda_,
      device::CudaMachine::create(api, {.own_links = machine->options_.choice == LinkChoice::kOwn},
                                  clock, home.memory));
  CAUSEWAY_TRY(machine->learn_links());
  CAUSEWAY_TRY(machine->open_home());
  return machine;
#else
  (void)links, (void)home, (void)clock;
  return unsupported("this build has no CUDA parts: build where nvcc is, or serve on the CPU");
#endif
}

Result<std::unique_ptr<Machine>> Machine::open_host(device::HostMachineOptions host,
                                                    LinkOptions links, ModelHome& home,
                                                    const Clock& clock) {
  auto machine = std::make_unique<Machine>(std::move(links), home, clock);
  CAUSEWAY_ASSIGN(machine->host_, device::HostMachine::create(std::move(host), clock, home.memory));
  CAUSEWAY_TRY(machine->learn_links());
  CAUSEWAY_TRY(machine->open_home());
  return machine;
}

Result<SliceGpu> slice_gpu(device::CudaMachine& gpus, int ordinal,
                           const device::CudaGpu& described) {
  SliceGpu gpu{.processors = described.sms, .memory = described.memory};
  const auto splits = gpus.sm_splits(ordinal);
  if (!splits.ok() && splits.error().code == ErrorCode::kDevice) return splits.error();
  if (!splits.ok()) return gpu;
  gpu.unit = splits->front().sms;
  gpu.units = splits->front().count;
  for (const device::CudaSmUnits& split : std::span(*splits).subspan(1)) {
    gpu.coarser.push_back({split.sms, split.count});
  }
  return gpu;
}

int Machine::gpus() const { return cuda_ ? cuda_->gpus() : host_->devices(); }

Result<SliceFacts> Machine::slice_facts(int gpu) {
  if (gpu < 0 || gpu >= gpus()) {
    return invalid_argument("there is no GPU " + std::to_string(gpu) + "; this process sees " +
                            std::to_string(gpus()) + ", counted from 0");
  }
  SliceFacts facts{.gpu = gpu, .threads = host_ != nullptr};
  for (int each = 0; each < gpus(); ++each) {
    if (host_) {
      facts.gpus.push_back({.processors = host_->processors(),
                            .unit = 1,
                            .units = host_->processors(),
                            .flops_per_second_each = kFlopsPerThread,
                            .bytes_per_second_each = kBytesPerThread});
      continue;
    }
    CAUSEWAY_ASSIGN(const device::CudaGpu described, cuda_->describe(each));
    CAUSEWAY_ASSIGN(SliceGpu found, slice_gpu(*cuda_, each, described));
    found.flops_per_second_each = kFlopsPerSm;
    found.bytes_per_second_each = bytes_per_sm(described.memory_peak, described.sms);
    facts.gpus.push_back(std::move(found));
  }
  return facts;
}

bool Machine::passes(int source, int target) const {
  return cuda_ ? cuda_->reaches(source, target) : host_->reaches(source, target);
}

std::vector<std::string> Machine::ids() const {
  std::vector<std::string> ids;
  for (int gpu = 0; gpu < gpus(); ++gpu) {
    if (!cuda_) {
      ids.push_back("modelled" + std::to_string(gpu));
      continue;
    }
    const auto described = cuda_->describe(gpu);
    ids.push_back(described.ok() ? topology::normal_pci_id(described->pci_id) : "");
  }
  return ids;
}

// The book is about the map's links; without one about links as an H200's, or as they are modelled.
Status Machine::learn_links() {
  if (gpus() > 1 && options_.choice == LinkChoice::kMap) {
    if (const Status read = read_map(); !read.ok()) {
      const std::string what =
          "weights come over each GPU's own link alone: " + read.error().message;
      read.error().code == ErrorCode::kNotFound ? spdlog::info("{}", what)
                                                : spdlog::warn("{}", what);
    }
  }
  device::LinkProfile profile = device::make_link_tree({.devices = gpus()});
  if (host_ && host_->links()) profile = *host_->links();
  if (map_) profile = transfer::profile_of(*map_);
  if (options_.leased) leased_ = transfer::add_leased_ways(profile);
  CAUSEWAY_TRY(device::check(profile));
  shares_ = std::make_unique<transfer::LinkShares>(std::move(profile));
  return {};
}

transfer::LinkWants Machine::wanted() const {
  if (!leased_) return {};
  return {.in = shares_->wanted(leased_->in), .out = shares_->wanted(leased_->out)};
}

void Machine::lease(const transfer::LinkRates& rates) {
  if (!leased_) return;
  if (rates.in != lease_.in) shares_->set_capacity(leased_->in, rates.in);
  if (rates.out != lease_.out) shares_->set_capacity(leased_->out, rates.out);
  lease_ = rates;
}

Status Machine::read_map() {
  if (!options_.measured) return not_found("no link map is kept");
  CAUSEWAY_ASSIGN(const MeasuredLinks measured, options_.measured());
  auto part = transfer::part_for(measured.map, ids(), measured.gpus);
  if (!part.ok()) return part.error().with_context("the link map that is kept");
  map_ = std::move(part).value();
  return {};
}

Result<std::unique_ptr<device::Device>> Machine::open(const device::SliceSpec& slice) {
  return cuda_ ? cuda_->open(slice) : host_->open(slice);
}

LinkPlan Machine::plan(int gpu) const {
  return plan_links({.own = gpu,
                     .gpus = gpus(),
                     .choice = options_.choice,
                     .map = map_ ? &*map_ : nullptr,
                     .passes = [this, gpu](int source, int target) {
                       const int relay = source == gpu ? target : source;
                       return passes(source, target) && !left_out_.contains(relay);
                     }});
}

Status Machine::open_relay(int gpu) {
  if (relays_.contains(gpu)) return {};
  CAUSEWAY_ASSIGN(auto device,
                  open({.name = "relay" + std::to_string(gpu),
                        .physical_device = gpu,
                        .arena_bytes = options_.engine.staging_bytes_max * kEnginesOfRelay}));
  relays_[gpu] = std::move(device);
  return {};
}

LinkPlan Machine::plan_with_relays(int gpu) {
  while (true) {
    const LinkPlan chosen = plan(gpu);
    const std::size_t left_out = left_out_.size();
    for (std::size_t link = 1; link < chosen.gpus.size(); ++link) {
      const int relay = chosen.gpus[link];
      const Status opened = open_relay(relay);
      if (opened.ok()) continue;
      spdlog::warn("GPU {} does not relay for GPU {}: {}", relay, gpu, opened.error().message);
      left_out_.insert(relay);
    }
    if (left_out_.size() == left_out) return chosen;
  }
}

Status Machine::open_home() {
  const int gpu = options_.home_gpu;
  if (gpu < 0) return {};
  if (gpu >= gpus()) {
    return invalid_argument("GPU " + std::to_string(gpu) +
                            " is to be the home of weights, and this process sees " +
                            std::to_string(gpus()) + ", counted from 0");
  }
  Bytes addresses = host_ ? host_->extent_bytes() * kHostHomeExtents : Bytes(0);
  if (cuda_) {
    CAUSEWAY_ASSIGN(const device::CudaGpu described, cuda_->describe(gpu));
    addresses = described.memory;
  }
  CAUSEWAY_ASSIGN(auto device,
                  open({.name = "home", .physical_device = gpu, .arena_bytes = addresses}));
  CAUSEWAY_ASSIGN(SliceLinks links, connect_to_host(*device, gpu));
  peer_home_ = std::make_unique<PeerHome>(std::move(device), std::move(links.engine));
  return {};
}

Result<SliceLinks> Machine::connect(device::Device& device, int gpu) {
  return peer_home_ ? connect_to_home(device, gpu) : connect_to_host(device, gpu);
}

// Measured for the GPU's first slice, before it serves; the others share what there is.
Result<transfer::LinkShares*> Machine::shares_of_home(device::Device& device, int gpu) {
  const auto known = peer_shares_.find(gpu);
  if (known != peer_shares_.end()) return known->second.get();
  CAUSEWAY_ASSIGN(const double rate, peer_home_->measure_rate(device));
  spdlog::info("weights of GPU {} come from the memory of GPU {}, {:.1f} GB/s", gpu,
               options_.home_gpu, rate * 1e-9);
  auto& shares = peer_shares_[gpu];
  shares = std::make_unique<transfer::LinkShares>(
      device::make_link_tree({.link = rate, .link_duplex = 2 * rate}));
  return shares.get();
}

Result<SliceLinks> Machine::connect_to_home(device::Device& device, int gpu) {
  const int home = options_.home_gpu;
  if (gpu == home) {
    return invalid_argument("GPU " + std::to_string(gpu) +
                            " is the home of weights, and cannot be the one that runs models");
  }
  if (!passes(home, gpu)) {
    return unsupported("GPU " + std::to_string(gpu) + " does not reach the memory of GPU " +
                       std::to_string(home) + ", which is to be the home of weights");
  }
  CAUSEWAY_ASSIGN(transfer::LinkShares* const shares, shares_of_home(device, gpu));
  CAUSEWAY_ASSIGN(auto routes, shares->routes_in({.links = transfer::LinkSet::of(0)}));
  SliceLinks connected;
  connected.from_peer = true;
  connected.claim = shares->claim(device::CopyPriority::kWeightsAhead, std::move(routes));
  transfer::TransferEngineOptions engine = options_.engine;
  engine.staging_bytes_max = Bytes(0);
  engine.dispatch.chunk_bytes_direct = kPeerChunk;
  CAUSEWAY_ASSIGN(connected.engine,
                  transfer::TransferEngine::create(std::move(engine), {{.slices = {&device}}},
                                                   transfer::assume_all_links(1), clock_));
  return connected;
}

Result<SliceLinks> Machine::connect_to_host(device::Device& device, int gpu) {
  LinkPlan chosen = plan_with_relays(gpu);
  std::vector<transfer::EngineLink> links = {{.slices = {&device}}};
  for (std::size_t link = 1; link < chosen.gpus.size(); ++link) {
    links.push_back({.slices = {relays_.at(chosen.gpus[link]).get()}});
  }
  if (links.size() > 1) {
    spdlog::info("weights of GPU {} come over the links of GPUs {}", gpu, names_of(chosen.gpus));
  }
  SliceLinks connected;
  connected.links = static_cast<int>(links.size());
  transfer::TransferEngineOptions engine = options_.engine;
  if (links.size() == 1) engine.staging_bytes_max = Bytes(0);
  CAUSEWAY_ASSIGN(
      auto routes,
      shares_->routes_in({.target = gpu, .links = chosen.in, .rate_max = chosen.rate_in}));
  connected.claim = shares_->claim(device::CopyPriority::kWeightsAhead, std::move(routes));
  CAUSEWAY_ASSIGN(connected.engine,
                  transfer::TransferEngine::create(std::move(engine), std::move(links),
                                                   std::move(chosen.facts), clock_));
  return connected;
}

Result<KvLinks> Machine::connect_kv(device::Device& device, int gpu, const SliceLinks& weights) {
  KvLinks connected;
  connected.engine = weights.engine.get();
  if (connected.engine == nullptr || weights.from_peer) {
    CAUSEWAY_ASSIGN(SliceLinks own, connect_to_host(device, gpu));
    connected.own = std::move(own.engine);
    connected.engine = connected.own.get();
  }
  const LinkPlan chosen = plan_with_relays(gpu);
  CAUSEWAY_ASSIGN(
      auto in, shares_->routes_in({.target = gpu, .links = chosen.in, .rate_max = chosen.rate_in}));
  CAUSEWAY_ASSIGN(auto out, shares_->routes_out(
                                {.target = gpu, .links = chosen.out, .rate_max = chosen.rate_out}));
  connected.claim_in = shares_->claim(device::CopyPriority::kKvIn, std::move(in));
  connected.claim_out = shares_->claim(device::CopyPriority::kKvOut, std::move(out));
  return connected;
}

}  // namespace causeway::slice
