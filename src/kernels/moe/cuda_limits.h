// What the experts' kernels are built for.
#pragma once

#include "kernels/moe/moe_cuda.h"

namespace causeway::kernels::moe {

constexpr int kExpertsMax = 512;
constexpr int kChosenMax = 32;
constexpr int kCtasMax = 512;

// Limits of the kernels for small batches and for one token.
constexpr int kWorkerWarps = 4;  // that multiply
constexpr int kWorkers = 32 * kWorkerWarps;
constexpr int kItemsMax = 1024;
constexpr int kStagesMax = 12;  // of a ring
constexpr int kFrontHiddenMax = 4096;
constexpr int kOneTokenVectors = 3;  // of eight columns of active, a lane
constexpr int kOneTokenIntermediateMax = kOneTokenVectors * 32 * 8;

}  // namespace causeway::kernels::moe
