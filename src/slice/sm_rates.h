// How much SMs compute and read, for predicting how long a step takes.
#pragma once

namespace causeway::slice {

// One SM of an H200, in a step.
inline constexpr double kFlopsPerSm = 4.3e12;
inline constexpr double kBytesPerSm = 31e9;  // a second, of HBM

// An SM's part of what a step reads of a GPU's memory, in bytes a second, by the most that this
// memory can carry (`memory_peak`) and the number of SMs that it is for. No more than an H200's,
// since a part of a GPU may be shown with the memory of all of it; and that where the peak is not
// known (zero).
double bytes_per_sm(double memory_peak, int sms);

// The share of a GPU's memory bandwidth that `processors`, a share of its SMs (0 to 1), reads while
// the others do not: more than that share. Measured on an H200; linear between the points.
double bandwidth_alone(double processors);

}  // namespace causeway::slice
