#include "device/device.h"

#include "base/spin.h"

namespace causeway::device {

std::string_view name_of(CopyPriority priority) {
  switch (priority) {
    case CopyPriority::kStep: return "step";
    case CopyPriority::kKvIn: return "kv_in";
    case CopyPriority::kKvOut: return "kv_out";
    case CopyPriority::kWeightsAhead: return "weights_ahead";
    case CopyPriority::kTwin: return "twin";
    case CopyPriority::kPromotion: return "promotion";
  }
  return "?";
}

Result<bool> Event::spin(Nanos length) const {
  Result<bool> last = false;
  (void)spin_until(
      [&] {
        last = done();
        return !last.ok() || *last;
      },
      length);
  return last;
}

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice: return "device";
    case MemoryKind::kHost: return "host";
    case MemoryKind::kPeer: return "peer";
  }
  return "?";
}

}  // namespace causeway::device
