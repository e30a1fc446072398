#include "transfer/transfer.h"

namespace causeway::transfer {

std::string_view name_of(Direction direction) { return direction == Direction::kIn ? "in" : "out"; }

std::string text_of(LinkSet links) {
  std::string text;
  for (int link = 0; link < kLinksMax; ++link) {
    if (!links.has(link)) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(link);
  }
  return text;
}

}  // namespace causeway::transfer
