// The filter `urlize`: words that are addresses become links. What an address is follows the
// expressions of Jinja (utils.py) but for digits and letters of other scripts in ports and numbers.
#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/markup.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

bool is_url_digit(char c) { return c >= '0' && c <= '9'; }
bool is_latin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_url_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool starts_in_any_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && lower(text.substr(0, start.size())) == start;
}

// The bytes up to the first code point that `keeps` refuses.
template <typename Keeps>
std::size_t run_of(std::string_view text, Keeps keeps) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!keeps(point.value)) break;
    at += point.bytes;
  }
  return at;
}

bool in_label(char32_t c) { return is_word(c) || c == '%' || c == '-'; }

// A port, then a path, a query or a fragment, each of which may be left out.
bool is_rest(std::string_view rest) {
  if (rest.starts_with(':')) {
    std::size_t digits = 0;
    while (digits < 5 && digits + 1 < rest.size() && is_url_digit(rest[digits + 1])) ++digits;
    if (digits == 0) return false;
    rest.remove_prefix(digits + 1);
  }
  return rest.empty() || rest[0] == '/' || rest[0] == '?' || rest[0] == '#';
}

bool is_top_domain(std::string_view label) {
  if (starts_in_any_case(label, "xn--")) {
    const std::string_view more = label.substr(4);
    const auto points = code_point_count(more);
    const auto plain = run_of(more, [](char32_t c) { return is_word(c) || c == '%'; });
    if (plain == more.size() && points >= 2 && points <= 59) return true;
  }
  return label.size() >= 2 && label.size() <= 63 &&
         std::all_of(label.begin(), label.end(), is_latin);
}

// Labels with dots between them; `min` code points or more in each but the last.
bool are_labels(std::string_view labels, std::size_t min, std::size_t max) {
  while (true) {
    const std::size_t dot = labels.find('.');
    const std::size_t points = code_point_count(labels.substr(0, dot));
    if (points < min || points > max) return false;
    if (dot == std::string_view::npos) return true;
    labels.remove_prefix(dot + 1);
  }
}

bool is_named_host(std::string_view text, bool with_scheme) {
  const std::size_t end = run_of(text, [](char32_t c) { return in_label(c) || c == '.'; });
  if (!is_rest(text.substr(end))) return false;
  const std::string_view host = text.substr(0, end);
  const std::size_t dot = host.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? host : host.substr(dot + 1);
  if (with_scheme) {
    if (!is_top_domain(last)) return false;
    return dot == std::string_view::npos || are_labels(host.substr(0, dot), 1, host.size());
  }
  constexpr std::array<std::string_view, 8> kKnown = {"com", "net", "int",  "edu",
                                                      "gov", "org", "info", "mil"};
  return dot != std::string_view::npos && are_labels(host.substr(0, dot), 2, 63) &&
         std::find(kKnown.begin(), kKnown.end(), lower(last)) != kKnown.end();
}

bool is_numbered_host(std::string_view text) {
  if (!text.starts_with('[')) {
    for (int part = 0; part < 4; ++part) {
      if (part > 0 && !text.starts_with('.')) return false;
      if (part > 0) text.remove_prefix(1);
      std::size_t digits = 0;
      while (digits < 3 && digits < text.size() && is_url_digit(text[digits])) ++digits;
      if (digits == 0) return false;
      text.remove_prefix(digits);
    }
    return is_rest(text);
  }
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos || !is_rest(text.substr(close + 1))) return false;
  std::string_view inner = text.substr(1, close - 1);
  int groups = 0;
  while (!inner.empty() || groups < 3) {
    std::size_t digits = 0;
    while (digits < 4 && digits < inner.size() && is_hex(inner[digits])) ++digits;
    inner.remove_prefix(digits);
    const bool colon = inner.starts_with(':');
    if (colon) inner.remove_prefix(1);
    if (groups < 2 && !colon) return false;
    if (++groups > 8) return false;
    if (!inner.empty() && !colon && digits == 0) return false;
  }
  return true;
}

bool is_url(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://", "www."}) {
    if (!starts_in_any_case(text, scheme)) continue;
    const std::string_view host = text.substr(scheme.size());
    if (is_named_host(host, true) || (scheme != "www." && is_numbered_host(host))) return true;
  }
  return is_named_host(text, false);
}

bool is_mail(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view domain = text.substr(at + 1);
  const std::size_t dot = domain.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == domain.size()) return false;
  const auto whole = [](std::string_view part, auto keeps) {
    return run_of(part, keeps) == part.size();
  };
  return is_word(code_point_at(domain, 0).value) && whole(domain.substr(dot + 1), is_word) &&
         whole(domain.substr(0, dot),
               [](char32_t c) { return is_word(c) || c == '.' || c == '-'; });
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// A word as head, middle and tail: brackets and stops around an address are no part of it.
struct Word {
  std::string_view text;
  std::size_t begin = 0, end = 0;  // of the middle

  explicit Word(std::string_view word) : text(word), end(word.size()) {
    while (true) {
      const std::string_view rest = text.substr(begin);
      if (rest.starts_with('(') || rest.starts_with('<')) {
        ++begin;
      } else if (rest.starts_with("&lt;")) {
        begin += 4;
      } else {
        break;
      }
    }
    while (end > begin) {
      const std::string_view rest = text.substr(begin, end - begin);
      if (std::string_view(")>.,\n").find(rest.back()) != std::string_view::npos) {
        --end;
      } else if (rest.ends_with("&gt;")) {
        end -= 4;
      } else {
        break;
      }
    }
    balance("(", ")");
    balance("<", ">");
    balance("&lt;", "&gt;");
  }
  std::string_view middle() const { return text.substr(begin, end - begin); }

