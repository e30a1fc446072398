#include "bench/neighbour.h"

namespace causeway::bench {
namespace {

constexpr std::size_t kWarm = 20;  // tokens of each before anything counts

}  // namespace

Status Neighbour::start() {
  requests_.clear();
  for (std::int64_t i = 0; i < settings_.batch; ++i) {
    CAUSEWAY_ASSIGN(const RequestId id,
                    local_.submit(ModelId(0), settings_.context, settings_.output));
    requests_.push_back(id);
  }
  for (const RequestId id : requests_) {
    CAUSEWAY_TRY(status_of(local_.sink().wait(id, kWarm, kPatience)));
  }
  return {};
}

Status Neighbour::wait(std::size_t tokens) {
  const RequestId first = requests_.front();
  const std::size_t seen = local_.sink().of(first).at.size();
  CAUSEWAY_ASSIGN(const TokenTimes times, local_.sink().wait(first, seen + tokens, kPatience));
  if (times.ended) {
    return unavailable("the neighbour has no more to decode: let its answers be longer");
  }
  return {};
}

Samples Neighbour::gaps(Nanos from, Nanos to) {
  Samples gaps;
  for (const RequestId id : requests_) local_.sink().of(id).add_gaps(from, to, gaps);
  return gaps;
}

}  // namespace causeway::bench
