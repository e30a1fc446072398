#include "text/jinja/constant_slices.h"

#include <algorithm>
#include <array>

namespace causeway::text::jinja {
namespace {

// Filters that Jinja hands its context, which only a running template has.
constexpr std::array<std::string_view, 6> kOfContext = {"map",        "select",     "reject",
                                                        "selectattr", "rejectattr", "random"};

template <typename Each>
bool all_parts(const Expr& node, const Each& each) {
  bool all = true;
  for (const ExprPtr& part : node.parts) all = (part == nullptr || each(*part)) && all;
  if (node.call == nullptr) return all;
  for (const ExprPtr& argument : node.call->positional) all = each(*argument) && all;
  for (const auto& [name, argument] : node.call->named) all = each(*argument) && all;
  return all && node.call->star == nullptr && node.call->star_star == nullptr;
}

bool is_constant(const Expr& node) {
  switch (node.kind) {
    case ExprKind::kName:
    case ExprKind::kCall:
    case ExprKind::kMember: return false;
    case ExprKind::kFilter:
      if (node.filter == nullptr || node.parts[0] == nullptr) return false;
      if (std::find(kOfContext.begin(), kOfContext.end(), node.constant.text()) !=
          kOfContext.end()) {
        return false;
      }
      break;
    case ExprKind::kTest:
      if (node.test == nullptr) return false;
      break;
    default: break;
  }
  return all_parts(node, is_constant);
}

bool mark(Expr& node) {
  node.folded = node.kind == ExprKind::kSlice;
  return all_parts(node, [](Expr& part) { return mark(part); });
}

}  // namespace

void mark_constant_slices(Expr& printed) {
  if (is_constant(printed)) mark(printed);
}

}  // namespace causeway::text::jinja
