// For tests of sequences whose output must match a grammar: matchers that the test controls, and an
// executor whose steps end when the test calls for it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/step_executor.h"
#include "request/constraint.h"

namespace causeway::engine {

// What all matchers of a constraint are to answer, and what they were told.
struct Told {
  request::MaskState state = request::MaskState::kReady;
  std::vector<TokenId> begun, tokens;
  int waits = 0;
  bool free = false;  // every token may come: the mask is empty
  bool none = false;  // no token may: no bit of the mask is set
};

class ToldMatcher final : public request::TokenMatcher {
 public:
  explicit ToldMatcher(Told& told) : told_(told), mask_((2000 + 31) / 32, 0), none_(mask_) {}
  request::MaskState wait(Nanos) override {
    ++told_.waits;
    return told_.state;
  }
  std::span<const std::uint32_t> mask() const override {
    if (told_.free) return {};
    return told_.none ? none_ : mask_;
  }
  void advance(TokenId token) override {
    told_.tokens.push_back(token);
    mask_[0] = static_cast<std::uint32_t>(told_.tokens.size());
  }

 private:
  Told& told_;
  std::vector<std::uint32_t> mask_;
  const std::vector<std::uint32_t> none_;
};

class ToldConstraint final : public request::Constraint {
 public:
  explicit ToldConstraint(Told& told) : told_(told) {}
  const request::ConstraintText& text() const override { return text_; }
  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output) const override {
    told_.begun = std::move(output);
    return std::make_unique<ToldMatcher>(told_);
  }

 private:
  Told& told_;
  const request::ConstraintText text_;
};

// Steps end when the test calls for it; token 100 + n is the n-th of a step.
class SlowExecutor final : public StepExecutor {
 public:
  explicit SlowExecutor(bool late_masks = false)
      : capabilities_{.steps_in_flight_max = 2, .late_masks = late_masks} {}

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights) override {
    batches.push_back(std::move(batch));
    return {};
  }
  Status supply_masks(StepId step, std::vector<request::LateMask> masks) override {
    EXPECT_FALSE(batches.empty());
    EXPECT_EQ(batches.back().step, step);
    EXPECT_TRUE(batches.back().awaits_masks());
    for (request::BatchEntry& entry : batches.back().entries) entry.edits.mask_follows = false;
    supplied = std::move(masks);
    return {};
  }
  std::optional<request::StepResult> wait(Nanos) override { return {}; }

  request::StepResult end_oldest() {
    const request::Batch batch = batches.front();
    EXPECT_FALSE(batch.awaits_masks()) << "a step cannot end before it has its masks";
    batches.erase(batches.begin());
    request::StepResult result;
    result.step = batch.step;
    for (const request::BatchEntry& entry : batch.entries) {
      if (!entry.samples) continue;
      request::SampledToken sampled{.request = entry.request, .token = {}};
      sampled.token.token = static_cast<TokenId>(100 + result.sampled.size());
      result.sampled.push_back(sampled);
    }
    return result;
  }
  // In which of the steps in flight the request is.
  std::vector<int> steps_of(std::int64_t id) const {
    std::vector<int> in;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      for (const request::BatchEntry& entry : batches[i].entries) {
        if (entry.request == RequestId(id)) in.push_back(static_cast<int>(i));
      }
    }
    return in;
  }

  std::vector<request::Batch> batches;      // in flight
  std::vector<request::LateMask> supplied;  // the last time

 private:
  const Capabilities capabilities_;
};

}  // namespace causeway::engine
