#include "server/kept_models.h"

#include "base/check.h"

namespace causeway::server {
namespace {

constexpr Nanos kPatience = seconds(10);

}  // namespace

void KeptModels::begin(ModelId model) {
  const std::lock_guard lock(mutex_);
  Kept& kept = models_[model];
  ++kept.requests;
  kept.leaves.reset();
}

void KeptModels::end(ModelId model, std::optional<Nanos> wish, Nanos now) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  CAUSEWAY_CHECK(found != models_.end() && found->second.requests > 0,
                 "a request ends that has not begun");
  Kept& kept = found->second;
  --kept.requests;
  kept.pin = wish && *wish < Nanos(0);
  kept.leaves.reset();
  if (wish && !kept.pin) kept.leaves = now + *wish;
  if (kept.requests == 0 && !kept.pin && !kept.leaves) models_.erase(found);
}

KeptModels::Due KeptModels::due(Nanos now) {
  Due due;
  const std::lock_guard lock(mutex_);
  for (auto at = models_.begin(); at != models_.end();) {
    Kept& kept = at->second;
    if (kept.pin) due.pin.push_back(at->first);
    kept.pin = false;
    const bool leaves = kept.requests == 0 && kept.leaves && *kept.leaves <= now;
    const bool given_up = leaves && now - *kept.leaves > kPatience;
    if (leaves && !given_up) due.unload.push_back(at->first);
    const bool over = kept.requests == 0 && (!kept.leaves || given_up);
    at = over ? models_.erase(at) : std::next(at);
  }
  return due;
}

// One that a request has entered since is not done.
void KeptModels::done(ModelId model) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (found != models_.end() && found->second.requests == 0) models_.erase(found);
}

}  // namespace causeway::server
