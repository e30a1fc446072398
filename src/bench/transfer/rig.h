// What the parts of the benchmark share: memory to copy between, engines, native copies, timing.
//
// Used by one thread, but for engines.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "bench/transfer/native_copies.h"
#include "bench/transfer/rows.h"
#include "device/arena.h"
#include "transfer/engine.h"
#include "transfer/link_map.h"

namespace causeway::transfer::bench {

// The same benchmark in another process, for "two processes at once".
class SecondProcess {
 public:
  virtual ~SecondProcess() = default;
  // Returns when it moves bytes.
  virtual Status go() = 0;
  // What it has moved per second, when it has ended.
  virtual Result<double> rate() = 0;
};

struct BenchSetup {
  std::vector<device::Device*> devices;  // one a GPU
  const Clock* clock = nullptr;
  device::HostMemory* memory = nullptr;
  LinkMap map;
  TransferEngineOptions engine = {};
  int target = 0;            // link index
  std::vector<Bytes> sizes;  // of the size sweep; the largest is the memory that is taken
  int runs = 7;              // timed, after one that warms up
  bool quick = false;
  Bytes large = gib(1);       // of one transfer where the size does not matter
  Nanos steady = seconds(1);  // of a figure that is a rate over time
  std::function<Result<std::unique_ptr<NativeCopies>>(int gpu)> native;
  std::function<Result<Bytes>(int gpu)> free_memory;  // of a GPU
  // Moves to or from a target for as long as told, in large transfers.
  std::function<Result<std::unique_ptr<SecondProcess>>(int target, Direction, Nanos length)>
      second_process;
};

class Rig {
 public:
  // The setup must outlive it. kResourceExhausted without the memory: the largest size on the
  // target, twice in host memory; `large` on every GPU.
  static Result<std::unique_ptr<Rig>> make(const BenchSetup& setup);
  explicit Rig(const BenchSetup& setup) : setup_(setup) {}  // by make()
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  const BenchSetup& setup() const { return setup_; }
  int gpus() const { return static_cast<int>(setup_.devices.size()); }
  int target() const { return setup_.target; }
  Nanos now() const { return setup_.clock->now(); }
  Bytes large() const { return setup_.large; }

  // One contiguous transfer. Lane 0: places apart for every GPU, of `large` each, the target's of
  // the largest size. Lane 1: a second place on every GPU, the same for all in host memory.
  Segment segment(int gpu, Direction direction, Bytes bytes, int lane = 0) const;
  TransferRequest request(int gpu, Direction direction, Bytes bytes, int lane = 0,
                          LinkSet only = {}) const;
  device::Copy copy(int gpu, Direction direction, Bytes bytes, int lane = 0) const;

  // The engine as users get it: the map's facts. Made once.
  Result<TransferEngine*> engine();
  Result<std::unique_ptr<TransferEngine>> make_engine(TransferEngineOptions options) const;

  // From submit() until the caller knows.
  Result<Nanos> time(TransferEngine& engine, TransferRequest request) const;
  Result<double> rate(TransferEngine& engine, int gpu, Direction direction, Bytes bytes,
                      LinkSet only = {}) const;
  Result<double> native_rate(int gpu, Direction direction, Bytes bytes);
  // setup.runs of it, after one that warms up.
  Result<Spread> repeat(const std::function<Result<double>()>& measure) const;
  // Both in turns, so that what else happens on the machine meets both.
  struct Pair {
    Spread a, b;
  };
  Result<Pair> repeat_both(const std::function<Result<double>()>& a,
                           const std::function<Result<double>()>& b) const;

  // Rates of all sets of links with relays (up to 10 links), of transfers of `large`; measured
  // once.
  Result<const std::vector<SetRate>*> all_sets(Direction direction);
  // The best of so many links; nothing: there are none.
  std::optional<SetRate> best_of(Direction direction, int links) const;

  // Ours in, then out to other memory; kCorrupt when something else comes back.
  Status verify(TransferEngine& engine, Bytes bytes);

 private:
  Status allocate();
  Status fill();
  device::MemoryAddress host(RegionId region, Bytes offset) const {
    return device::MemoryAddress::in_host({region, offset});
  }

  const BenchSetup& setup_;
  Bytes largest_;
  Bytes second_lane_;  // where it is in host memory
  RegionId from_, to_;
  std::vector<device::Extents> extents_;
  std::vector<std::unique_ptr<NativeCopies>> native_;
  std::unique_ptr<TransferEngine> engine_;
  std::array<std::vector<SetRate>, kDirections> sets_;
};

Bytes relayed_bytes(const TransferEngine& engine, Direction direction);

}  // namespace causeway::transfer::bench
