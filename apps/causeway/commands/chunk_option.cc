#include "commands/chunk_option.h"

#include "engine/chunk_profile.h"
#include "weights/checked_json.h"

namespace causeway::app {

void ChunkOption::declare(Options& app, const std::string& group) {
  app.add_option(
         "--chunk", chunk_,
         "how many prompt tokens a step computes beside requests that decode: fixed (as many as "
         "--max-num-batched-tokens leaves), fixed:N (N at most), or auto (the fewest with which "
         "the targets for first tokens and for tokens of decoding requests are kept)")
      .group(group)
      .show_default();
  app.add_option("--chunk-profile", profile_,
                 "for --chunk auto: a file with measured times of steps, which `causeway profile "
                 "--model-config` made on this machine; default on a GPU: an estimate; default on "
                 "the CPU: none")
      .group(group);
}

Status ChunkOption::apply(schedule::Options& schedule) const {
  const Status parsed = schedule::parse_chunk(chunk_, schedule.chunk, schedule.tokens_per_step_max);
  if (!parsed.ok()) return parsed.error().with_context("--chunk");
  if (profile_.empty()) return {};
  if (!schedule.chunk.automatic) {
    return invalid_argument("--chunk-profile is of no use without --chunk auto");
  }
  CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(profile_, mib(16)));
  CAUSEWAY_ASSIGN(const engine::MeasuredChunks measured,
                  engine::parse_chunk_profile(text).with_context(profile_));
  schedule.chunk.profile = engine::profile_of(measured, profile_);
  return {};
}

}  // namespace causeway::app
