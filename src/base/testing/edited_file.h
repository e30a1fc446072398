// Whole files for fuzz targets of text formats, and changes of them. A fuzzer that begins with
// nothing does not write the names of fields: without these it tests how JSON is read, and nothing
// behind that. So the input says which file is taken, and what becomes of it.
//
//   byte 0          which file, modulo their number and one; the one: what follows is the file
//   4 bytes each    an edit: kind, place (2 bytes), argument
//
// Values are found by their look, so that the files may be of any format whose values are texts in
// quotes, words, numbers and brackets.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace causeway::testing {

struct FileFormat {
  std::span<const std::string> files;       // at least one; the target accepts each as it is
  std::span<const std::string_view> words;  // that files of the format have: names, kinds, marks
};

struct EditedFile {
  std::string text;
  bool whole = false;  // one of the files, as it is
};

namespace edits {

inline constexpr std::size_t kBytesMax = std::size_t{1} << 16;
inline constexpr std::size_t kEditsMax = 64;

inline constexpr std::array<std::string_view, 24> kValues = {"null",
                                                             "true",
                                                             "false",
                                                             "0",
                                                             "-1",
                                                             "1",
                                                             "2",
                                                             "7",
                                                             "0.5",
                                                             "1e-6",
                                                             "1e308",
                                                             "1e999",
                                                             "NaN",
                                                             "2147483648",
                                                             "4294967295",
                                                             "9223372036854775807",
                                                             "-9223372036854775808",
                                                             "\"\"",
                                                             "\"a\"",
                                                             "\"\\u0000\"",
                                                             "\"\\ud800\"",
                                                             "\"\xC3\xA9\"",
                                                             "[]",
                                                             "{}"};

inline bool is_gap(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == ',' || c == ':' || c == ']' ||
         c == '}';
}

struct Range {
  std::size_t begin = 0, end = 0;

  std::size_t size() const { return end - begin; }
};

inline std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

inline std::size_t end_of_value(std::string_view text, std::size_t at) {
  if (text[at] == '"') return end_of_quoted(text, at);
  if (text[at] != '{' && text[at] != '[') {
    while (at < text.size() && !is_gap(text[at])) ++at;
    return at;
  }
  for (int depth = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_quoted(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

// The value at `place` or behind it, empty where there is none.
inline Range value_at(std::string_view text, std::size_t place) {
  std::size_t at = std::min(place, text.size());
  while (at < text.size() && is_gap(text[at])) ++at;
  if (at == text.size()) return {at, at};
  return {at, end_of_value(text, at)};
}

struct Edit {
  std::uint8_t kind = 0;
  std::size_t place = 0;
  std::uint8_t argument = 0;
};

inline std::string word_of(const FileFormat& format, std::uint8_t number) {
  return format.words.empty() ? "a" : std::string(format.words[number % format.words.size()]);
}

inline std::string value_of(std::uint8_t number) {
  return std::string(kValues[number % kValues.size()]);
}

// Nothing, where the file would be too long then.
inline void replace(std::string& text, Range range, std::string_view by) {
  if (text.size() - range.size() + by.size() > kBytesMax) return;
  text.replace(range.begin, range.size(), by);
}

inline void replace_by_word(const FileFormat& format, std::string& text, Range value,
                            std::uint8_t number) {
  const std::string word = word_of(format, number);
  const bool quoted = value.size() > 0 && text[value.begin] == '"';
  replace(text, value, quoted ? '"' + word + '"' : word);
}

// A member of the object that begins at `place` or behind it.
inline void add_member(const FileFormat& format, std::string& text, const Edit& edit) {
  const std::size_t open = text.find('{', edit.place);
  if (open == std::string::npos) return;
  const std::string member = '"' + word_of(format, edit.argument) +
                             "\":" + value_of(static_cast<std::uint8_t>(edit.argument / 7));
  const bool alone = open + 1 < text.size() && text[open + 1] == '}';
  replace(text, {open + 1, open + 1}, alone ? member : member + ',');
}

// With the comma behind it, or in front of it.
inline void erase_value(std::string& text, Range value) {
  if (value.end < text.size() && text[value.end] == ',') {
    ++value.end;
  } else if (value.begin > 0 && text[value.begin - 1] == ',') {
    --value.begin;
  }
  text.erase(value.begin, value.size());
}

inline std::string nested(std::string_view value, std::size_t depth) {
  return std::string(depth, '[') + std::string(value) + std::string(depth, ']');
}

inline void apply(const FileFormat& format, std::string& text, Edit edit) {
  edit.place %= text.size() + 1;
  const Range value = value_at(text, edit.place);
  const std::string old = text.substr(value.begin, value.size());
  const auto from_file = [&](std::string_view file) {
    const Range other = value_at(file, edit.place * 31 % (file.size() + 1));
    return std::string(file.substr(other.begin, other.size()));
  };
  switch (edit.kind % 12) {
    case 0: return replace(text, value, value_of(edit.argument));
    case 1: return replace_by_word(format, text, value, edit.argument);
    case 2: return add_member(format, text, edit);
    case 3: return erase_value(text, value);
    case 4: return replace(text, value, old + ',' + old);
    case 5: return replace(text, value, from_file(std::string(text)));
    case 6:
      return replace(text, value, from_file(format.files[edit.argument % format.files.size()]));
    case 7: return replace(text, value, nested(old, edit.argument % 80u));
    case 8: return replace(text, value, std::to_string(static_cast<std::int8_t>(edit.argument)));
    case 9: return replace(text, {edit.place, edit.place}, word_of(format, edit.argument));
    case 10:
      return replace(text, {edit.place, std::min(edit.place + 1, text.size())},
                     std::string(1, static_cast<char>(edit.argument)));
    default: text.erase(edit.place, edit.argument + 1u);
  }
}

}  // namespace edits

inline EditedFile edited_file(const FileFormat& format, std::string_view input) {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(input[at]); };
  if (input.empty()) return {format.files[0], true};
  const std::size_t which = byte(0) % (format.files.size() + 1);
  if (which == format.files.size()) return {std::string(input.substr(1)), false};
  EditedFile out{format.files[which], input.size() < 5};
  for (std::size_t at = 1; at + 4 <= input.size() && at < 4 * edits::kEditsMax; at += 4) {
    const std::size_t place = byte(at + 1) * std::size_t{256} + byte(at + 2);
    edits::apply(format, out.text, {byte(at), place, byte(at + 3)});
  }
  return out;
}

}  // namespace causeway::testing
