// What one SM of an H200 computes and reads in a step, for predicting how long a step takes.
#pragma once

namespace causeway::slice {

inline constexpr double kFlopsPerSm = 4.3e12;
inline constexpr double kBytesPerSm = 31e9;  // a second, of HBM

}  // namespace causeway::slice
