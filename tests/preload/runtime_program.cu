// Copies by the CUDA runtime: built with the shared and the static runtime, with the legacy and the
// per-thread default stream.
#include "cases.h"
#include "gpu.cuh"

int main(int argc, char** argv) {
  program::Cases all;
  for (const auto& cases :
       {program::copy_cases, program::order_cases, program::default_cases, program::memory_cases,
        program::graph_cases, program::thread_cases, program::lifetime_cases,
        program::process_cases, program::stress_cases}) {
    const program::Cases some = cases();
    all.insert(all.end(), some.begin(), some.end());
  }
  return program::run_program(argc, argv, all, [] {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess) gpus = 0;
    if (gpus > 0) program::load_kernels();
    return gpus;
  });
}
