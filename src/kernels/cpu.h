// Which instructions the own loops use: chosen when the program runs, since the build itself
// targets plain x86-64. Tests force each variant that the machine has and compare them. The
// environment's CAUSEWAY_MAX_CPU_ISA (plain, avx2) makes a wide machine as a narrower one is;
// ONEDNN_MAX_CPU_ISA does the same for oneDNN.
#pragma once

#include <string_view>
#include <vector>

namespace causeway::kernels {

enum class Variant {
  kPlain,   // what every x86-64 (or any other) CPU has
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512 F, BW, DQ, VL and BF16
};

std::string_view name_of(Variant variant);

// True when the CPU has the instructions and the operating system saves their registers.
bool is_available(Variant variant);

// The widest that is available.
Variant best_variant();

// Every one that is available, the plain one first.
std::vector<Variant> available_variants();

}  // namespace causeway::kernels
