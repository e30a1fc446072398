// How much one thread of a server's CPU computes and reads in a second with this backend's kernels,
// by order of magnitude. It serves to decide how threads are divided, where only what is far from a
// target counts.
#pragma once

namespace causeway::slice {

inline constexpr double kFlopsPerThread = 20e9;
inline constexpr double kBytesPerThread = 4e9;

}  // namespace causeway::slice
