#include "commands/slice_share.h"

#include <set>

namespace causeway::app {

int gpus_of(const slice::SliceLayout& layout) {
  std::set<int> gpus;
  for (const slice::SlicePart& part : layout.parts) gpus.insert(part.gpu);
  return static_cast<int>(gpus.size());
}

ServedSlicesOptions share_of(const ServedSlicesOptions& options, const slice::SlicePart& part,
                             int gpus) {
  ServedSlicesOptions own = options;
  own.kv = part_of(options.kv, part.share);
  own.kv_host = part_of(options.kv_host, part.share / gpus);
  own.weights = part_of(options.weights, part.share);
  return own;
}

}  // namespace causeway::app
