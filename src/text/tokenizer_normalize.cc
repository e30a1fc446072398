#include "text/tokenizer_normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "text/bpe_model.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

// A real normaliser writes at most 3 bytes for one; chains of hostile ones grow without end.
constexpr std::size_t kGrowthMax = 16;
constexpr std::size_t kGrowthAlways = std::size_t{64} << 10;

// Characters that NFC leaves alone and that never join the character before them. A selection:
// others take the slow way and come out right as well.
bool is_inert(char32_t code) {
  struct CodeRange {
    char32_t first, last;
  };
  static constexpr CodeRange kInert[] = {
      {0x0000, 0x02FF}, {0x0400, 0x0482}, {0x048A, 0x052F}, {0x2010, 0x2027},  {0x2030, 0x205E},
      {0x2500, 0x25FF}, {0x3001, 0x3029}, {0x3041, 0x3096}, {0x30A1, 0x30FA},  {0x3400, 0x4DBF},
      {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFF01, 0xFF60}, {0x1F300, 0x1FAFF}};
  return std::any_of(std::begin(kInert), std::end(kInert),
                     [code](CodeRange range) { return code >= range.first && code <= range.last; });
}

utf8proc_propval_t combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

// Sorts a run of marks by combining class, equal ones as they stand. (clang refuses
// std::stable_sort of this standard library, which calls a deprecated function.)
void order_run(std::vector<utf8proc_int32_t>::iterator begin,
               std::vector<utf8proc_int32_t>::iterator end) {
  struct Mark {
    utf8proc_propval_t combining_class;
    std::ptrdiff_t place;
    utf8proc_int32_t code;
  };
  if (end - begin < 2) return;
  std::vector<Mark> marks;
  for (auto at = begin; at != end; ++at) marks.push_back({combining_class(*at), at - begin, *at});
  std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
    return std::tie(a.combining_class, a.place) < std::tie(b.combining_class, b.place);
  });
  std::transform(marks.begin(), marks.end(), begin, [](const Mark& mark) { return mark.code; });
}

// utf8proc's own ordering swaps neighbours, which takes minutes for a megabyte of unsorted marks.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto at = codes.begin(); at != codes.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end =
        std::find_if(at, codes.end(), [](auto code) { return combining_class(code) == 0; });
    order_run(at, end);
    at = end;
  }
}

Error too_long(std::size_t bytes_max) {
  return exhausted("the tokenizer's normalizer makes the text longer than " +
                   std::to_string(bytes_max) + " bytes");
}

Status replace_all(const Normalizer::Replace& step, std::string_view text, std::size_t bytes_max,
                   std::string& out) {
  std::vector<Range> matches;
  CAUSEWAY_TRY(step.pattern.find_all(text, matches));
  out.clear();
  std::size_t done = 0;
  for (const Range match : matches) {
    out.append(text.substr(done, match.begin - done)).append(step.content);
    done = match.end;
    if (out.size() > bytes_max) {
      return too_long(bytes_max);
    }
  }
  out.append(text.substr(done));
  return {};
}

}  // namespace

void append_normal_form(std::string_view text, bool compatible, bool compose, std::string& out) {
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  while (!text.empty()) {
    const Utf8Unit unit = first_unit(text);
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code), parts,
                                               std::size(parts), options, &boundary);
    if (count > 0 && count <= static_cast<utf8proc_ssize_t>(std::size(parts))) {
      codes.insert(codes.end(), parts, parts + count);
    } else {
      codes.push_back(static_cast<utf8proc_int32_t>(unit.code));
    }
    text.remove_prefix(unit.size);
  }
  order_marks(codes);
  auto length = static_cast<utf8proc_ssize_t>(codes.size());
  if (compose) length = utf8proc_normalize_utf32(codes.data(), length, options);
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(static_cast<char32_t>(codes[i]), out);
}

