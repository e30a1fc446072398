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

// The share of a GPU's memory bandwidth with which a step reads weights on `processors`, a share of
// its SMs (0 to 1), while the others do not read: more than that share. From the time between
// tokens of single requests to ten models of 0.5 to 2 GB on slices of an H200; linear between the
// points.
// Kernels that only read have 0.54 with 16 SMs and 0.77 with 32; a step's reach 75 GB/s an SM.
double bandwidth_alone(double processors);

}  // namespace causeway::slice
