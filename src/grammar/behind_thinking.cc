#include "grammar/behind_thinking.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "grammar/token_mask.h"

namespace causeway::grammar {
namespace {

using Json = nlohmann::json;
using request::ConstraintKind;
using request::MaskState;

constexpr const char* kBehindThinking = "behind_thinking";
constexpr std::size_t kThinkingMarkMax = 64;

bool marks_thinking(const std::string& text) {
  return !text.empty() && text.size() <= kThinkingMarkMax &&
         text.find(text[0], 1) == std::string::npos;
}

// How many bytes of `mark` the text ends with, after one more byte.
std::size_t matched_with(std::string_view mark, std::size_t matched, char c) {
  if (c == mark[matched]) return matched + 1;
  return c == mark[0] ? 1 : 0;
}

// What all matchers of an answer share.
class Thinking {
 public:
  explicit Thinking(ThinkingAnswer answer) : answer_(std::move(answer)) {
    CAUSEWAY_CHECK(answer_.form != nullptr && answer_.tokens != nullptr, "thinking needs both");
    CAUSEWAY_CHECK(marks_thinking(answer_.behind.close), "thinking ends by a mark");
    TokenMask free = all_tokens(answer_.tokens->size());
    for (const TokenId token : answer_.end) set_bit(free, token, false);
    masks_.assign(answer_.behind.close.size(), free);
    for (TokenId token = 0; token < std::ssize(*answer_.tokens); ++token) forbid_crossing(token);
    const TokenId open = answer_.behind.open_token;
    if (answer_.behind.thinks || open < 0 || open >= std::ssize(*answer_.tokens)) return;
    auto matcher = answer_.form->begin({});
    CAUSEWAY_CHECK(matcher->wait(Nanos(0)) == MaskState::kReady, "what comes first is known");
    start_mask_.assign(matcher->mask().begin(), matcher->mask().end());
    if (start_mask_.empty()) start_mask_ = all_tokens(answer_.tokens->size());
    set_bit(start_mask_, open, true);
  }

  const ThinkingAnswer& answer() const { return answer_; }
  // The mask of an answer that may yet begin with thinking; empty: it may not.
  const TokenMask& start_mask() const { return start_mask_; }
  // Within thinking that ends with so many bytes of the closing mark.
  const TokenMask& mask_behind(std::size_t matched) const { return masks_[matched]; }

  std::string_view bytes_of(TokenId token) const {
    if (token == answer_.behind.close_token) return answer_.behind.close;
    const bool known = token >= 0 && token < std::ssize(*answer_.tokens);
    return known ? std::string_view((*answer_.tokens)[static_cast<std::size_t>(token)]) : "";
  }

  std::size_t bytes() const {
    return (masks_.size() + 1) * masks_.front().size() * sizeof(std::uint32_t);
  }

 private:
  // Takes the token out of the masks of places where it would complete the mark before its end.
  void forbid_crossing(TokenId token) {
    const std::string_view mark = answer_.behind.close, bytes = bytes_of(token);
    const std::size_t last = bytes.find(mark.back());
    if (last == std::string_view::npos || last + 1 == bytes.size()) return;
    for (std::size_t place = 0; place < masks_.size(); ++place) {
      std::size_t matched = place;
      for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
        matched = matched_with(mark, matched, bytes[i]);
        if (matched < mark.size()) continue;
        set_bit(masks_[place], token, false);
        break;
      }
    }
  }

  const ThinkingAnswer answer_;
  TokenMask start_mask_;
  std::vector<TokenMask> masks_;  // by bytes of the closing mark
};

class ThinkingMatcher final : public request::TokenMatcher {
 public:
  ThinkingMatcher(std::shared_ptr<const Thinking> thinking, std::vector<TokenId> output)
      : thinking_(std::move(thinking)),
        phase_(thinking_->answer().behind.thinks ? Phase::kThinking : Phase::kStart) {
    if (phase_ == Phase::kStart && thinking_->start_mask().empty()) {
      begin_form(std::move(output));
      return;
    }
    std::size_t read = 0;
    while (read < output.size() && form_ == nullptr && !lost_) read += take(output[read]) ? 1 : 0;
    output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(read));
    if (form_ != nullptr && !output.empty()) begin_form(std::move(output));
  }

  MaskState wait(Nanos longest) override {
    if (lost_) return MaskState::kImpossible;
    return form_ != nullptr ? form_->wait(longest) : MaskState::kReady;
  }

