#include "worker/wire.h"

#include "text/utf8.h"

namespace causeway::worker {

void Reader::text(std::string& value) {
  get(value);
  if (value.size() > kTextMax) value.resize(kTextMax);
  for (std::size_t at = 0; at < value.size();) {
    const text::Utf8Unit unit = text::first_unit(std::string_view(value).substr(at));
    const bool valid = unit.kind == text::Utf8Unit::Kind::kCharacter;
    if (!valid) std::fill_n(value.begin() + static_cast<std::ptrdiff_t>(at), unit.size, '?');
    at += unit.size;
  }
}

Status Reader::end() const {
  if (failed_) return corrupt("a message whose fields make no sense");
  if (!left_.empty()) return corrupt("a message with something behind its last field");
  return {};
}

}  // namespace causeway::worker
