#include "model/cuda_array.h"

#include <algorithm>

#include "device/cuda/cuda_pinned.h"

namespace causeway::model {
namespace {

constexpr Nanos kPatience = seconds(60);

}  // namespace

Result<device::Piece> copy_to_device(device::Device& slice, device::Pieces& pieces,
                                     std::span<const std::byte> bytes) {
  if (bytes.empty()) return device::Piece();
  const Bytes size(static_cast<std::int64_t>(bytes.size()));
  CAUSEWAY_ASSIGN(const auto home, device::CudaPinned::make(slice, "constants", size));
  std::copy(bytes.begin(), bytes.end(), home.data());
  CAUSEWAY_ASSIGN(device::Piece piece, pieces.take(size));
  // After what it copies between: it goes first.
  CAUSEWAY_ASSIGN(const auto stream, slice.make_stream("constants"));
  const Bytes offset(piece.data() - slice.arena().base());
  const device::Copy copy{device::MemoryAddress::in_arena(slice.id(), offset), home.address(),
                          size};
  CAUSEWAY_TRY(stream->copy({&copy, 1}, device::CopyPriority::kStep));
  CAUSEWAY_TRY(stream->synchronize(kPatience));
  return Result<device::Piece>(std::move(piece));
}

}  // namespace causeway::model
