// Which instructions the own loops use. This is chosen when the program runs, because the build
// itself targets plain x86-64. Tests force each variant that the machine has, and compare the
// results.
#pragma once

#include <string_view>
#include <vector>

namespace causeway::kernels {

enum class Variant {
  kPlain,       // what every x86-64 (or any other) CPU has
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX-512 F, BW, DQ and VL
  kAvx512Bf16,  // these and the instructions for bf16, AMX where the CPU has it
};

std::string_view name_of(Variant variant);

// True when the CPU has the instructions and the operating system saves their registers.
bool is_available(Variant variant);

// Whether the instruction for pairs of bf16 (of kAvx512Bf16) does at least as much per unit of time
// as two f32 multiply-adds: on AMD's CPUs twice as much, on Intel's half.
bool has_fast_bf16_pairs();

// From now on no wider variant is used, here and in oneDNN, to measure a narrower CPU on a wide
// one. Call it before the first kernel.
void limit_variants(Variant limit);
Variant variants_limit();

// The widest variant that is available.
Variant best_variant();

// All available variants, the plain one first.
std::vector<Variant> available_variants();

}  // namespace causeway::kernels
