// Oniguruma's expressions rewritten for PCRE2: see pretokenize_pattern.h.
#include <algorithm>
#include <cctype>
#include <utility>

#include "text/pretokenize_pattern.h"

namespace causeway::text {
namespace {

class Rewriter {
 public:
  explicit Rewriter(std::string_view in) : in_(in) {}

  Result<std::string> run() {
    if (in_.starts_with("(*")) return refuse("(*VERB)");
    while (at_ < in_.size()) CAUSEWAY_TRY(in_class_ ? class_item() : item());
    // PCRE2 finds what is not closed.
    return std::move(out_);
  }

 private:
  Error refuse(std::string_view construct) const {
    return unsupported("regular expression '" + std::string(in_) + "': " + std::string(construct) +
                       " at byte " + std::to_string(at_) + " is not supported");
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void copy(std::size_t size) {
    out_.append(in_.substr(at_, size));
    at_ = std::min(at_ + size, in_.size());
  }

  Status item() {
    const char c = in_[at_];
    if (c == '\\') return escape();
    if (c == '[') return open_class();
    if (next_is("(?")) return group();
    if (next_is("(*")) return refuse("(*VERB)");
    if (next_is("}+")) return refuse("a possessive interval");  // Ruby: repeated, not possessive
    copy(1);
    return {};
  }

  Status open_class() {
    if (is_nested()) {
      CAUSEWAY_ASSIGN(const std::string atom, nested_class(0));
      out_.append(atom);
      return {};
    }
    in_class_ = true;
    copy(next_is("[^") ? 2 : 1);
    if (next_is("]")) return refuse("']' first in a class");
    return {};
  }

  // The class that starts here has one inside or an intersection.
  bool is_nested() const {
    for (std::size_t i = at_ + 1; i < in_.size() && in_[i] != ']'; ++i) {
      if (in_[i] == '[' || in_.substr(i).starts_with("&&")) return true;
      if (in_[i] == '\\') ++i;
    }
    return false;
  }

  // PCRE2 has flat classes only. A union becomes alternatives, an intersection looks ahead with all
  // of its operands but the last, and what is negated must not be ahead of any character:
  //   [a-z&&[^aeiou]] -> (?:(?=[a-z])(?:(?!(?:[aeiou]))\p{Any}))
  Result<std::string> nested_class(int depth) {
    constexpr int kDepthMax = 16;
    if (depth > kDepthMax) return refuse("a class 16 classes deep");
    // What a negated class is when letters fold the two engines decide differently.
    if (in_.find("(?i") != std::string_view::npos) return refuse("a class inside a class and (?i)");
    const bool negated = in_.substr(at_ + 1).starts_with("^");
    at_ += negated ? 2 : 1;
    if (next_is("]")) return refuse("']' first in a class");
    std::string ahead;  // the operands before the last
    std::string members;
    for (;;) {
      CAUSEWAY_TRY(class_member(depth, members));
      const bool more = next_is("&&");
      if (at_ >= in_.size()) return refuse("'[' without ']'");
      if (!more && !next_is("]")) continue;
      if (members.empty()) return refuse("an intersection with nothing");
      at_ += more ? 2 : 1;
      if (!more) break;
      if (next_is("]")) return refuse("an intersection with nothing");
      ahead.append("(?=" + std::exchange(members, {}) + ")");
    }
    const std::string all = "(?:" + ahead + "(?:" + members + "))";
    return negated ? "(?:(?!" + all + ")\\p{Any})" : all;
  }

  // Appends an alternative: a class inside, or what stands flat up to the next one.
  Status class_member(int depth, std::string& members) {
    if (next_is("&&") || next_is("]")) return {};
    std::string member;
    if (next_is("[") && !next_is("[:")) {
      CAUSEWAY_ASSIGN(member, nested_class(depth + 1));
    } else {
      const std::string before = std::exchange(out_, next_is("^") ? "[\\" : "[");
      in_class_ = true;
      while (at_ < in_.size() && !next_is("]") && !next_is("&&") &&
             (!next_is("[") || next_is("[:"))) {
        CAUSEWAY_TRY(class_item());
      }
      in_class_ = false;
      member = std::exchange(out_, before) + "]";
    }
    members.append(members.empty() ? "" : "|").append(member);
    return {};
  }

  Status class_item() {
    if (next_is("\\")) return escape();
    if (next_is("[:")) return refuse("a POSIX class");
    if (next_is("[")) return refuse("a class inside a class");
    if (next_is("&&")) return refuse("an intersection of classes");
    if (next_is("]")) in_class_ = false;
    copy(1);
    return {};
  }

  // Look-around, atomic, named and plain groups mean the same. Of the flags, only `i` does.
  Status group() {
    for (const std::string_view same :
         {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)", "(?-i:", "(?-i)"}) {
      if (next_is(same)) {
        copy(same.size());
        return {};
      }
    }
    if (next_is("(?<") && at_ + 3 < in_.size() &&
        std::isalpha(static_cast<unsigned char>(in_[at_ + 3]))) {
      copy(3);
      return {};
    }
    return refuse("the group '" + std::string(in_.substr(at_, 4)) + "'");
  }

  Status escape() {
    if (at_ + 1 >= in_.size()) return refuse("a final '\\'");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's': return replace(2, "\\p{White_Space}");
      case 'S': return replace(2, "\\P{White_Space}");
      case 'v': return replace(2, "\\x{0B}");
      case 'w': return word(false);
      case 'W': return word(true);
      case 'p':
      case 'P': return property();
      case 'u': return code_unit();
      case 'x':
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e': copy(2); return {};
      case 'A':
      case 'z':
      case 'Z':
        if (in_class_) break;
        copy(2);
        return {};
      default: break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) && !(c >= '1' && c <= '9' && !in_class_)) {
      return refuse("'\\" + std::string(1, c) + "'");
    }
    if (byte >= 0x80) return refuse("an escaped character above ASCII");
    copy(2);
    return {};
  }

