// What the fleet asks of the backend behind a slice: make a model runnable there, and forget it.
// The program that assembles everything (apps/) implements it over a concrete backend.
#pragma once

#include <functional>

#include "engine/model_facts.h"
#include "fleet/catalogue.h"

namespace causeway::fleet {

struct AttachedModel {
  engine::ModelFacts facts;
  Bytes bytes;  // in host memory
};

class SliceBackend {
 public:
  virtual ~SliceBackend() = default;

  // Loads the model into host memory and makes the slice's executor able to run it. Blocks for the
  // whole load; polls `cancelled`. One call at a time.
  virtual Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource& source,
                                       const std::function<bool()>& cancelled) = 0;
  // Undoes attach(). No step of the model may be in flight or come.
  virtual void detach(ModelId model) = 0;
};

}  // namespace causeway::fleet
