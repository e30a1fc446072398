// What the fleet's loader asks for: the room that a model takes, to make it runnable, to forget it.
// home_backend.h does it with host memory and a slice; tests do without.
#pragma once

#include <functional>

#include "engine/model_facts.h"
#include "fleet/catalogue.h"
#include "fleet/fleet_event.h"

namespace causeway::fleet {

struct AttachedModel {
  engine::ModelFacts facts;
  Bytes bytes;              // in host memory
  Nanos predicted_tpot{0};  // of a streamed model: by what the link grants; zero: not known
};

class SliceBackend {
 public:
  virtual ~SliceBackend() = default;

  // What attach() would take of host memory. An error: the model could not be served, whatever room
  // there is. Blocks on a few small files; the same thread as attach().
  virtual Result<HostRoom> room_for(const CatalogueEntry& entry, const ModelSource& source) = 0;

  // Loads the model into host memory and makes the slice's executor able to run it. Blocks for the
  // whole load; polls `cancelled`. One call at a time.
  virtual Result<AttachedModel> attach(const CatalogueEntry& entry, const ModelSource& source,
                                       const std::function<bool()>& cancelled) = 0;
  // Undoes attach(), after Engine::remove_model(). The same thread.
  virtual void detach(ModelId model) = 0;
  // Of weights that have come from host memory to the device since the start. Any thread.
  virtual Bytes link_bytes() const = 0;
};

}  // namespace causeway::fleet
