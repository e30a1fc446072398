#include "steps_script.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/random.h"

namespace causeway::tests {
namespace {

// False: the line is not understood.
bool read_line(const std::string& line, StepsScript& script) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "frame_bytes") {
    words >> script.frame_bytes.count;
    return !words.fail();
  }
  if (kind == "kv") {
    words >> kind;
    script.kv = kind == "BF16" ? DType::kBF16 : DType::kF32;
    return kind == "BF16" || kind == "F32";
  }
  if (kind == "step") {
    script.steps.emplace_back();
    return true;
  }
  if (kind != "entry" || script.steps.empty()) return false;
  ScriptEntry entry;
  words >> entry.sequence >> entry.samples;
  for (TokenId token = 0; words >> token;) entry.tokens.push_back(token);
  script.steps.back().push_back(std::move(entry));
  return !script.steps.back().back().tokens.empty();
}

}  // namespace

Result<StepsScript> read_steps_script(const std::string& path) {
  std::ifstream file(path);
  if (!file) return not_found(path + ": cannot be read");
  StepsScript script;
  for (std::string line; std::getline(file, line);) {
    if (!read_line(line, script)) return invalid_argument(path + ": not understood: " + line);
  }
  return script;
}

Status write_logits(const StepsScript& script, const std::string& out,
                    const std::function<Result<std::vector<float>>(const ScriptStep&)>& run_step) {
  std::ofstream file(out, std::ios::binary);
  for (const ScriptStep& step : script.steps) {
    CAUSEWAY_ASSIGN(const std::vector<float> logits, run_step(step));
    file.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size() * sizeof(float)));
  }
  file.close();
  if (!file) return Error{ErrorCode::kIo, out + ": cannot be written"};
  return {};
}

std::int64_t sampled_rows(const ScriptStep& step) {
  return std::count_if(step.begin(), step.end(), [](const auto& entry) { return entry.samples; });
}

SequenceFrames::SequenceFrames(std::int64_t frames, std::int64_t tokens_per_frame)
    : tokens_per_frame_(tokens_per_frame) {
  Random random(1);
  for (std::int64_t i = 0; i < frames; ++i) free_.emplace_back(i);
  for (std::size_t i = free_.size(); i > 1; --i) {
    std::swap(free_[i - 1], free_[static_cast<std::size_t>(random.below(std::int64_t(i)))]);
  }
}

Result<request::Batch> SequenceFrames::batch(const ScriptStep& step) {
  request::Batch batch;
  for (const ScriptEntry& entry : step) {
    if (!add(entry, batch)) return exhausted("the steps need more frames");
  }
  return batch;
}

bool SequenceFrames::add(const ScriptEntry& entry, request::Batch& batch) {
  Table& table = tables_[entry.sequence];
  request::BatchEntry out;
  out.token_begin = static_cast<std::int32_t>(batch.tokens.size());
  out.token_count = static_cast<std::int32_t>(entry.tokens.size());
  out.context = static_cast<std::int32_t>(table.length);
  out.samples = entry.samples;
  table.length += out.token_count;
  while (static_cast<std::int64_t>(table.frames.size()) * tokens_per_frame_ < table.length) {
    if (free_.empty()) return false;
    table.frames.push_back(free_.back());
    free_.pop_back();
  }
  out.frame_begin = static_cast<std::int32_t>(batch.frames.size());
  out.frame_count = static_cast<std::int32_t>(table.frames.size());
  batch.tokens.insert(batch.tokens.end(), entry.tokens.begin(), entry.tokens.end());
  batch.frames.insert(batch.frames.end(), table.frames.begin(), table.frames.end());
  batch.entries.push_back(std::move(out));
  return true;
}

}  // namespace causeway::tests