 private:
  void balance(std::string_view open, std::string_view close) {
    const std::size_t opened = count_of(middle(), open);
    if (opened <= count_of(middle(), close)) return;
    for (std::size_t i = std::min(opened, count_of(text.substr(end), close)); i > 0; --i) {
      end = text.find(close, end) + close.size();
    }
  }
};

struct Links {
  Value limit;  // of code points shown; none: all
  Value attributes;
  std::vector<Value> schemes;
};

std::string shown(Heap& heap, const Links& links, std::string_view url) {
  if (links.limit.is_none()) return std::string(url);
  const Value text = heap.string(std::string(url));
  if (static_cast<Int>(code_point_count(url)) <= links.limit.as_int()) return std::string(url);
  return std::string(get_slice(heap, text, Value::none(), links.limit, Value::none()).text()) +
         "...";
}

std::string linked(Heap& heap, const Links& links, std::string_view word) {
  const std::string url(word);
  const std::string_view attributes = links.attributes.text();
  heap.require(attributes.size() + 3 * url.size());
  if (is_url(word)) {
    const bool whole = word.starts_with("https://") || word.starts_with("http://");
    std::string link = "<a href=\"" + std::string(whole ? "" : "https://") + url + "\"";
    return link.append(attributes).append(">" + shown(heap, links, word) + "</a>");
  }
  if (word.starts_with("mailto:") && is_mail(word.substr(7))) {
    return "<a href=\"" + url + "\">" + url.substr(7) + "</a>";
  }
  const bool mail = word.find('@') != std::string_view::npos && !word.starts_with("www.") &&
                    !word.starts_with('@') && word.find(':') == std::string_view::npos &&
                    is_mail(word);
  if (mail) return "<a href=\"mailto:" + url + "\">" + url + "</a>";
  std::string out = url;
  for (const Value& scheme : links.schemes) {
    heap.step(1 + static_cast<std::int64_t>(std::min(out.size(), scheme.text().size()) / 64));
    if (out == scheme.text() || !out.starts_with(scheme.text())) continue;
    heap.require(2 * out.size() + attributes.size());
    out = ("<a href=\"" + out + "\"").append(attributes).append(">" + out + "</a>");
  }
  return out;
}

// The value of rel=: what is asked for, in order and each once.
std::string rel_of(Heap& heap, const Value& rel, bool nofollow) {
  std::vector<std::string_view> parts = {"noopener"};
  if (nofollow) parts.emplace_back("nofollow");
  std::string_view rest = rel.is_string() ? strip_left(rel.text()) : std::string_view();
  heap.step(static_cast<std::int64_t>(rest.size()));
  heap.require(2 * rest.size());
  while (!rest.empty()) {
    const std::size_t bytes = run_of(rest, [](char32_t c) { return !is_space(c); });
    heap.require((2 * parts.size() + 1) * sizeof(parts[0]));  // as the vector grows
    parts.emplace_back(rest.substr(0, bytes));
    rest = strip_left(rest.substr(bytes));
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  std::string joined;
  for (const std::string_view part : parts) joined.append(joined.empty() ? "" : " ").append(part);
  return joined;
}

void check_scheme(Heap& heap, const Value& scheme) {
  std::string_view name = text_argument(scheme, "urlize");
  heap.step(1 + static_cast<std::int64_t>(name.size()));
  for (int i = 0; i < 2 && name.ends_with('/'); ++i) name.remove_suffix(1);
  const bool colon = name.ends_with(':');
  if (colon) name.remove_suffix(1);
  const std::size_t plain =
      run_of(name, [](char32_t c) { return is_word(c) || c == '.' || c == '+' || c == '-'; });
  if (!colon || plain != name.size() || code_point_count(name) < 2) {
    fail("'" + std::string(scheme.text()) + "' is not a valid URI scheme prefix.");
  }
}

}  // namespace

Value urlize(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound =
      bind("urlize", arguments, {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  Links links;
  links.limit = Value::none();
  if (!bound[0].is_none() && !bound[0].is_missing()) {
    links.limit = Value::integer(int_argument(bound[0], 0, "urlize"));
  }
  const Value rel = heap.string(rel_of(heap, bound[3], flag_argument(bound[1], false)));
  Builder attributes(heap);
  attributes.append(" rel=\"");
  attributes.append(escaped(heap, rel).text());
  attributes.append("\"");
  if (!bound[2].is_missing() && truthy(bound[2])) {
    attributes.append(" target=\"");
    attributes.append(escaped(heap, bound[2]).text());
    attributes.append("\"");
  }
  links.attributes = attributes.finish();
  if (!bound[4].is_missing() && !bound[4].is_none()) links.schemes = elements(heap, bound[4]).items;
  for (const Value& scheme : links.schemes) check_scheme(heap, scheme);
  const Value whole = escaped(heap, subject);
  const std::string_view text = whole.text();
  Builder out(heap);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t gap = run_of(text.substr(at), is_space);
    out.append(text.substr(at, gap));
    at += gap;
    const std::size_t size = run_of(text.substr(at), [](char32_t c) { return !is_space(c); });
    heap.step(1 + static_cast<std::int64_t>(size));
    const Word word(text.substr(at, size));
    out.append(word.text.substr(0, word.begin));
    out.append(linked(heap, links, word.middle()));
    out.append(word.text.substr(word.end));
    at += size;
  }
  return out.finish();
}

}  // namespace causeway::text::jinja
