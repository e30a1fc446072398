#include "hub_cache.h"

namespace causeway::app {

std::filesystem::path hub_cache(const Environment& environment) {
  const auto folder = [&environment](const char* variable) {
    const char* const value = environment(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (auto cache = folder("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (auto home = folder("HF_HOME"); !home.empty()) return home / "hub";
  if (auto caches = folder("XDG_CACHE_HOME"); !caches.empty()) return caches / "huggingface/hub";
  return folder("HOME") / ".cache/huggingface/hub";
}

}  // namespace causeway::app