  Status replace(std::size_t size, std::string_view with) {
    at_ += size;
    out_.append(with);
    return {};
  }

  // Letters with their marks, decimal digits and connecting punctuation. Outside a class Oniguruma
  // takes what is below U+0100 from a table that has the superscript digits and the fractions too.
  Status word(bool negated) {
    constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    constexpr std::string_view kOfTheTable = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
    if (in_class_ && negated) return refuse("'\\W' in a class");
    if (in_class_) return replace(2, kWord);
    return replace(2, std::string(negated ? "[^" : "[").append(kWord).append(kOfTheTable) + "]");
  }

  // \p{L} and \p{Lu} as they are; anything longer is taken for a script.
  Status property() {
    std::size_t name = at_ + 2;
    if (name >= in_.size() || in_[name] != '{') return refuse("\\p without {…}");
    const std::size_t end = in_.find('}', name);
    if (end == std::string_view::npos) return refuse("\\p{ without }");
    ++name;
    out_.append(in_.substr(at_, 3));
    if (in_[name] == '^') out_.push_back(in_[name++]);
    const std::string_view property = in_.substr(name, end - name);
    for (const char c : property) {
      if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') return refuse("\\p{…}");
    }
    if (property.size() > 2 && property != "Alphabetic" && property != "White_Space") {
      out_.append("sc:");
    }
    out_.append(property).push_back('}');
    at_ = end + 1;
    return {};
  }

  Status code_unit() {
    const std::string_view digits = in_.substr(std::min(at_ + 2, in_.size()), 4);
    if (digits.size() < 4) return refuse("\\u without four digits");
    for (const char c : digits) {
      if (!std::isxdigit(static_cast<unsigned char>(c))) return refuse("\\u without four digits");
    }
    return replace(6, "\\x{" + std::string(digits) + "}");
  }

  std::string_view in_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> pcre_from_oniguruma(std::string_view expression) {
  return Rewriter(expression).run();
}

}  // namespace causeway::text
