#include "request/banned_words.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace causeway::request {
namespace {

constexpr std::int64_t kBanVocabularyMax = std::int64_t{1} << 22;
constexpr std::size_t kBannedWordsMax = 4096;
constexpr std::size_t kBannedWordTokensMax = 1024;

// "vocabulary;1,2,3;4,5"
std::string text_of(const BannedWords& banned) {
  std::string text = std::to_string(banned.vocab);
  for (const std::vector<TokenId>& word : banned.words) {
    char separator = ';';
    for (const TokenId token : word) {
      text.append(1, std::exchange(separator, ',')).append(std::to_string(token));
    }
  }
  return text;
}

class BannedWordsMatcher final : public TokenMatcher {
 public:
  BannedWordsMatcher(std::shared_ptr<const BannedWords> banned, std::vector<TokenId> output)
      : banned_(std::move(banned)), output_(std::move(output)) {
    const auto vocab = static_cast<std::size_t>(banned_->vocab);
    mask_.assign((vocab + 31) / 32, ~std::uint32_t{0});
    if (vocab % 32 != 0) mask_.back() = (std::uint32_t{1} << (vocab % 32)) - 1;
    for (const auto& word : banned_->words) longest_ = std::max(longest_, word.size());
    forget();
    ban();
  }

  MaskState wait(Nanos /*longest*/) override {
    const bool some = std::any_of(mask_.begin(), mask_.end(), [](auto word) { return word != 0; });
    return some ? MaskState::kReady : MaskState::kImpossible;
  }

  std::span<const std::uint32_t> mask() const override { return mask_; }

  void advance(TokenId token) override {
    output_.push_back(token);
    forget();
    for (const TokenId last : std::exchange(last_, {})) word_of(last) |= bit_of(last);
    ban();
  }

 private:
  std::uint32_t& word_of(TokenId token) { return mask_[static_cast<std::size_t>(token) / 32]; }
  static std::uint32_t bit_of(TokenId token) { return std::uint32_t{1} << (token % 32); }

  // No word looks back farther than this.
  void forget() {
    if (output_.size() < longest_) return;
    output_.erase(output_.begin(), output_.end() - static_cast<std::ptrdiff_t>(longest_ - 1));
  }

  void ban() {
    for (const std::vector<TokenId>& word : banned_->words) {
      if (word.size() > output_.size() + 1) continue;
      const auto before = output_.end() - static_cast<std::ptrdiff_t>(word.size() - 1);
      if (!std::equal(before, output_.end(), word.begin())) continue;
      last_.push_back(word.back());
      word_of(word.back()) &= ~bit_of(word.back());
    }
  }

  const std::shared_ptr<const BannedWords> banned_;
  std::vector<TokenId> output_;  // the end of it
  std::size_t longest_ = 0;      // of the words, in tokens
  std::vector<TokenId> last_;    // that the mask forbids
  std::vector<std::uint32_t> mask_;
};

class BannedWordsConstraint final : public Constraint {
 public:
  explicit BannedWordsConstraint(BannedWords banned)
      : text_{ConstraintKind::kBannedWords, text_of(banned)},
        banned_(std::make_shared<const BannedWords>(std::move(banned))) {}

  const ConstraintText& text() const override { return text_; }
  std::unique_ptr<TokenMatcher> begin(std::vector<TokenId> output) const override {
    return std::make_unique<BannedWordsMatcher>(banned_, std::move(output));
  }

 private:
  const ConstraintText text_;
  const std::shared_ptr<const BannedWords> banned_;
};

// Takes a number and the character behind it ('\0' at the end) off the beginning of `text`.
Result<std::int64_t> take_number(std::string_view& text, char& behind) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return invalid_argument("banned words: not a number");
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  behind = text.empty() ? '\0' : text.front();
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

Status check_banned(const BannedWords& banned) {
  if (banned.vocab < 1 || banned.vocab > kBanVocabularyMax) {
    return invalid_argument("banned words: no vocabulary has " + std::to_string(banned.vocab) +
                            " tokens");
  }
  if (banned.words.empty() || banned.words.size() > kBannedWordsMax) {
    return invalid_argument("banned words: " + std::to_string(banned.words.size()) +
                            " of them; 1 to " + std::to_string(kBannedWordsMax) + " are taken");
  }
  for (const std::vector<TokenId>& word : banned.words) {
    const bool known = std::all_of(word.begin(), word.end(), [&](TokenId token) {
      return token >= 0 && token < banned.vocab;
    });
    if (word.empty() || word.size() > kBannedWordTokensMax || !known) {
      return invalid_argument("banned words: one has " + std::to_string(word.size()) +
                              " tokens, or some that the model has not; 1 to " +
                              std::to_string(kBannedWordTokensMax) + " are taken");
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Constraint>> ban_words(BannedWords banned) {
  CAUSEWAY_TRY(check_banned(banned));
  return std::shared_ptr<const Constraint>(
      std::make_shared<BannedWordsConstraint>(std::move(banned)));
}

Result<BannedWords> parse_banned_words(std::string_view text) {
  BannedWords banned;
  char behind = '\0';
  CAUSEWAY_ASSIGN(banned.vocab, take_number(text, behind));
  if (behind != ';') return invalid_argument("banned words: none behind the vocabulary");
  banned.words.emplace_back();
  while (behind != '\0') {
    CAUSEWAY_ASSIGN(const std::int64_t token, take_number(text, behind));
    if (token < 0 || token >= kBanVocabularyMax) {
      return invalid_argument("banned words: " + std::to_string(token) + " is no token");
    }
    banned.words.back().push_back(static_cast<TokenId>(token));
    if (behind == ';') banned.words.emplace_back();
    if (behind != ';' && behind != ',' && behind != '\0') {
      return invalid_argument("banned words: tokens are separated by ',' and ';'");
    }
  }
  CAUSEWAY_TRY(check_banned(banned));
  return banned;
}

}  // namespace causeway::request
