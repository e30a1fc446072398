// Any bytes as a message. What is accepted is plain data: written again it is read again as the
// same.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "worker/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::worker;
  const auto message = decode(std::as_bytes(std::span(data, size)));
  if (!message.ok()) return 0;
  const std::vector<std::byte> written = encode(*message);
  const auto again = decode(written);
  CAUSEWAY_CHECK(again.ok(), "what was accepted is not accepted again");
  CAUSEWAY_CHECK(encode(*again) == written, "what was accepted is something else");
  return 0;
}
