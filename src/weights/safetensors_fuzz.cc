// Any bytes as a safetensors file: first the 8 bytes of the length, then the header, then "data".
// What is accepted must be usable without another look: inside the file, without overlap, with
// sizes that agree.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "weights/safetensors.h"

namespace causeway::weights {
namespace {

// The data that these describe.
constexpr Bytes kDataBytes{40};
const std::vector<std::string> kHeaders = {
    R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 4], "data_offsets":
 [0, 16]}, "b": {"dtype": "F32", "shape": [6], "data_offsets": [16, 40]}})",
    R"({"x": {"dtype": "F8_E4M3", "shape": [5, 8], "data_offsets": [0, 40]}, "y": {"dtype": "F16",
 "shape": [0], "data_offsets": [40, 40]}})"};
constexpr std::string_view kWords[] = {"dtype", "shape", "data_offsets", "__metadata__", "F16",
                                       "I64",   "BOOL",  "F4",           "BF16",         "a"};

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

// A header that is changed, in front of the data of one that is not.
void run_edited(std::string_view input) {
  const auto header = causeway::testing::edited_file({kHeaders, kWords}, input);
  const Bytes begin(static_cast<std::int64_t>(header.text.size()) + 8);
  const auto tensors = parse_safetensors_header(header.text, begin + kDataBytes);
  if (tensors.ok()) return check_accepted(*tensors, begin, begin + kDataBytes);
  CAUSEWAY_CHECK(!header.whole, tensors.error().message);
}

}  // namespace
}  // namespace causeway::weights

// The last byte chooses how much data the file claims to have behind what is there, so that the
// fuzzer need not carry it: 0 … 255 bytes times a power of two.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  causeway::weights::run_edited({reinterpret_cast<const char*>(data), size});
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
