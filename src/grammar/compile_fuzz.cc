// Any bytes as the form of an answer, and changes of forms of every kind (edited_file.h): checked,
// compiled by XGrammar, and followed for a few tokens, each of which its mask must allow. The first
// byte picks the kind, the next ones the tokens.
//
// Compiling takes time that strangers decide, which the server bounds by a deadline; here the
// limits are a small part of its own, so that what runs into the fuzzer's time limit is a finding.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/testing/edited_file.h"
#include "grammar/behind_thinking.h"
#include "grammar/check_constraint.h"
#include "grammar/compile.h"

namespace causeway::grammar {
namespace {

constexpr ConstraintLimits kLimits = {
    .bytes_max = 2048, .depth_max = 10, .count_max = 32, .expanded_max = 512};
constexpr TokenId kEnd = 264;

const std::vector<std::string> kSchemas = {
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "id": {"type":
 "string", "pattern": "^[a-z]+$"}, "size": {"enum": ["s", "l", 1, null]}, "tags": {"type":
 "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}},
 "required": ["name"], "additionalProperties": false})",
    R"({"$defs": {"n": {"type": "integer", "minimum": -5, "maximum": 99}}, "anyOf": [{"$ref":
 "#/$defs/n"}, {"type": "array", "prefixItems": [{"const": "a"}, {"type": "number"}]}, {"type":
 "object", "additionalProperties": {"type": "string", "format": "date"}}]})"};
const std::vector<std::string> kRegexes = {"[a-c]{2,5}-x?", "(yes|no)( [0-9]+)*",
                                           "\\d{4}-[^a-c]|\\w\\.",
                                           "[^\xC3\xA9]{1,3}[\\s\\u{1F600}-\\u{1F64F}]*"};
const std::vector<std::string> kGrammars = {
    "root ::= \"<\" inner \">\"\ninner ::= \"a\" | \"(\" inner \")\" | [b-d]+\n",
    "root ::= (item \", \")* item # a list\nitem ::= [^\\n\\x41-\\x5a]{1,3} | \"\"\n"};
const std::vector<std::string> kTags = {
    R"({"type": "structural_tag", "format": {"type": "tags_with_separator", "tags": [{"type": "tag",
 "begin": "<tool_call>\n{\"name\": \"f\", \"arguments\": ", "content": {"type": "json_schema",
 "json_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}, "end":
 "}\n</tool_call>"}], "separator": "\n", "at_least_one": true, "stop_after_first": false}})",
    R"({"type": "structural_tag", "format": {"type": "sequence", "elements": [{"type":
 "const_string", "value": "["}, {"type": "or", "elements": [{"type": "const_string", "value": "a"},
 {"type": "tag", "begin": "b", "content": {"type": "json_schema", "json_schema": {}}, "end": ""}]},
 {"type": "const_string", "value": "]"}]}})"};
const std::vector<std::string> kCalls = {
    R"({"mark": "<tool_call>", "begins": ["{\"name\": \"f\", \"arguments\": "], "call": {"type":
 "structural_tag", "format": {"type": "tag", "begin": "{\"name\": \"f\", \"arguments\": ",
 "content": {"type": "json_schema", "json_schema": {"type": "object"}}, "end":
 "}</tool_call>"}}})",
    R"({"behind_thinking": {"kind": 2, "text": "[ab]{2}"}, "open": "<t>", "close": "</t>",
 "open_token": 7, "close_token": -1, "thinks": false})"};
const std::vector<std::string> kNothing = {""};
constexpr std::string_view kWords[] = {"string",
                                       "integer",
                                       "object",
                                       "array",
                                       "required",
                                       "allOf",
                                       "oneOf",
                                       "not",
                                       "$ref",
                                       "#",
                                       "#/$defs/n",
                                       "pattern",
                                       "patternProperties",
                                       "propertyNames",
                                       "minLength",
                                       "multipleOf",
                                       "exclusiveMinimum",
                                       "uniqueItems",
                                       "format",
                                       "root",
                                       " ::= ",
                                       "{1,32}",
                                       "(?:",
                                       "(?=",
                                       "\\\\p{L}",
                                       "[^",
                                       "\\u{10FFFF}",
                                       "\xC3\xA9",
                                       "*",
                                       "|",
                                       "triggered_tags",
                                       "any_text",
                                       "const_string"};

const std::vector<std::string>& files_of(request::ConstraintKind kind) {
  switch (kind) {
    case request::ConstraintKind::kJsonSchema: return kSchemas;
    case request::ConstraintKind::kRegex: return kRegexes;
    case request::ConstraintKind::kGrammar: return kGrammars;
    case request::ConstraintKind::kStructuralTag: return kTags;
    case request::ConstraintKind::kCallsInText: return kCalls;
    default: return kNothing;
  }
}

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
          std::string_view input) {
  constexpr auto kKinds = std::to_array(
      {request::ConstraintKind::kJson, request::ConstraintKind::kJsonSchema,
       request::ConstraintKind::kRegex, request::ConstraintKind::kGrammar,
       request::ConstraintKind::kStructuralTag, request::ConstraintKind::kCallsInText});
  const request::ConstraintKind kind = kKinds[which % kKinds.size()];
  const auto file = testing::edited_file({files_of(kind), kWords}, input);
  request::ConstraintText form{kind, file.text};
  const Status status = check_constraint(form, kLimits);
  if (!status.ok()) {
    CAUSEWAY_CHECK(!file.whole, status.error().message);
    CAUSEWAY_CHECK(!status.error().message.empty());
    return;
  }
  const auto compiled = fixture.compile(form);
  if (!compiled.ok()) {
    CAUSEWAY_CHECK(!file.whole, compiled.error().message);
    CAUSEWAY_CHECK(!compiled.error().message.empty() && compiled.error().message.size() < 2000);
    return;
  }
  const auto behind = kind == request::ConstraintKind::kCallsInText
                          ? parse_behind_thinking(form.text)
                          : std::nullopt;
  // A form that tells the thinking itself stands for all of it.
  const request::ConstraintText& text = compiled->constraint->text();
  CAUSEWAY_CHECK(text == form || (behind && text == behind->form));
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
