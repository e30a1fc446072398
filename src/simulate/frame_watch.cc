#include "simulate/frame_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace causeway::simulate {

std::string frames_given_away(const request::Batch& running, const request::Batch& next,
                              Tokens tokens_per_block) {
  std::vector<std::pair<FrameId, RequestId>> users;
  for (const request::BatchEntry& entry : running.entries) {
    for (std::int32_t f = 0; f < entry.frame_count; ++f) {
      users.emplace_back(running.frames[static_cast<std::size_t>(entry.frame_begin + f)],
                         entry.request);
    }
  }
  std::sort(users.begin(), users.end());
  for (const request::BatchEntry& entry : next.entries) {
    for (std::int64_t f = entry.context / tokens_per_block.count; f < entry.frame_count; ++f) {
      const FrameId frame = next.frames[static_cast<std::size_t>(entry.frame_begin + f)];
      const auto own =
          std::lower_bound(users.begin(), users.end(), std::pair(frame, entry.request));
      if (own != users.end() && *own == std::pair(frame, entry.request)) continue;
      const bool used = (own != users.end() && own->first == frame) ||
                        (own != users.begin() && std::prev(own)->first == frame);
      if (used) {
        return "frame " + std::to_string(frame.value) + " is given away while a step uses it";
      }
    }
  }
  return "";
}

std::string FrameWatch::submitted(const request::Batch& batch, ShadowKv* shadow) {
  if (mover_ == nullptr) return "";
  for (const FrameId frame : batch.frames) {
    const auto memory = mover_->frame_memory(frame);
    if (!memory) return "frame " + std::to_string(frame.value) + " is used without memory";
    const auto [before, first] = memory_.emplace(frame, *memory);
    if (shadow != nullptr && !first && before->second != *memory) shadow->spoil(frame);
    before->second = *memory;
  }
  return "";
}

std::string FrameWatch::ended(const request::Batch& batch) const {
  if (mover_ == nullptr) return "";
  for (const FrameId frame : batch.frames) {
    const auto used = memory_.find(frame);
    if (used != memory_.end() && mover_->frame_memory(frame) == used->second) continue;
    return "memory of frame " + std::to_string(frame.value) + " is taken from a step in flight";
  }
  return "";
}

}  // namespace causeway::simulate
