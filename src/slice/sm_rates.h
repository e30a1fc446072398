// How much SMs compute and read, for predicting how long a step takes.
#pragma once

namespace causeway::slice {

// One SM of an H200, in a step.
inline constexpr double kFlopsPerSm = 4.3e12;
inline constexpr double kBytesPerSm = 31e9;  // a second, of HBM

// The share of a GPU's memory bandwidth that `processors`, a share of its SMs (0 to 1), reads while
// the others do not: more than that share. Measured on an H200; linear between the points.
double bandwidth_alone(double processors);

}  // namespace causeway::slice
