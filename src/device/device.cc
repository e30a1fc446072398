#include "device/device.h"

namespace causeway::device {

std::string_view name_of(CopyPriority priority) {
  switch (priority) {
    case CopyPriority::kStep: return "step";
    case CopyPriority::kKvIn: return "kv_in";
    case CopyPriority::kWeightsAhead: return "weights_ahead";
    case CopyPriority::kTwin: return "twin";
    case CopyPriority::kPromotion: return "promotion";
  }
  return "?";
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
