#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "transfer/link_map.h"

// Whatever is read makes facts and a profile that pass their checks, and survives being written and
// read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::transfer;
  const auto map = read_link_map({reinterpret_cast<const char*>(data), size});
  if (!map.ok()) return 0;
  const PathFacts facts = facts_of(*map);
  CAUSEWAY_CHECK(facts.links == map->links);
  CAUSEWAY_CHECK(causeway::device::check(profile_of(*map)).ok(), "a map made a bad profile");
  const std::string written = write_link_map(*map);
  const auto again = read_link_map(written);
  CAUSEWAY_CHECK(again.ok(), "a written map cannot be read");
  CAUSEWAY_CHECK(write_link_map(*again) == written, "a map changed");
  return 0;
}