  std::span<const std::uint32_t> mask() const override {
    if (form_ != nullptr) return form_->mask();
    return phase_ == Phase::kStart ? thinking_->start_mask() : thinking_->mask_behind(matched_);
  }

  void advance(TokenId token) override {
    if (form_ == nullptr && take(token)) return;
    if (form_ != nullptr) form_->advance(token);
  }

 private:
  enum class Phase : std::uint8_t { kStart, kThinking };

  void begin_form(std::vector<TokenId> output) {
    form_ = thinking_->answer().form->begin(std::move(output));
  }

  // False: the token is of the form, which has begun.
  bool take(TokenId token) {
    if (phase_ == Phase::kStart) {
      if (token == thinking_->answer().behind.open_token) {
        phase_ = Phase::kThinking;
        return true;
      }
      begin_form({});
      return false;
    }
    const std::string_view mark = thinking_->answer().behind.close;
    const std::string_view bytes = thinking_->bytes_of(token);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      matched_ = matched_with(mark, matched_, bytes[i]);
      if (matched_ < mark.size()) continue;
      // No mask allows what goes on behind the mark.
      lost_ = i + 1 < bytes.size();
      begin_form({});
      return true;
    }
    return true;
  }

  const std::shared_ptr<const Thinking> thinking_;
  Phase phase_;
  std::size_t matched_ = 0;                      // bytes of the closing mark
  std::unique_ptr<request::TokenMatcher> form_;  // null: it has not begun
  bool lost_ = false;
};

class ThinkingConstraint final : public request::Constraint {
 public:
  explicit ThinkingConstraint(std::shared_ptr<const Thinking> thinking)
      : thinking_(std::move(thinking)) {}

  const request::ConstraintText& text() const override { return thinking_->answer().text; }
  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output) const override {
    return std::make_unique<ThinkingMatcher>(thinking_, std::move(output));
  }

 private:
  const std::shared_ptr<const Thinking> thinking_;
};

}  // namespace

request::ConstraintText to_constraint(const BehindThinking& behind) {
  const Json form = {{"kind", static_cast<int>(behind.form.kind)}, {"text", behind.form.text}};
  const Json all = {{kBehindThinking, form},
                    {"open", behind.open},
                    {"close", behind.close},
                    {"open_token", behind.open_token},
                    {"close_token", behind.close_token},
                    {"thinks", behind.thinks}};
  return {ConstraintKind::kCallsInText,
          all.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)};
}

std::optional<BehindThinking> parse_behind_thinking(const std::string& text) {
  const Json all = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [](const Json& object, const char* name, Json::value_t type) {
    const auto at = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && at != object.end() && at->type() == type;
  };
  const auto number = [](const Json& object, const char* name, std::int64_t otherwise) {
    const auto at = object.find(name);
    return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : otherwise;
  };
  if (!has(all, kBehindThinking, Json::value_t::object)) return {};
  const Json& form = all[kBehindThinking];
  const std::int64_t kind = number(form, "kind", -1);
  constexpr auto kLast = static_cast<std::int64_t>(ConstraintKind::kStructuralTag);
  if (kind < 0 || kind > kLast || !has(form, "text", Json::value_t::string)) return {};
  BehindThinking out{.form = {static_cast<ConstraintKind>(kind), form["text"].get<std::string>()}};
  for (const auto& [name, mark] : {std::pair{"open", &out.open}, std::pair{"close", &out.close}}) {
    if (has(all, name, Json::value_t::string)) *mark = all[name].get<std::string>();
    if (!marks_thinking(*mark)) return {};
  }
  for (const auto& [name, token] :
       {std::pair{"open_token", &out.open_token}, std::pair{"close_token", &out.close_token}}) {
    const std::int64_t given = number(all, name, -1);
    *token = given >= 0 && given <= INT32_MAX ? static_cast<TokenId>(given) : TokenId{-1};
  }
  out.thinks = has(all, "thinks", Json::value_t::boolean) && all["thinks"].get<bool>();
  return out;
}

Thoughtful think_before(ThinkingAnswer answer) {
  auto thinking = std::make_shared<const Thinking>(std::move(answer));
  const std::size_t bytes = thinking->bytes();
  return {std::make_shared<ThinkingConstraint>(std::move(thinking)), bytes};
}

}  // namespace causeway::grammar
