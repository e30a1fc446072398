// Any bytes as the form of an answer: checked, compiled by XGrammar, and followed for a few tokens,
// each of which its mask must allow. The first byte picks the kind, the next ones the tokens.
//
// Compiling takes time that strangers decide, which the server bounds by a deadline; here the
// limits are a small part of its own, so that what runs into the fuzzer's time limit is a finding.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "grammar/check_constraint.h"
#include "grammar/compile.h"

namespace causeway::grammar {
namespace {

constexpr ConstraintLimits kLimits = {
    .bytes_max = 2048, .depth_max = 8, .count_max = 32, .expanded_max = 512};
constexpr TokenId kEnd = 264;

std::shared_ptr<const TokenTable> byte_table() {
  auto table = std::make_shared<TokenTable>();
  for (int byte = 0; byte < 256; ++byte) table->bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"{\"", "\":", "\",", "true", "[{", "}]", "null", "\xC3\xA9"}) {
    table->bytes.emplace_back(word);
  }
  table->bytes.emplace_back();  // the end, which no grammar writes
  table->end = {kEnd};
  return table;
}

class Fixture {
 public:
  Fixture() : pool_(std::make_shared<WorkPool>(WorkPoolOptions{.late = seconds(60)}, clock_)) {
    auto prepared = prepare_tokens(*byte_table());
    CAUSEWAY_CHECK(prepared.ok(), prepared.error().message);
    tokens_ = std::move(prepared).value();
  }
  Result<Compiled> compile(request::ConstraintText text) const {
    return grammar::compile(tokens_, std::move(text), pool_);
  }

 private:
  const RealClock clock_;
  std::shared_ptr<WorkPool> pool_;
  std::shared_ptr<const PreparedTokens> tokens_;
};

// The `nth` token that the mask allows, cyclically; -1: it allows none.
TokenId pick(std::span<const std::uint32_t> mask, std::size_t nth) {
  if (mask.empty()) return static_cast<TokenId>(nth % (kEnd + 1));
  std::array<TokenId, kEnd + 1> allowed;
  std::size_t count = 0;
  for (TokenId token = 0; token <= kEnd; ++token) {
    const auto at = static_cast<std::size_t>(token);
    if ((mask[at / 32] >> (at % 32) & 1) != 0) allowed[count++] = token;
  }
  return count == 0 ? -1 : allowed[nth % count];
}

void follow(const request::Constraint& constraint, std::string_view choices) {
  const auto matcher = constraint.begin({});
  for (const char choice : choices) {
    const request::MaskState state = matcher->wait(seconds(8));
    CAUSEWAY_CHECK(state != request::MaskState::kComputing, "a mask takes longer than 8 s");
    // A form that no text of this vocabulary has, or a token that can only lead to such a place.
    if (state == request::MaskState::kImpossible) return;
    const TokenId token = pick(matcher->mask(), static_cast<unsigned char>(choice));
    CAUSEWAY_CHECK(token >= 0, "a mask that is ready allows a token");
    if (token == kEnd) return;
    matcher->advance(token);
  }
  // What the last token began uses the matcher's pool, not the input.
}

void fuzz(const Fixture& fixture, std::uint8_t which, std::string_view choices,
          std::string_view text) {
  constexpr auto kKinds = std::to_array(
      {request::ConstraintKind::kJson, request::ConstraintKind::kJsonSchema,
       request::ConstraintKind::kRegex, request::ConstraintKind::kGrammar,
       request::ConstraintKind::kStructuralTag, request::ConstraintKind::kCallsInText});
  const request::ConstraintKind kind = kKinds[which % kKinds.size()];
  request::ConstraintText form{kind, std::string(text)};
  const Status status = check_constraint(form, kLimits);
  if (!status.ok()) {
    CAUSEWAY_CHECK(!status.error().message.empty());
    return;
  }
  const auto compiled = fixture.compile(form);
  if (!compiled.ok()) {
    CAUSEWAY_CHECK(!compiled.error().message.empty() && compiled.error().message.size() < 2000);
    return;
  }
  CAUSEWAY_CHECK(compiled->constraint->text() == form);
  follow(*compiled->constraint, choices);
}

}  // namespace
}  // namespace causeway::grammar

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::grammar;  // NOLINT: the fuzzer's entry must be global
  constexpr std::size_t kChoices = 8;
  if (!available() || size < 1 + kChoices) return 0;
  // Left to the end of the process, with its threads.
  static const Fixture& fixture = *std::make_unique<Fixture>().release();
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  fuzz(fixture, data[0], all.substr(1, kChoices), all.substr(1 + kChoices));
  return 0;
}
