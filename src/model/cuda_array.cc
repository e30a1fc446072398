#include "model/cuda_array.h"

#include <algorithm>

namespace causeway::model {
namespace {

constexpr Nanos kPatience = seconds(60);
constexpr Bytes kPage = kib(64);

}  // namespace

Result<ConstantCopier> ConstantCopier::make(device::Device& slice) {
  ConstantCopier copier(slice);
  CAUSEWAY_ASSIGN(copier.page_, device::CudaPinned::make(slice, "constants", kPage));
  CAUSEWAY_ASSIGN(copier.stream_, slice.make_stream("constants"));
  return Result<ConstantCopier>(std::move(copier));
}

Result<device::Piece> ConstantCopier::copy(std::span<const std::byte> bytes,
                                           device::Pieces& pieces) {
  if (bytes.empty()) return device::Piece();
  CAUSEWAY_ASSIGN(device::Piece piece, pieces.take(Bytes(std::ssize(bytes))));
  const Bytes offset(piece.data() - slice_->arena().base());
  for (Bytes done; done < Bytes(std::ssize(bytes)); done += kPage) {
    const auto part = bytes.subspan(to_size(done)).first(
        std::min(to_size(kPage), bytes.size() - to_size(done)));
    std::copy(part.begin(), part.end(), page_.data());
    const device::Copy copy{device::MemoryAddress::in_arena(slice_->id(), offset + done),
                            page_.address(), Bytes(std::ssize(part))};
    CAUSEWAY_TRY(stream_->copy({&copy, 1}, device::CopyPriority::kStep));
    CAUSEWAY_TRY(stream_->synchronize(kPatience));
  }
  return Result<device::Piece>(std::move(piece));
}

}  // namespace causeway::model
