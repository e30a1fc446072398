#include "grammar/fenced_answer.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "grammar/token_mask.h"

namespace causeway::grammar {
namespace {

using request::MaskState;

// What all matchers of an answer's form share.
class Fence {
 public:
  explicit Fence(FencedAnswer answer) : answer_(std::move(answer)) {
    CAUSEWAY_CHECK(answer_.form != nullptr && answer_.tokens != nullptr, "a fence needs both");
    end_mask_ = no_tokens(answer_.tokens->size());
    for (const TokenId token : answer_.end) set_bit(end_mask_, token, true);
    masks_.resize(CallWatch::places(answer_.calls.marks));
    const std::vector<TokenId> beyond = tokens_beyond_marks();
    for (std::size_t place = 0; place < masks_.size(); ++place) restrict_place(place, beyond);
  }

  const FencedAnswer& answer() const { return answer_; }
  const CallsInText& calls() const { return answer_.calls; }
  const TokenMask& end_mask() const { return end_mask_; }
  // Empty: every token may come.
  const TokenMask& mask_of(const CallWatch& watch) const { return masks_[watch.place()]; }

  std::string_view bytes_of(TokenId token) const {
    if (token == calls().think_open) return calls().marks.think_open;
    if (token == calls().think_close) return calls().marks.think_close;
    const bool known = token >= 0 && token < std::ssize(*answer_.tokens);
    return known ? std::string_view((*answer_.tokens)[static_cast<std::size_t>(token)]) : "";
  }

  // What a call begins with, when its beginning was found with `rest` behind.
  std::string entered(CallWatch::Found found, std::string_view rest) const {
    std::string text = found == CallWatch::Found::kBare ? calls().marks.bare : "";
    return text.append(rest);
  }

  std::size_t bytes() const {
    std::size_t words = end_mask_.size();
    for (const TokenMask& mask : masks_) words += mask.size();
    return words * sizeof(std::uint32_t);
  }

 private:
  // Tokens that may complete a mark and go on: its last byte is in them, and not their last.
  std::vector<TokenId> tokens_beyond_marks() const {
    std::string last;
    for (const std::string* const mark : {&calls().marks.mark, &calls().marks.bare}) {
      if (!mark->empty()) last += mark->back();
    }
    std::vector<TokenId> out;
    for (TokenId token = 0; token < std::ssize(*answer_.tokens); ++token) {
      const std::string_view bytes = bytes_of(token);
      const std::size_t at = bytes.find_first_of(last);
      if (at != std::string_view::npos && at + 1 < bytes.size()) out.push_back(token);
    }
    return out;
  }

  void restrict_place(std::size_t place, const std::vector<TokenId>& beyond) {
    for (const TokenId token : beyond) {
      if (goes_on_well(CallWatch::at(calls().marks, place), bytes_of(token))) continue;
      if (masks_[place].empty()) masks_[place] = all_tokens(answer_.tokens->size());
      set_bit(masks_[place], token, false);
    }
  }

  bool goes_on_well(CallWatch watch, std::string_view bytes) {
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
      const CallWatch::Found found = watch.step(bytes[i]);
      if (found == CallWatch::Found::kNothing) continue;
      const std::string text = entered(found, bytes.substr(i + 1));
      const auto [at, first] = begins_.try_emplace(text, false);
      if (first) at->second = answer_.form->begins_with(text);
      return at->second;
    }
    return true;
  }

  const FencedAnswer answer_;
  TokenMask end_mask_;
  std::vector<TokenMask> masks_;        // by place; empty: every token may come
  std::map<std::string, bool> begins_;  // what a call was asked to begin with
};

class FencedMatcher final : public request::TokenMatcher {
 public:
  FencedMatcher(std::shared_ptr<const Fence> fence, std::vector<TokenId> output)
      : fence_(std::move(fence)), watch_(fence_->calls().marks), due_(std::move(output)) {
    read_text();
  }

  // `longest` for each call that the due tokens complete: they are few, and most are followed at
  // once.
  MaskState wait(Nanos longest) override {
    while (call_ != nullptr) {
      const MaskState state = call_->wait(longest);
      if (state != MaskState::kReady) return state;
      if (!call_->closed()) {
        due_.clear();
        return state;
      }
      end_call();
    }
    return due_.empty() ? MaskState::kReady : MaskState::kImpossible;
  }

  std::span<const std::uint32_t> mask() const override {
    if (call_ != nullptr) return call_->mask();
    return ended_ ? fence_->end_mask() : fence_->mask_of(watch_);
  }

  void advance(TokenId token) override {
    if (call_ != nullptr) return call_->advance(token);
    due_ = {token};
    read_text();
  }

 private:
  // The due tokens, up to the one with which a call begins.
  void read_text() {
    if (ended_) return;
    for (std::size_t i = 0; i < due_.size(); ++i) {
      const std::string_view bytes = fence_->bytes_of(due_[i]);
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        const CallWatch::Found found = watch_.step(bytes[at]);
        if (found == CallWatch::Found::kNothing) continue;
        due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        call_ = fence_->answer().form->begin(fence_->entered(found, bytes.substr(at + 1)), due_);
        return;
      }
    }
    due_.clear();
  }

  void end_call() {
    const std::size_t followed = std::min(call_->followed(), due_.size());
    due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(followed));
    call_.reset();
    watch_.after_call();
    ended_ = fence_->calls().once;
    read_text();
  }

  const std::shared_ptr<const Fence> fence_;
  CallWatch watch_;
  std::unique_ptr<CallMatcher> call_;  // null: within text
  std::vector<TokenId> due_;           // tokens that came and are not known to have been read
  bool ended_ = false;                 // nothing but the end may come
};

class FencedConstraint final : public request::Constraint {
 public:
  explicit FencedConstraint(std::shared_ptr<const Fence> fence) : fence_(std::move(fence)) {}

  const request::ConstraintText& text() const override { return fence_->answer().text; }
  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output) const override {
    return std::make_unique<FencedMatcher>(fence_, std::move(output));
  }

 private:
  const std::shared_ptr<const Fence> fence_;
};

}  // namespace

Fenced fence_answer(FencedAnswer answer) {
  auto fence = std::make_shared<const Fence>(std::move(answer));
  const std::size_t bytes = fence->bytes();
  return {std::make_shared<FencedConstraint>(std::move(fence)), bytes};
}

}  // namespace causeway::grammar
