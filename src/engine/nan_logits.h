// What an executor says of a row of logits that are all NaN: nothing can be chosen of it, and a
// token that is sent all the same would look like an answer.
#pragma once

#include "kernels/sampling/sampling.h"

namespace causeway::engine {

// The token of such a row in a StepResult, of scored ones too; its request ends with kNanLogits,
// others of the step do not. A step that is already queued behind takes it for a place without a
// token.
using kernels::sampling::kNoToken;
inline constexpr const char* kNanLogits =
    "the model computed NaN logits: its weights are damaged, or overflow the type that they are "
    "computed in";

}  // namespace causeway::engine
