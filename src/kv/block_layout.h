// How the KV of one model's tokens lies in a frame (DuplexKV's block-first layout, SuperInfer §5).
//
// All models share one frame size. A model's block is the largest number of tokens whose K and V of
// all layers fit one frame, so that a block is one contiguous copy:
//
//   frame │ layer 0: K [tokens][kv_heads][head_dim] │ V [as K] │ layer 1: K │ V │ … │ unused │
//
// K and V of a layer have equal strides, as paged attention kernels require.
#pragma once

#include "base/dtype.h"
#include "base/result.h"
#include "base/units.h"

namespace causeway::kv {

struct KvShape {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::kBF16;
};

struct BlockLayout {
  Tokens tokens;       // tokens in a block, ≥ 1
  Bytes token_stride;  // from one token's K (or V) of a layer to the next token's
  Bytes kv_stride;     // from a layer's K to its V
  Bytes layer_stride;  // from a layer's K to the next layer's K
  Bytes frame;         // the frame size it was made for

  // Where K of `layer` begins, from the start of the frame; V lies kv_stride further.
  Bytes key_offset(std::int64_t layer) const { return layer_stride * layer; }
};

// kInvalidArgument when a dimension is not positive or not even one token fits a frame.
Result<BlockLayout> plan_block(const KvShape& shape, Bytes frame);

}  // namespace causeway::kv
