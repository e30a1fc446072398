// What SMs compute and read, for predicting how long a step takes.
#pragma once

namespace causeway::slice {

// One SM of an H200, in a step.
inline constexpr double kFlopsPerSm = 4.3e12;
inline constexpr double kBytesPerSm = 31e9;  // a second, of HBM

// Of a GPU's memory bandwidth, what a share of its SMs (0 to 1) reads while the others do not: more
// than that share. Measured on an H200, between these points a line.
double bandwidth_alone(double processors);

}  // namespace causeway::slice
