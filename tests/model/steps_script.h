// What forward_dump and cuda_forward_dump share: the scripted steps that they run, and the frames
// that sequences get.
//
// A script is text: "frame_bytes N", "kv F32|BF16", then for each step the line "step" and its
// entries, "entry SEQUENCE SAMPLES TOKEN…" (SAMPLES: 1 when the entry's last logits are wanted).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/units.h"
#include "request/batch.h"

namespace causeway::tests {

struct ScriptEntry {
  std::int64_t sequence = 0;
  bool samples = false;
  std::vector<TokenId> tokens;
};

using ScriptStep = std::vector<ScriptEntry>;

struct StepsScript {
  Bytes frame_bytes;
  DType kv = DType::kF32;
  std::vector<ScriptStep> steps;
};

// kNotFound, or kInvalidArgument naming the line.
Result<StepsScript> read_steps_script(const std::string& path);

// Writes what `run_step` returns for each of the script's steps to the file `out`, one after the
// other. kIo when it cannot be written; run_step's error otherwise.
Status write_logits(const StepsScript& script, const std::string& out,
                    const std::function<Result<std::vector<float>>(const ScriptStep&)>& run_step);

std::int64_t sampled_rows(const ScriptStep& step);

// The frames and lengths of sequences, over `frames` frames of `tokens_per_frame` tokens that are
// handed out in a scrambled order.
class SequenceFrames {
 public:
  SequenceFrames(std::int64_t frames, std::int64_t tokens_per_frame);

  // The step as a batch, with frames for its tokens. kResourceExhausted: out of frames.
  Result<request::Batch> batch(const ScriptStep& step);

 private:
  struct Table {
    std::int64_t length = 0;
    std::vector<FrameId> frames;
  };
  bool add(const ScriptEntry& entry, request::Batch& batch);

  std::int64_t tokens_per_frame_;
  std::vector<FrameId> free_;
  std::map<std::int64_t, Table> tables_;
};

}  // namespace causeway::tests
