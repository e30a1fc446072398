// Any bytes as a link map, and changes of one (edited_file.h). Whatever is read makes facts and a
// profile that pass their checks, and survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "transfer/link_map.h"

namespace {

using namespace causeway::transfer;

std::string map_of_two() {
  LinkMap map;
  map.machine = "2x-nvidia-h200-0123456789abcdef";
  map.links = 2;
  for (auto& own : map.own) {
    own = {{LinkSet::of(0), 5e10}, {LinkSet::of(1), 5e10}, {LinkSet::first(2), 9e10}};
  }
  for (auto& relayed : map.relayed) relayed = {{0, LinkSet::first(2), 9e10}};
  map.duplex = {9e10, 9e10};
  map.peers = {{0, 1, 3e11}, {1, 0, 3e11}};
  return write_link_map(map);
}

constexpr std::string_view kWords[] = {"links", "machine", "own", "relayed", "duplex", "peers"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> kFiles = {map_of_two()};
  const auto file =
      causeway::testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data), size});
  const auto map = read_link_map(file.text);
  if (!map.ok()) {
    CAUSEWAY_CHECK(!file.whole, map.error().message);
    return 0;
  }
  const PathFacts facts = facts_of(*map);
  CAUSEWAY_CHECK(facts.links == map->links);
  CAUSEWAY_CHECK(causeway::device::check(profile_of(*map)).ok(), "a map made a bad profile");
  const std::string written = write_link_map(*map);
  const auto again = read_link_map(written);
  CAUSEWAY_CHECK(again.ok(), "a written map cannot be read");
  CAUSEWAY_CHECK(write_link_map(*again) == written, "a map changed");
  return 0;
}
