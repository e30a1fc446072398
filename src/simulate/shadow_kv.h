// A stand-in for KV memory that remembers what was written where: one 64-bit word a token, the hash
// of the model and all tokens up to it. A sequence that reads a frame which another one wrote, or
// which was never filled, therefore comes to other words, and so to other tokens, than its own
// tokens give. Also finds frames with two writers, frames read while they are written, and
// histories (of penalties) that are not the sequence's tokens.
//
// The token that a sequence's KV leads to is next_token(); expected_token() gives the same from the
// tokens alone, for checkers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "request/batch.h"

namespace causeway::simulate {

class ShadowKv {
 public:
  struct Write {
    std::size_t place = 0;
    std::uint64_t word = 0;
  };
  // A step from begin() to complete(). Several may be open at the same time.
  struct Step {
    std::vector<Write> writes;
    // One for each row of logits: the token that the model would choose.
    std::vector<TokenId> sampled;
    // The step before, on whose tokens this one depends, has failed: this one may choose anything.
    bool after_failure = false;
  };

  ShadowKv(std::int64_t frames, std::int64_t tokens_per_block_max);

  // Reads the contexts, computes the sampled tokens, and spoils the places that the step will
  // write. Returns what is wrong with the batch, empty if nothing is.
  std::string begin(const request::Batch& batch, Tokens tokens_per_block, std::int64_t vocab,
                    Step& step);
  // The frame has other memory now, or a copy is about to overwrite it.
  void spoil(FrameId frame);
  // The contents of a frame, for copies.
  using Words = std::vector<std::uint64_t>;
  Words words_of(FrameId frame) const;
  void put(FrameId frame, const Words& words);
  // The step has succeeded: writes what it computed. The places of a failed step stay spoilt.
  void complete(const Step& step);

 private:
  std::size_t place_of(const request::Batch& batch, const request::BatchEntry& entry,
                       std::int64_t position, std::int64_t block) const;
  std::string check_frames(const request::Batch& batch, std::int64_t block);
  void compute(const request::Batch& batch, const request::BatchEntry& entry, std::int64_t block,
               std::int64_t vocab, Step& step);

  std::int64_t frames_;
  std::int64_t slots_;  // in one frame
  std::vector<std::uint64_t> words_;
  std::string wrong_;  // what is wrong with the batch of the last begin()
  // By frame: the entry of the batch that writes it.
  std::unordered_map<std::int64_t, std::int64_t> writer_;
  std::uint64_t begun_ = 0;
};

// The token that follows `tokens` on the simulated device.
TokenId expected_token(ModelId model, std::span<const TokenId> tokens, std::int64_t vocab);

}  // namespace causeway::simulate
