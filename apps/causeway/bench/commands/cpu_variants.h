// What `--cpu` takes: the instructions that kernels on the CPU may use at most.
#pragma once

#include <map>
#include <string>

#include "kernels/cpu.h"

namespace causeway::app {

inline const std::map<std::string, kernels::Variant> kCpuVariants = {
    {"plain", kernels::Variant::kPlain},
    {"avx2", kernels::Variant::kAvx2},
    {"avx512", kernels::Variant::kAvx512},
    {"avx512_bf16", kernels::Variant::kAvx512Bf16}};
inline constexpr const char* kCpuVariantsHelp =
    "instructions that kernels may use at most: plain, avx2, avx512, or avx512_bf16 with AMX";

}  // namespace causeway::app
