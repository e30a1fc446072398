#include "simulate/shadow_kv.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace causeway::simulate {
namespace {

constexpr std::uint64_t kSpoiltBlock = 0xDEAD;

std::uint64_t first_word(ModelId model) {
  return mix64(0xC0FFEEull + static_cast<std::uint64_t>(model.value));
}

std::uint64_t next_word(std::uint64_t before, TokenId token) {
  return mix64(before ^ mix64(static_cast<std::uint64_t>(token) + 0x9E37ull));
}

std::uint64_t word_after(ModelId model, std::span<const TokenId> tokens) {
  std::uint64_t word = first_word(model);
  for (const TokenId token : tokens) word = next_word(word, token);
  return word;
}

// As attention does, the choice depends on every position, not only on the last.
TokenId choose(std::uint64_t last, std::uint64_t sum, std::int64_t vocab) {
  return static_cast<TokenId>(mix64(last ^ (sum * 3)) % static_cast<std::uint64_t>(vocab));
}

}  // namespace

ShadowKv::ShadowKv(std::int64_t frames, std::int64_t tokens_per_block_max)
    : frames_(frames),
      slots_(tokens_per_block_max),
      words_(static_cast<std::size_t>(frames * tokens_per_block_max), kSpoiltBlock) {}

std::size_t ShadowKv::place_of(const request::Batch& batch, const request::BatchEntry& entry,
                               std::int64_t position, std::int64_t block) const {
  const auto index = static_cast<std::size_t>(entry.frame_begin + position / block);
  return static_cast<std::size_t>(batch.frames[index].value * slots_ + position % block);
}

std::string ShadowKv::check_frames(const request::Batch& batch, std::int64_t block) {
  for (const FrameId frame : batch.frames) {
    if (frame.value < 0 || frame.value >= frames_) return "a frame outside the pool";
  }
  writer_.clear();
  for (std::size_t i = 0; i < batch.entries.size(); ++i) {
    const request::BatchEntry& entry = batch.entries[i];
    const std::int64_t end = std::int64_t{entry.context} + entry.token_count;
    if (entry.token_count < 1) return "an entry without tokens";
    if (entry.frame_count * block < end) return "an entry whose frames do not cover its tokens";
    for (std::int64_t f = entry.context / block; f * block < end; ++f) {
      const FrameId frame = batch.frames[static_cast<std::size_t>(entry.frame_begin + f)];
      if (!writer_.emplace(frame.value, static_cast<std::int64_t>(i)).second) {
        return "frame " + std::to_string(frame.value) + " has two writers";
      }
    }
  }
  for (std::size_t i = 0; i < batch.entries.size(); ++i) {
    const request::BatchEntry& entry = batch.entries[i];
    for (std::int32_t f = 0; f < entry.frame_count; ++f) {
      const FrameId frame = batch.frames[static_cast<std::size_t>(entry.frame_begin + f)];
      const auto writer = writer_.find(frame.value);
      if (writer != writer_.end() && writer->second != static_cast<std::int64_t>(i)) {
        return "frame " + std::to_string(frame.value) + " is read while another sequence writes it";
      }
    }
  }
  return "";
}

void ShadowKv::compute(const request::Batch& batch, const request::BatchEntry& entry,
                       std::int64_t block, std::int64_t vocab, Step& step) {
  std::uint64_t word = first_word(batch.model);
  std::uint64_t sum = 0;
  bool spoilt = false;
  for (std::int64_t position = 0; position < entry.context; ++position) {
    word = words_[place_of(batch, entry, position, block)];
    sum += word;
    spoilt = spoilt || word == kSpoiltBlock;
  }
  for (std::int32_t i = 0; i < entry.token_count; ++i) {
    word = next_word(word, batch.tokens[static_cast<std::size_t>(entry.token_begin + i)]);
    sum += word;
    step.writes.push_back({place_of(batch, entry, std::int64_t{entry.context} + i, block), word});
    if (i < std::ssize(entry.scored)) step.sampled.push_back(choose(word, sum, vocab));
  }
  if (entry.samples) step.sampled.push_back(choose(word, sum, vocab));
  // What follows a failed step, or copy, may build on what was never written. It is not looked at,
  // or a wrong token will show.
  if (!step.after_failure && !spoilt && !entry.history.empty() &&
      word_after(batch.model, entry.history) != word) {
    wrong_ = "a history of other tokens than the sequence's";
  }
}

std::string ShadowKv::begin(const request::Batch& batch, Tokens tokens_per_block,
                            std::int64_t vocab, Step& step) {
  const std::int64_t block = tokens_per_block.count;
  CAUSEWAY_CHECK(block <= slots_ && vocab >= 1, "a block larger than the shadow was made for");
  wrong_ = check_frames(batch, block);
  if (!wrong_.empty()) return wrong_;
  for (const request::BatchEntry& entry : batch.entries) compute(batch, entry, block, vocab, step);
  if (!wrong_.empty()) return wrong_;
  ++begun_;
  for (const Write& write : step.writes) words_[write.place] = mix64(begun_ ^ 0xBADull);
  return "";
}

void ShadowKv::spoil(FrameId frame) {
  const auto first = words_.begin() + frame.value * slots_;
  std::fill(first, first + slots_, kSpoiltBlock);
}

ShadowKv::Words ShadowKv::words_of(FrameId frame) const {
  CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames_, "a frame outside the pool");
  const auto first = words_.begin() + frame.value * slots_;
  return {first, first + slots_};
}

void ShadowKv::put(FrameId frame, const Words& words) {
  CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames_ && std::ssize(words) == slots_,
                 "not what a frame holds");
  std::copy(words.begin(), words.end(), words_.begin() + frame.value * slots_);
}

void ShadowKv::complete(const Step& step) {
  for (const Write& write : step.writes) words_[write.place] = write.word;
}

TokenId expected_token(ModelId model, std::span<const TokenId> tokens, std::int64_t vocab) {
  std::uint64_t word = first_word(model);
  std::uint64_t sum = 0;
  for (const TokenId token : tokens) {
    word = next_word(word, token);
    sum += word;
  }
  return choose(word, sum, vocab);
}

}  // namespace causeway::simulate
