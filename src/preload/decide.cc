#include "preload/decide.h"

#include "base/dcheck.h"

namespace causeway::preload {

static_assert(kVerdicts == static_cast<int>(Verdict::kSynchronous) + 1,
              "statistics have a row for each verdict");

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMultipath: return "multipath";
    case Verdict::kSmall: return "small";
    case Verdict::kNotHostGpu: return "not host-gpu";
    case Verdict::kPageable: return "pageable";
    case Verdict::kManaged: return "managed";
    case Verdict::kCapturing: return "capturing";
    case Verdict::kForeign: return "foreign context";
    case Verdict::kPartial: return "beyond its allocation";
    case Verdict::kNoRelay: return "no relay";
    case Verdict::kOpening: return "opening";
    case Verdict::kOff: return "off";
    case Verdict::kSettling: return "settling";
    case Verdict::kExhausted: return "too many pending";
    case Verdict::kRefused: return "refused";
    case Verdict::kAsynchronous: return "asynchronous";
    case Verdict::kBusy: return "behind other work";
    case Verdict::kUnreached: return "not for all GPUs";
    case Verdict::kSynchronous: return "synchronous";
  }
  return "?";
}

Decision decide(const CopyFacts& facts, Bytes threshold, transfer::LinkSet helped) {
  const auto native = [](Verdict verdict) { return Decision{verdict}; };
  if (facts.bytes < threshold) return native(Verdict::kSmall);
  if (facts.capturing) return native(Verdict::kCapturing);
  const Memory& target = facts.target;
  const Memory& source = facts.source;
  if (target.place == Place::kManaged || source.place == Place::kManaged) {
    return native(Verdict::kManaged);
  }
  CAUSEWAY_DCHECK(threshold >= Bytes(0), "no copy is smaller than nothing");
  const bool in = target.place == Place::kGpu;
  const Memory& device = in ? target : source;
  const Memory& host = in ? source : target;
  if (device.place != Place::kGpu) return native(Verdict::kNotHostGpu);
  if (host.place == Place::kPageable) return native(Verdict::kPageable);
  if (host.place != Place::kPinned) return native(Verdict::kNotHostGpu);
  if (!device.primary) return native(Verdict::kForeign);
  if (!device.reached || !host.reached) return native(Verdict::kUnreached);
  if (!device.whole || !host.whole) return native(Verdict::kPartial);
  const bool known = device.gpu >= 0 && device.gpu < transfer::kLinksMax;
  if (!known || !helped.has(device.gpu)) return native(Verdict::kNoRelay);
  CAUSEWAY_DCHECK(host.place == Place::kPinned && device.place == Place::kGpu,
                  "only copies between pinned memory and a GPU are taken over");
  return {Verdict::kMultipath, in ? transfer::Direction::kIn : transfer::Direction::kOut,
          device.gpu};
}

}  // namespace causeway::preload
