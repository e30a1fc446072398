// The baseline of sleep and wake: before a model comes, the one that leaves is copied to host
// memory, whole, and then the other comes, whole, before its step begins. The bytes that go out are
// as many as the model that leaves has cached, and of other memory, since the weights are at home
// already; both ways at the link's full rate.
#include <algorithm>
#include <utility>
#include <vector>

#include "bench/switch_stage.h"
#include "device/arena.h"

namespace causeway::bench {
namespace {

constexpr Bytes kPieceMax = gib(1);  // of both memories, used again and again
constexpr Bytes kCopy = mib(32);

// What a model's bytes are copied out of and into.
class Sleeper {
 public:
  explicit Sleeper(SwitchStage& stage) : stage_(stage) {}
  ~Sleeper() {
    stream_.reset();
    if (region_) (void)stage_.home().memory.release(*region_);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  Status open(Bytes largest) {
    device::Device& device = stage_.local().slice().device();
    device::Arena& arena = device.arena();
    piece_ = std::min(kPieceMax, round_up(largest, kCopy));
    CAUSEWAY_ASSIGN(range_, arena.reserve(arena.extents_for(piece_)));
    CAUSEWAY_TRY(range_.commit(0, range_.extents()));
    CAUSEWAY_ASSIGN(region_, stage_.home().memory.allocate({.name = "sleep", .bytes = piece_}));
    CAUSEWAY_ASSIGN(stream_, device.make_stream("sleep"));
    return copy_out(piece_);  // registers the memory
  }

  Status copy_out(Bytes bytes) {
    const device::DeviceId device = stage_.local().slice().device().id();
    for (Bytes begin; begin < bytes; begin += piece_) {
      std::vector<device::Copy> copies;
      const Bytes end = std::min(piece_, bytes - begin);
      for (Bytes at; at < end; at += kCopy) {
        copies.push_back({.target = device::MemoryAddress::in_host({*region_, at}),
                          .source = device::MemoryAddress::in_arena(device, range_.offset() + at),
                          .bytes = std::min(kCopy, end - at)});
      }
      CAUSEWAY_TRY(stream_->copy(copies, device::CopyPriority::kStep));
    }
    return stream_->synchronize(kPatience);
  }

 private:
  SwitchStage& stage_;
  Bytes piece_;
  device::AddressRange range_;
  std::optional<RegionId> region_;
  std::unique_ptr<device::Stream> stream_;
};

}  // namespace

Status measure_sleep(SwitchStage& stage, const SwitchLimits& limits, std::vector<Figure>& rows) {
  stage.say("models that come once another has been copied out");
  Bytes largest;
  for (std::int64_t m = 0; m < stage.models(); ++m) largest = std::max(largest, stage.needed(m));
  Sleeper sleeper(stage);
  CAUSEWAY_TRY(sleeper.open(largest));
  const Clock& clock = stage.local().clock();
  std::vector<Samples> first(static_cast<std::size_t>(stage.shapes()));
  // Twice as many as are wanted: of models in turn, some of one may still be cached.
  for (std::int64_t i = 0; i < 2 * stage.settings().rounds * stage.models(); ++i) {
    const std::int64_t model = i % stage.models();
    const Nanos begin = clock.now();
    CAUSEWAY_TRY(sleeper.copy_out(stage.needed((model + 1) % stage.models())));
    const double slept = to_millis(clock.now() - begin);
    CAUSEWAY_ASSIGN(const Asked asked, stage.ask(model, 2));
    if (asked.crossed < stage.needed(model)) continue;
    first[static_cast<std::size_t>(stage.shape_of(model))].add(slept + asked.first);
  }
  for (std::int64_t shape = 0; shape < stage.shapes(); ++shape) {
    const Samples& of = first[static_cast<std::size_t>(shape)];
    if (of.empty()) continue;
    const double floor = limits.floor_ms(stage.needed(shape));
    rows.push_back(figure_of("first token, another copied out before", of,
                             {2 * floor, "the same bytes out and in"}));
    rows.back().model = stage.name_of(shape);
  }
  return {};
}

}  // namespace causeway::bench
