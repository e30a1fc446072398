#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize_pattern.h"

#include <pcre2.h>

#include "text/utf8.h"

namespace causeway::text {
namespace {

constexpr std::size_t kExpressionBytesMax = 16 * 1024;
// Steps of backtracking from one position; Oniguruma's own limit for a search is the same number.
constexpr std::uint32_t kBacktracksMax = 10'000'000;
constexpr std::uint32_t kHeapKibMax = 64 * 1024;

std::string pcre_message(int error) {
  PCRE2_UCHAR text[160] = {};
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

pcre2_code* code_of(void* pointer) { return static_cast<pcre2_code*>(pointer); }
pcre2_match_context* context_of(void* pointer) {
  return static_cast<pcre2_match_context*>(pointer);
}

struct MatchData {
  MatchData() : data(pcre2_match_data_create(1, nullptr)) {}
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(data); }
  pcre2_match_data* data;
};

struct CompileContext {
  CompileContext() : context(pcre2_compile_context_create(nullptr)) {}
  CompileContext(const CompileContext&) = delete;
  CompileContext& operator=(const CompileContext&) = delete;
  ~CompileContext() { pcre2_compile_context_free(context); }
  pcre2_compile_context* context;
};

// Matches at or after `from`: pcre2_match's result.
int match_once(void* code, void* context, std::string_view text, std::size_t from,
               pcre2_match_data* data) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const std::uint32_t options = PCRE2_NO_UTF_CHECK;  // encode has checked
  int found =
      pcre2_match(code_of(code), subject, text.size(), from, options, data, context_of(context));
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    // The interpreter keeps its frames in memory that is limited too, but larger.
    found = pcre2_match(code_of(code), subject, text.size(), from, options | PCRE2_NO_JIT, data,
                        context_of(context));
  }
  return found;
}

}  // namespace

Pattern::Code::~Code() {
  pcre2_code_free(code_of(code));
  pcre2_match_context_free(context_of(context));
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Result<Pattern> Pattern::regex(std::string_view oniguruma) {
  if (oniguruma.size() > kExpressionBytesMax) {
    return unsupported("a regular expression of " + std::to_string(oniguruma.size()) +
                       " bytes; at most " + std::to_string(kExpressionBytesMax) + " are allowed");
  }
  CAUSEWAY_ASSIGN(const std::string expression, pcre_from_oniguruma(oniguruma));
  const CompileContext settings;
  auto compiled = std::make_unique<Code>();
  compiled->context = pcre2_match_context_create(nullptr);
  if (settings.context == nullptr || compiled->context == nullptr) {
    return exhausted("no memory for a regular expression");
  }
  pcre2_set_newline(settings.context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Ruby's ^ and $ stand at every line.
  const std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                 options, &error, &offset, settings.context);
  if (compiled->code == nullptr) {
    return unsupported("regular expression '" + expression + "': " + pcre_message(error) +
                       " at byte " + std::to_string(offset));
  }
  pcre2_set_match_limit(context_of(compiled->context), kBacktracksMax);
  pcre2_set_heap_limit(context_of(compiled->context), kHeapKibMax);
  // Without JIT (a hardened kernel may forbid it) the interpreter gives the same matches, slower.
  pcre2_jit_compile(code_of(compiled->code), PCRE2_JIT_COMPLETE);
  Pattern pattern;
  pattern.code_ = std::move(compiled);
  return pattern;
}

Status Pattern::find_all(std::string_view text, std::vector<Range>& matches) const {
  if (code_ != nullptr) return find_all_regex(text, matches);
  if (literal_.empty()) return {};
  for (std::size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    matches.push_back({at, at + literal_.size()});
  }
  return {};
}

Status Pattern::find_all_regex(std::string_view text, std::vector<Range>& matches) const {
  const MatchData result;
  if (result.data == nullptr) return exhausted("no memory to match a regular expression");
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(result.data);
  std::size_t from = 0;
  std::size_t last_end = text.size() + 1;  // of the last match; no match yet
  while (from <= text.size()) {
    const int rc = match_once(code_->code, code_->context, text, from, result.data);
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      return exhausted("splitting the text into words: " + pcre_message(rc) + " at byte " +
                       std::to_string(from) + "; the tokenizer's regular expression is too slow");
    }
    if (found[0] > found[1] || found[0] < from)
      return unsupported("a match that ends before it starts");
    if (found[0] == found[1] && found[1] == last_end) {
      // An empty match right behind a match does not count (Oniguruma): search one character on.
      if (from == text.size()) break;
      from += utf8_length(static_cast<unsigned char>(text[from]));
      continue;
    }
    matches.push_back({found[0], found[1]});
    from = last_end = found[1];
  }
  return {};
}

}  // namespace causeway::text
