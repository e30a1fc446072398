#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "topology/render.h"
#include "topology/snapshot.h"

// Whatever is read can be shown, and survives being written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto machine =
      causeway::topology::read_snapshot({reinterpret_cast<const char*>(data), size});
  if (!machine.ok()) return 0;
  (void)causeway::topology::render_tree(*machine);
  (void)causeway::topology::render_gpus(*machine);
  const std::string written = causeway::topology::write_snapshot(*machine);
  const auto again = causeway::topology::read_snapshot(written);
  CAUSEWAY_CHECK(again.ok(), "a written snapshot cannot be read");
  CAUSEWAY_CHECK(causeway::topology::write_snapshot(*again) == written, "a snapshot changed");
  return 0;
}
