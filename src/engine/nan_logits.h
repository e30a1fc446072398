// What an executor says of a row of logits that are all NaN: nothing can be chosen of it, and a
// token that is sent all the same would look like an answer.
#pragma once

#include "base/units.h"

namespace causeway::engine {

// The token of such a row in a StepResult; its request ends with kNanLogits, others of the step do
// not. The host's executor tells it; on a GPU token 0 is chosen (docs/design/faults.md).
inline constexpr TokenId kNoToken = -1;
inline constexpr const char* kNanLogits =
    "the model computed NaN logits: its weights are damaged, or overflow the type that they are "
    "computed in";

}  // namespace causeway::engine
