#include "kernels/cpu.h"

#include <array>
#include <atomic>

namespace causeway::kernels {

std::string_view name_of(Variant variant) {
  switch (variant) {
    case Variant::kPlain: return "plain";
    case Variant::kAvx2: return "avx2";
    case Variant::kAvx512: return "avx512";
    case Variant::kAvx512Bf16: return "avx512_bf16";
  }
  return "?";
}

namespace {

constexpr std::array kNarrowestFirst = {Variant::kPlain, Variant::kAvx2, Variant::kAvx512,
                                        Variant::kAvx512Bf16};

std::atomic<Variant> widest{Variant::kAvx512Bf16};

}  // namespace

void limit_variants(Variant limit) { widest = limit; }
Variant variants_limit() { return widest; }

#if defined(__x86_64__)
// __builtin_cpu_supports asks XGETBV too: a register set that the system does not save is not
// there.
bool is_available(Variant variant) {
  if (variant > widest) return false;
  switch (variant) {
    case Variant::kPlain: return true;
    case Variant::kAvx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Variant::kAvx512:
      return is_available(Variant::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    case Variant::kAvx512Bf16:
      return is_available(Variant::kAvx512) && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}
bool has_fast_bf16_pairs() { return is_available(Variant::kAvx512Bf16) && __builtin_cpu_is("amd"); }
#else
bool is_available(Variant variant) { return variant == Variant::kPlain; }
bool has_fast_bf16_pairs() { return false; }
#endif

std::vector<Variant> available_variants() {
  std::vector<Variant> variants;
  for (const Variant variant : kNarrowestFirst) {
    if (is_available(variant)) variants.push_back(variant);
  }
  return variants;
}

Variant best_variant() {
  Variant best = Variant::kPlain;
  for (const Variant variant : kNarrowestFirst) {
    if (is_available(variant)) best = variant;
  }
  return best;
}

}  // namespace causeway::kernels
