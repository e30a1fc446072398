// Runs the forward pass over scripted steps and writes the logits: the C++ side of
// reference_test.py.
//
//   forward_dump MODEL_DIR STEPS LOGITS
//
// STEPS is text: "frame_bytes N", "kv F32|BF16", then for each step the line "step" and its
// entries, "entry SEQUENCE SAMPLES TOKEN…". LOGITS receives, in order, a row of f32 for every entry
// with SAMPLES = 1. Frames are handed out in a scrambled order from memory that is full of NaN, so
// that reading what was never written shows.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "base/random.h"
#include "model/config.h"
#include "model/forward.h"

namespace causeway {
namespace {

constexpr std::int64_t kFrames = 4096;

struct Entry {
  std::int64_t sequence = 0;
  bool samples = false;
  std::vector<TokenId> tokens;
};

struct Script {
  Bytes frame_bytes;
  DType kv = DType::kF32;
  std::vector<std::vector<Entry>> steps;
};

Result<Script> read_script(const char* path) {
  std::ifstream file(path);
  if (!file) return not_found(std::string(path) + ": cannot be read");
  Script script;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "frame_bytes") {
      words >> script.frame_bytes.count;
    } else if (kind == "kv") {
      words >> kind;
      script.kv = kind == "BF16" ? DType::kBF16 : DType::kF32;
    } else if (kind == "step") {
      script.steps.emplace_back();
    } else if (kind == "entry" && !script.steps.empty()) {
      Entry entry;
      words >> entry.sequence >> entry.samples;
      for (TokenId token = 0; words >> token;) entry.tokens.push_back(token);
      script.steps.back().push_back(std::move(entry));
    } else {
      return invalid_argument(std::string(path) + ": not understood: " + line);
    }
  }
  return script;
}

// The sequences' frames and lengths, and the memory that the frames lie in.
class Slice {
 public:
  Slice(const kv::BlockLayout& layout, DType dtype)
      : memory_(to_size(layout.frame) * kFrames, std::byte{0xFF}) {
    kv_ = {.base = memory_.data(), .layout = layout, .dtype = dtype};
    Random random(1);
    for (std::int64_t i = 0; i < kFrames; ++i) free_.emplace_back(i);
    for (std::size_t i = free_.size(); i > 1; --i) {
      std::swap(free_[i - 1], free_[static_cast<std::size_t>(random.below(std::int64_t(i)))]);
    }
  }

  const model::KvMemory& kv() const { return kv_; }

  // Adds the entry to the batch, with frames for its tokens. False: out of frames.
  bool add(const Entry& entry, request::Batch& batch) {
    Table& table = tables_[entry.sequence];
    request::BatchEntry out;
    out.token_begin = static_cast<std::int32_t>(batch.tokens.size());
    out.token_count = static_cast<std::int32_t>(entry.tokens.size());
    out.context = static_cast<std::int32_t>(table.length);
    out.samples = entry.samples;
    table.length += out.token_count;
    const std::int64_t per_frame = kv_.layout.tokens.count;
    while (static_cast<std::int64_t>(table.frames.size()) * per_frame < table.length) {
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

 private:
  struct Table {
    std::int64_t length = 0;
    std::vector<FrameId> frames;
  };
  std::vector<std::byte> memory_;
  model::KvMemory kv_;
  std::vector<FrameId> free_;
  std::map<std::int64_t, Table> tables_;
};

struct Loaded {
  device::HostMemory memory;
  RealClock clock;
  weights::ModelPool pool{memory, clock, gib(16)};
};

Result<std::unique_ptr<model::HostForward>> load(Loaded& loaded, const char* directory) {
  CAUSEWAY_ASSIGN(model::ModelConfig config, model::load_config(directory));
  const auto plan = model::plan_weights(config, model::host_dtype(config.dtype));
  const ModelId id(0);
  CAUSEWAY_TRY(loaded.pool.load(id, directory, plan, {}));
  CAUSEWAY_ASSIGN(auto pinned, loaded.pool.pin(id));
  return std::make_unique<model::HostForward>(std::move(config), std::move(pinned));
}

Status run(const char* directory, const char* steps, const char* out) {
  CAUSEWAY_ASSIGN(const Script script, read_script(steps));
  Loaded loaded;
  CAUSEWAY_ASSIGN(auto forward, load(loaded, directory));
  CAUSEWAY_ASSIGN(const auto layout, kv::plan_block(model::kv_shape(forward->config(), script.kv),
                                                    script.frame_bytes));
  Slice slice(layout, script.kv);
  std::ofstream file(out, std::ios::binary);
  for (const auto& step : script.steps) {
    request::Batch batch;
    std::size_t sampled = 0;
    for (const Entry& entry : step) {
      if (!slice.add(entry, batch)) return exhausted("the steps need more frames");
      sampled += entry.samples ? 1 : 0;
    }
    std::vector<float> logits(sampled * static_cast<std::size_t>(forward->config().vocab));
    std::memset(logits.data(), 0xFF, logits.size() * sizeof(float));
    CAUSEWAY_TRY(forward->run(batch, slice.kv(), logits));
    file.write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size() * sizeof(float)));
  }
  file.close();
  if (!file) return Error{ErrorCode::kIo, std::string(out) + ": cannot be written"};
  return {};
}

}  // namespace
}  // namespace causeway

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: forward_dump MODEL_DIR STEPS LOGITS\n";
    return 2;
  }
  const causeway::Status status = causeway::run(argv[1], argv[2], argv[3]);
  if (!status.ok()) {
    std::cerr << "forward_dump: " << status.error().message << "\n";
    return 1;
  }
  return 0;
}
