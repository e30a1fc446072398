// The kernel of the paper's dummy task, as a library image for the driver.
#pragma once

namespace causeway::preload {

// void causeway_spin(const volatile unsigned* flag, unsigned number): ends once *flag has reached
// `number`. nullptr: built without nvcc.
const void* spin_kernel_image();
inline constexpr const char* kSpinKernelName = "causeway_spin";

}  // namespace causeway::preload
