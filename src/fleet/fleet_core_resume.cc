// What becomes of the requests of a slice that is lost or closed, or gives them back: they are held
// again, in front of all that came later, or refused.
#include <algorithm>
#include <map>

#include "fleet/fleet_core_state.h"

namespace causeway::fleet {

// `suspects`: one of them may have brought it down.
void FleetCore::State::resume_all(SliceId from, const std::unordered_set<RequestId>& suspects) {
  std::vector<RequestId> there;
  for (const auto& [id, asked] : requests) {
    if (asked.slice == from) there.push_back(id);
  }
  std::sort(there.begin(), there.end());
  std::map<ModelId, std::vector<RequestId>> again;
  for (const RequestId id : there) {
    Asked& asked = requests.at(id);
    Model& model = model_of(asked.model);
    model.running -= 1;
    touch(model);
    leaves_slice(asked, /*served=*/false);
    asked.slice = {};
    held += 1;
    if (may_resume(id, asked, suspects.contains(id))) again[model.id].push_back(id);
  }
  for (const auto& [id, of_model] : again) hold_again(model_of(id), of_model);
}

// False: it has been refused. A request that brings slices down is a suspect each time, and ends
// after `resumes_max` of them; one that only waited is moved however often.
bool FleetCore::State::may_resume(RequestId id, Asked& asked, bool suspect) {
  if (asked.cancelled || stopped) {
    refuse_held(id, request::FinishReason::kCancelled, {});
    return false;
  }
  if (suspect && asked.resumes == options.resumes_max) {
    refuse_held(id, request::FinishReason::kError,
                unavailable("the slice that computed it was lost, as were " +
                            std::to_string(asked.resumes) +
                            " before it: it is not sent to another; try again later"));
    return false;
  }
  asked.resumes += suspect;
  asked.again = true;
  return true;
}

void FleetCore::State::hold_again(Model& model, const std::vector<RequestId>& again) {
  for (const RequestId id : again) {
    const Nanos onset = requests.at(id).onset;
    model.onset = model.held.empty() && id == again.front() ? onset : std::min(model.onset, onset);
  }
  model.held.insert(model.held.begin(), again.begin(), again.end());
  // Slices give them back one by one.
  const auto first_new = std::find_if(model.held.begin(), model.held.end(),
                                      [this](RequestId id) { return !requests.at(id).again; });
  std::sort(model.held.begin(), first_new);
  model.resume_until = model.resume_until.value_or(now + options.resume_timeout);
  any_resumes = true;
  touch(model);
}

void FleetCore::State::end_resumed(Model& model, const Error& error) {
  std::vector<RequestId> ended;
  std::erase_if(model.held, [&](RequestId id) {
    const bool resumed = requests.at(id).again;
    if (resumed) ended.push_back(id);
    return resumed;
  });
  model.resume_until.reset();
  touch(model);
  for (const RequestId id : ended) refuse_held(id, request::FinishReason::kError, error);
}

}  // namespace causeway::fleet
