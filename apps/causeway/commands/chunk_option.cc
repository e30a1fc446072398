#include "commands/chunk_option.h"

namespace causeway::app {

void ChunkOption::declare(Options& app, const std::string& group) {
  app.add_option("--chunk", chunk_,
                 "how many prompt tokens a step computes beside requests that decode: fixed "
                 "(whatever --max-num-batched-tokens leaves), fixed:N (the same with N), or auto: "
                 "the fewest with which first tokens, and the tokens of all that decode, keep "
                 "their targets")
      .group(group)
      .show_default();
}

Status ChunkOption::apply(schedule::Options& schedule) const {
  const Status parsed = schedule::parse_chunk(chunk_, schedule.chunk, schedule.tokens_per_step_max);
  return parsed.ok() ? parsed : Status(parsed.error().with_context("--chunk"));
}

}  // namespace causeway::app
