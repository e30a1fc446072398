// Any bytes as a safetensors file: first the 8 bytes of the length, then the header, then "data".
// What is accepted must be usable without another look: inside the file, without overlap, with
// sizes that agree.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "weights/safetensors.h"

namespace causeway::weights {
namespace {

void check_accepted(const SafetensorsHeader& tensors, Bytes data_begin, Bytes file_bytes) {
  Bytes end = data_begin;
  for (const TensorInfo& tensor : tensors) {
    CAUSEWAY_CHECK(tensor.offset == end && tensor.bytes.count >= 0);
    CAUSEWAY_CHECK(tensor.shape.size() <= kSafetensorsRankMax);
    end += tensor.bytes;
    if (!tensor.dtype) continue;
    __int128 bytes = size_of(*tensor.dtype).count;
    for (const std::int64_t size : tensor.shape) bytes *= size;
    CAUSEWAY_CHECK(bytes == tensor.bytes.count);
  }
  CAUSEWAY_CHECK(end == file_bytes);
}

void run(std::span<const std::byte> input, Bytes file_bytes) {
  const auto header_bytes = safetensors_header_bytes(input.first<8>(), file_bytes);
  if (!header_bytes.ok() || header_bytes->count + 8 > static_cast<std::int64_t>(input.size())) {
    return;
  }
  const std::string_view json(reinterpret_cast<const char*>(input.data()) + 8,
                              to_size(*header_bytes));
  const auto tensors = parse_safetensors_header(json, file_bytes);
  if (tensors.ok()) check_accepted(*tensors, *header_bytes + Bytes(8), file_bytes);
}

}  // namespace
}  // namespace causeway::weights

// The last byte chooses how much data the file claims to have behind what is there, so that the
// fuzzer need not carry it: 0 … 255 bytes times a power of two.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 9) return 0;
  const std::span input(reinterpret_cast<const std::byte*>(data), size - 1);
  const std::int64_t extra = std::int64_t{data[size - 1] & 15} << (data[size - 1] >> 4);
  causeway::weights::run(input, causeway::Bytes(static_cast<std::int64_t>(size) - 1 + extra));
  // The header alone, as JSON of any content.
  const std::string_view text(reinterpret_cast<const char*>(data), size - 1);
  const auto tensors = causeway::weights::parse_safetensors_header(
      text, causeway::Bytes(static_cast<std::int64_t>(size) + 7 + extra));
  (void)tensors.ok();
  return 0;
}
