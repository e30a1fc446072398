#include "device/cuda/cuda_physical.h"

#include <algorithm>
#include <array>

namespace causeway::device {
namespace {

// Memory of a double data rate: every line of the bus carries two bits a cycle.
double peak_of(int clock_khz, int bus_bits) {
  if (clock_khz <= 0 || bus_bits <= 0) return 0;
  return 2.0 * (clock_khz * 1e3) * (bus_bits / 8.0);
}

// The fewest SMs that the GPU guarantees to schedule together.
unsigned finest_unit(const CudaResource& all) {
  return std::max({1u, all.sm_partition_min, all.sm_alignment});
}

}  // namespace

Result<std::unique_ptr<CudaPhysical>> CudaPhysical::create(const CudaApi& api, int ordinal,
                                                           int count) {
  auto physical = std::make_unique<CudaPhysical>(api, ordinal);
  Status asked = physical->ask(count);
  if (!asked.ok()) return asked.error().with_context("GPU " + std::to_string(ordinal));
  return physical;
}

Status CudaPhysical::ask(int count) {
  CAUSEWAY_TRY(check(api_.cuDeviceGet(&device_, ordinal_), "cuDeviceGet"));
  std::array<char, 128> name{};
  CAUSEWAY_TRY(check(api_.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device_),
                     "cuDeviceGetName"));
  label_ = "GPU " + std::to_string(ordinal_) + " (" + name.data() + ")";
  const auto attribute = [&](int which, int& value) {
    return check(api_.cuDeviceGetAttribute(&value, which, device_), "cuDeviceGetAttribute");
  };
  int maps = 0;
  int virtual_memory = 0;
  int memory_operations = 0;
  int read_only = 0;
  int memory_clock = 0;
  int memory_bus = 0;
  CAUSEWAY_TRY(attribute(kCudaAttributeSms, sms_));
  CAUSEWAY_TRY(attribute(kCudaAttributeMapsHostMemory, maps));
  CAUSEWAY_TRY(attribute(kCudaAttributeVirtualMemory, virtual_memory));
  CAUSEWAY_TRY(attribute(kCudaAttributeStreamMemoryOperations, memory_operations));
  CAUSEWAY_TRY(attribute(kCudaAttributeRegistersReadOnly, read_only));
  CAUSEWAY_TRY(attribute(kCudaAttributeMemoryClock, memory_clock));
  CAUSEWAY_TRY(attribute(kCudaAttributeMemoryBus, memory_bus));
  memory_peak_ = peak_of(memory_clock, memory_bus);
  maps_host_memory_ = maps != 0;
  waits_for_memory_ = maps_host_memory_ && memory_operations != 0;
  registers_read_only_ = maps_host_memory_ && read_only != 0;
  if (virtual_memory == 0) {
    return unsupported(label_ + " has no virtual memory management, which arenas need");
  }
  for (int peer = 0; peer < count; ++peer) {
    int can = 1;
    if (peer != ordinal_) {
      int handle = 0;
      CAUSEWAY_TRY(check(api_.cuDeviceGet(&handle, peer), "cuDeviceGet"));
      CAUSEWAY_TRY(
          check(api_.cuDeviceCanAccessPeer(&can, device_, handle), "cuDeviceCanAccessPeer"));
    }
    reaches_.push_back(can != 0);
  }
  return {};
}

CudaPhysical::~CudaPhysical() {
  if (primary_ != nullptr && !hung_) api_.cuDevicePrimaryCtxRelease_v2(device_);
}

bool CudaPhysical::reaches_any_peer() const {
  return std::count(reaches_.begin(), reaches_.end(), true) > 1;
}

Result<CUctx_st*> CudaPhysical::primary() {
  CUctx_st* context = nullptr;
  int result = kCudaSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (primary_ != nullptr) return primary_;
    result = api_.cuDevicePrimaryCtxRetain(&context, device_);
    if (result == kCudaSuccess) primary_ = context;
  }
  CAUSEWAY_TRY(check(result, "cuDevicePrimaryCtxRetain"));
  return context;
}

Result<CudaResource> CudaPhysical::all_sms() const {
  CudaResource all;
  if (const int result = api_.cuDeviceGetDevResource(device_, &all, kCudaResourceSms);
      result != kCudaSuccess) {
    return cuda_error(api_, result, "cuDeviceGetDevResource");
  }
  return all;
}

