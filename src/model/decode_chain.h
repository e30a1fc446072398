// A decode step as a chain of dependent reads: what each dependent product of a layer has to read,
// in order. What kernels that do only this reach, each waiting for the one in front, is the further
// limit "chain_read" of `causeway bench model`: it says how near a chain of kernels is, and never
// replaces the floor.
//
//   dense layer:   qkv → attention → o → gate_up → down
//   sparse layer:  qkv → attention → o → router → experts' gate_up → experts' down
//
// and the head behind the last one. All bytes of a step's floor are in it, each once.
#pragma once

#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/units.h"
#include "model/config.h"

namespace causeway::model {

struct ChainStage {
  std::string_view name;
  Bytes bytes;
  // Which bytes these are is known before the stage in front has ended: they may be asked for
  // early. Not so where the stage in front chooses them: the experts' gate_up.
  bool early = true;
};

// What a step reads that its config alone does not say.
struct DecodeReads {
  DType storage = DType::kBF16;
  double experts = 0;  // that all sparse layers together read
  Bytes kv;            // of all layers and sequences
};

std::vector<ChainStage> decode_chain(const ModelConfig& config, const DecodeReads& reads);

}  // namespace causeway::model
