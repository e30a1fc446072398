#include "text/jinja/markup.h"

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace causeway::text::jinja {
namespace {

std::string_view reference_of(char c) {
  switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&#34;";
    case '\'': return "&#39;";
    default: return {};
  }
}

}  // namespace

Value escaped(Heap& heap, const Value& value) {
  if (value.is_markup()) return value;
  const Value string = to_string(heap, value);
  const std::string_view text = string.text();
  heap.work_bytes(text.size());
  Builder out(heap);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view reference = reference_of(text[at]);
    if (reference.empty()) continue;
    out.append(text.substr(kept, at - kept));
    out.append(reference);
    kept = at + 1;
  }
  if (kept == 0) return string.as_markup();
  out.append(text.substr(kept));
  return out.finish().as_markup();
}

Arguments escaped_arguments(Heap& heap, std::string_view method, const Arguments& arguments) {
  Arguments result = arguments;
  auto& given = result.positional;
  if (method == "join" && given.size() == 1) {
    std::vector<Value> items;
    for (const Value& item : elements(heap, given[0]).items) items.push_back(escaped(heap, item));
    given[0] = heap.list(std::move(items));
  }
  const bool second = method == "replace" || method == "ljust" || method == "rjust" ||
                      method == "center";  // the new text; what fills up
  if (second && given.size() > 1) given[1] = escaped(heap, given[1]);
  return result;
}

Value marked(Heap& heap, const Value& result) {
  if (result.is_string()) return result.as_markup();
  if (!result.is(Kind::kList)) return result;
  std::vector<Value> items;
  for (const Value& item : result.as_list().items) items.push_back(item.as_markup());
  return heap.list(std::move(items), result.as_list().kind);
}

}  // namespace causeway::text::jinja
