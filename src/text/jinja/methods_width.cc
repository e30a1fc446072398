// The string methods that fill up to a width. A width is in code points.
#include "text/jinja/failure.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

// How many code points the text lacks to the width: 0 when it is as long already. Never more than
// memory allows.
Int missing_points(Heap& heap, const Value& self, const Value& width, std::string_view name) {
  if (width.is_missing()) fail(std::string(name) + " needs a width");
  const Int wanted = int_argument(width, 0, name);
  heap.work_bytes(self.text().size());
  if (wanted <= 0) return 0;
  const Int missing = wanted - static_cast<Int>(code_point_count(self.text()));
  if (missing <= 0) return 0;
  constexpr Int kMost = Int{1} << 40;
  heap.require(static_cast<std::uint64_t>(missing < kMost ? missing : kMost) * 4 +
               self.text().size());
  return missing;
}

std::string_view fill_of(const Value& argument, std::string_view name) {
  if (argument.is_missing()) return " ";
  const std::string_view fill = text_argument(argument, name);
  if (code_point_count(fill) != 1) {
    fail("The fill character must be exactly one character long");
  }
  return fill;
}

struct Filling {
  std::string_view fill;
  Int before = 0, after = 0;
};

Value filled(Heap& heap, const Value& self, const Filling& filling) {
  Builder out(heap);
  for (Int i = 0; i < filling.before; ++i) out.append(filling.fill);
  out.append(self.text());
  for (Int i = 0; i < filling.after; ++i) out.append(filling.fill);
  heap.step(static_cast<std::int64_t>(filling.before + filling.after));
  return out.finish();
}

}  // namespace

Value justify_left(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("ljust", arguments, {"width", "fillchar"});
  const std::string_view fill = fill_of(bound[1], "ljust");
  return filled(heap, self, {fill, 0, missing_points(heap, self, bound[0], "ljust")});
}

Value justify_right(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("rjust", arguments, {"width", "fillchar"});
  const std::string_view fill = fill_of(bound[1], "rjust");
  return filled(heap, self, {fill, missing_points(heap, self, bound[0], "rjust"), 0});
}

Value center_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("center", arguments, {"width", "fillchar"});
  const std::string_view fill = fill_of(bound[1], "center");
  const Int missing = missing_points(heap, self, bound[0], "center");
  // Python puts the larger part of an odd number before the text when the width is odd.
  const Int before = missing / 2 + (missing & int_argument(bound[0], 0, "center") & 1);
  return filled(heap, self, {fill, before, missing - before});
}

Value fill_zeros(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("zfill", arguments, {"width"});
  const Int missing = missing_points(heap, self, bound[0], "zfill");
  const std::string_view text = self.text();
  const bool sign = text.starts_with('-') || text.starts_with('+');
  Builder out(heap);
  out.append(text.substr(0, sign ? 1 : 0));
  for (Int i = 0; i < missing; ++i) out.push('0');
  out.append(text.substr(sign ? 1 : 0));
  heap.step(static_cast<std::int64_t>(missing));
  return out.finish();
}

}  // namespace causeway::text::jinja