bool compose_nfc(std::string_view text, std::string& out) {
  std::size_t done = 0;   // text before it is in `out`
  std::size_t start = 0;  // where the last inert character began
  std::size_t at = 0;
  bool slow = false;  // the characters since `start` need composing
  out.clear();
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const Utf8Unit unit = byte < 0x80 ? Utf8Unit{Utf8Unit::Kind::kCharacter, 1, byte}
                                      : first_unit(text.substr(at, 4));
    if (unit.code < 0x300 || is_inert(unit.code)) {
      if (slow) {
        out.append(text.substr(done, start - done));
        append_normal_form(text.substr(start, at - start), false, true, out);
        done = at;
        slow = false;
      }
      start = at;
    } else {
      slow = true;
    }
    at += unit.size;
  }
  if (slow) {
    out.append(text.substr(done, start - done));
    append_normal_form(text.substr(start), false, true, out);
    done = text.size();
  }
  if (done == 0) return false;
  out.append(text.substr(done));
  return out != text;
}

namespace {

// Each sets `out`, which is empty before, to `text` after the step. What can grow beyond
// `bytes_max` stops there.
Status run(Normalizer::Nfc, std::string_view text, std::size_t, std::string& out) {
  if (!compose_nfc(text, out)) out.assign(text);
  return {};
}

Status run(Normalizer::Form step, std::string_view text, std::size_t, std::string& out) {
  append_normal_form(text, step.compatible, step.compose, out);
  return {};
}

Status run(Normalizer::StripAccents, std::string_view text, std::size_t, std::string& out) {
  append_without_marks(text, MarkKind::kAny, out);
  return {};
}

Status run(Normalizer::Lowercase, std::string_view text, std::size_t, std::string& out) {
  append_lowercase(text, out);
  return {};
}

Status run(Normalizer::Bert step, std::string_view text, std::size_t, std::string& out) {
  append_bert_cleaned(text, step.clean_text, step.chinese, out);
  if (step.strip_accents) {
    const std::string cleaned = std::exchange(out, {});
    std::string decomposed;
    append_normal_form(cleaned, false, false, decomposed);
    append_without_marks(decomposed, MarkKind::kNonSpacing, out);
  }
  if (step.lowercase) {
    const std::string before = std::exchange(out, {});
    append_lowercase(before, out);
  }
  return {};
}

Status run(Normalizer::Strip step, std::string_view text, std::size_t, std::string& out) {
  const std::size_t end = step.right ? white_space_begin(text, text.size(), 0) : text.size();
  const std::size_t begin = step.left ? std::min(white_space_end(text, 0), end) : 0;
  out.assign(text.substr(begin, end - begin));
  return {};
}

Status run(const Normalizer::Prepend& step, std::string_view text, std::size_t, std::string& out) {
  if (!text.empty()) out.assign(step.text).append(text);
  return {};
}

Status run(Normalizer::ByteLevel, std::string_view text, std::size_t, std::string& out) {
  for (const char c : text) append_utf8(spelling_of_byte(static_cast<unsigned char>(c)), out);
  return {};
}

Status run(const Normalizer::Replace& step, std::string_view text, std::size_t bytes_max,
           std::string& out) {
  return replace_all(step, text, bytes_max, out);
}

Status run(const Charsmap& step, std::string_view text, std::size_t bytes_max, std::string& out) {
  step.apply(text, bytes_max, out);
  return {};
}

}  // namespace

Result<std::string_view> Normalizer::apply(std::string_view text, std::string& buffer) const {
  const std::size_t bytes_max = kGrowthAlways + kGrowthMax * text.size();
  std::string next;
  for (const Step& step : steps_) {
    if (std::holds_alternative<Nfc>(step) && !compose_nfc(text, next)) continue;
    next.clear();
    const Status done =
        std::visit([&](const auto& s) { return run(s, text, bytes_max, next); }, step);
    CAUSEWAY_TRY(done);
    if (next.size() > bytes_max) return too_long(bytes_max);
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

}  // namespace causeway::text
