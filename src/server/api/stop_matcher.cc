#include "server/api/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace causeway::server {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  if (stops_.empty()) return std::string(text);
  held_ += text;
  std::string out;
  if (match(out)) return out;
  const std::size_t keep = held_back();
  out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

// The match that starts first counts; of those the shortest.
bool StopMatcher::match(std::string& out) {
  std::size_t begin = std::string::npos;
  std::size_t size = 0;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at < begin || (at == begin && at != std::string::npos && stop.size() < size)) {
      begin = at;
      size = stop.size();
    }
  }
  if (begin == std::string::npos) return false;
  stopped_ = true;
  held_.resize(begin + (include_stop_ ? size : 0));
  out = std::exchange(held_, {});
  return true;
}

// The longest end of the text that begins a stop.
std::size_t StopMatcher::held_back() const {
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, held_.size()); size > keep; --size) {
      if (held_.compare(held_.size() - size, size, stop, 0, size) == 0) {
        keep = size;
        break;
      }
    }
  }
  return keep;
}

}  // namespace causeway::server
