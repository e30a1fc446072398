#include <algorithm>
#include <string>

#include "kernels/attention/cuda_parts.h"

namespace causeway::kernels::attention {
namespace {

// FlashInfer's kernels are compiled ahead of time for these.
bool flashinfer_serves(const Heads& heads) {
  return has_flashinfer() && (heads.size == 64 || heads.size == 128 || heads.size == 256);
}

Status check(const Heads& heads) {
  if (heads.kv < 1 || heads.query < heads.kv || heads.query % heads.kv != 0) {
    return invalid_argument("attention: " + std::to_string(heads.query) +
                            " query heads cannot share " + std::to_string(heads.kv) +
                            " KV heads evenly");
  }
  if (heads.size < 8 || heads.size > 512 || heads.size % 8 != 0) {
    return invalid_argument("attention: head size " + std::to_string(heads.size) +
                            " is not a multiple of 8 from 8 to 512");
  }
  return {};
}

Status check_tensor(const Heads& heads) {
  if (parts::tensor_serves(heads)) return {};
  return unsupported("attention: the tensor cores' kernel serves heads up to 128, not " +
                     std::to_string(heads.size));
}

}  // namespace

bool has_flashinfer() {
#ifdef CAUSEWAY_FLASHINFER
  return true;
#else
  return false;
#endif
}

bool fuses_prepare(const Heads& heads, std::int64_t decode) {
  if (decode < 1) return false;
  const auto kernel = choose_decode(heads, DecodeKernel::kBest);
  return kernel.ok() && *kernel == DecodeKernel::kSplit;
}

Result<PrefillKernel> choose_prefill(const Heads& heads, PrefillKernel wanted) {
  CAUSEWAY_TRY(check(heads));
  const bool serves = flashinfer_serves(heads);
  if (wanted == PrefillKernel::kFlashInfer && !serves) {
    return unsupported(has_flashinfer()
                           ? "attention: FlashInfer serves heads of 64, 128 and 256, not " +
                                 std::to_string(heads.size)
                           : std::string("attention: this build is without FlashInfer; run "
                                         "scripts/test setup and build again"));
  }
  if (wanted == PrefillKernel::kTensor) CAUSEWAY_TRY(check_tensor(heads));
  if (wanted != PrefillKernel::kBest) return wanted;
  return serves                        ? PrefillKernel::kFlashInfer
         : parts::tensor_serves(heads) ? PrefillKernel::kTensor
                                       : PrefillKernel::kReference;
}

Result<DecodeKernel> choose_decode(const Heads& heads, DecodeKernel wanted) {
  CAUSEWAY_TRY(check(heads));
  const bool serves = parts::split_serves(heads);
  if (wanted == DecodeKernel::kSplit && !serves) {
    return unsupported("attention: the split kernel serves heads of 64 and 128, at most " +
                       std::to_string(parts::kSplitGroupMax) +
                       " sharing one KV head, and of 96 and 256, at most " +
                       std::to_string(parts::split_group_max(256)));
  }
  if (wanted == DecodeKernel::kFlashInfer) {
    CAUSEWAY_TRY(choose_prefill(heads, PrefillKernel::kFlashInfer));
  }
  if (wanted == DecodeKernel::kTensor) CAUSEWAY_TRY(check_tensor(heads));
  if (wanted != DecodeKernel::kBest) return wanted;
  return serves                        ? DecodeKernel::kSplit
         : flashinfer_serves(heads)    ? DecodeKernel::kFlashInfer
         : parts::tensor_serves(heads) ? DecodeKernel::kTensor
                                       : DecodeKernel::kReference;
}

bool small_batch_serves(const Heads& heads) {
  return (heads.size == 64 || heads.size == 128) && parts::split_serves(heads);
}

namespace parts {

int choose_small_batch_cluster(const Heads& heads, std::int64_t sequences, std::int64_t room_of_4,
                               std::int64_t room_of_8) {
  if (!small_batch_serves(heads) || sequences < 1 || sequences > kSmallBatchSequences) return 0;
  const std::int64_t clusters = sequences * heads.kv;
  // Clusters of two CTAs are never chosen: the split kernel has as many workers, and no rounds.
  return clusters <= room_of_8 ? 8 : clusters <= room_of_4 ? 4 : 0;
}

}  // namespace parts

}  // namespace causeway::kernels::attention