// At least one.
Result<std::vector<CudaResource>> CudaPhysical::split(const CudaResource& all,
                                                      unsigned unit) const {
  unsigned count = all.sm_count / unit;
  std::vector<CudaResource> units(count);
  CudaResource rest;
  if (const int result =
          api_.cuDevSmResourceSplitByCount(units.data(), &count, &all, &rest, 0, unit);
      result != kCudaSuccess) {
    return cuda_error(api_, result, "cuDevSmResourceSplitByCount");
  }
  units.resize(std::min<std::size_t>(units.size(), count));
  if (units.empty()) return unsupported(label_ + " cannot be split into sets of SMs");
  return units;
}

Result<std::vector<CudaSmUnits>> CudaPhysical::sm_splits() {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_ASSIGN(const CudaResource all, all_sms());
  const unsigned finest = finest_unit(all);
  const auto found = [](const std::vector<CudaResource>& units) {
    return CudaSmUnits{static_cast<int>(units[0].sm_count), static_cast<int>(units.size())};
  };
  CAUSEWAY_ASSIGN(const auto smallest, split(all, finest));
  std::vector<CudaSmUnits> splits = {found(smallest)};
  for (unsigned unit = 2 * finest; unit <= all.sm_count / 2; unit += finest) {
    const auto units = split(all, unit);
    if (!units.ok()) continue;
    const CudaSmUnits larger = found(*units);
    // The driver rounds a size up that it does not give.
    if (larger.sms != static_cast<int>(unit)) continue;
    if (larger.sms * larger.count > splits[0].sms * splits[0].count) splits.push_back(larger);
  }
  return splits;
}

// All units come from one split, because the driver joins only such units into a slice, and parts
// of parts cannot be split.
Status CudaPhysical::split_for(int unit) {
  CAUSEWAY_ASSIGN(const CudaResource all, all_sms());
  const unsigned size = unit > 0 ? static_cast<unsigned>(unit) : finest_unit(all);
  if (!units_.empty() && size == unit_) return {};
  if (std::count(unit_used_.begin(), unit_used_.end(), true) > 0) {
    return exhausted(label_ + " is split into units of " + std::to_string(unit_) +
                     " SMs for other slices, which must close before others are made");
  }
  CAUSEWAY_ASSIGN(units_, split(all, size));
  unit_ = size;
  unit_used_.assign(units_.size(), false);
  return {};
}

Result<CudaPhysical::SmUnits> CudaPhysical::take_sms(int sms, int unit_wanted) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_TRY(split_for(unit_wanted));
  const int unit = static_cast<int>(units_[0].sm_count);
  const int total = static_cast<int>(units_.size());
  const int wanted = std::clamp(sms / std::max(1, unit), 1, total);
  int run = 0;
  for (int i = 0; i < total; ++i) {
    run = unit_used_[static_cast<std::size_t>(i)] ? 0 : run + 1;
    if (run < wanted) continue;
    SmUnits units;
    units.first = i - wanted + 1;
    units.count = wanted;
    for (int u = units.first; u <= i; ++u) {
      unit_used_[static_cast<std::size_t>(u)] = true;
      units.resources.push_back(units_[static_cast<std::size_t>(u)]);
      units.sms += static_cast<int>(units_[static_cast<std::size_t>(u)].sm_count);
    }
    return units;
  }
  const auto free = std::count(unit_used_.begin(), unit_used_.end(), false);
  return exhausted(label_ + " has no " + std::to_string(wanted * unit) +
                   " neighbouring SMs free for a slice; " + std::to_string(free * unit) + " of " +
                   std::to_string(total * unit) + " are");
}

void CudaPhysical::give_back(const SmUnits& units) {
  const std::lock_guard lock(mutex_);
  std::fill_n(unit_used_.begin() + units.first, units.count, false);
}

Status CudaPhysical::failure_of(int result, const char* call) {
  Error error = cuda_error(api_, result, call);
  if (!cuda_context_lost(result)) return error;
  const std::lock_guard lock(mutex_);
  lose(error.message);
  return *lost_;
}

void CudaPhysical::lose(const std::string& what) {
  if (lost_) return;
  lost_ = Error{ErrorCode::kDevice, label_ + " is lost to this process: " + what +
                                        "; restart the process to use it again"};
  well_.store(false);
}

void CudaPhysical::declare_hung(const std::string& what) {
  const std::lock_guard lock(mutex_);
  hung_ = true;
  lose(what);
}

Status CudaPhysical::loss() const {
  const std::lock_guard lock(mutex_);
  if (lost_) return *lost_;
  return {};
}

bool CudaPhysical::hung() const {
  const std::lock_guard lock(mutex_);
  return hung_;
}

}  // namespace causeway::device
