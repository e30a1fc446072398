// A quirk of Jinja's compiler that printed constants show: it folds them before anything runs, and
// what cannot be sliced gives undefined there, while it is an error when the template runs.
#pragma once

#include "text/jinja/ast.h"

namespace causeway::text::jinja {

// Marks the slices (Expr::folded) in a printed expression that consists of constants only.
void mark_constant_slices(Expr& printed);

}  // namespace causeway::text::jinja
