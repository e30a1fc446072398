#include "weights/checkpoint.h"

#include <array>

#include "weights/checked_json.h"
#include "weights/weight_map.h"

namespace causeway::weights {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

Result<TensorsOfShard> read_weight_map(const std::filesystem::path& path) {
  CAUSEWAY_ASSIGN(const std::string text, read_small_file(path, kIndexBytesMax));
  return parse_weight_map(text).with_context(path.string());
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  CAUSEWAY_ASSIGN(File file, File::open(path));
  std::array<std::byte, 8> begin{};
  if (file.bytes() < Bytes(8)) return corrupt(path.string() + ": too short for a header");
  CAUSEWAY_TRY(file.read(Bytes(0), begin));
  auto header_bytes = safetensors_header_bytes(begin, file.bytes());
  if (!header_bytes.ok()) return header_bytes.error().with_context(path.string());
  std::string text(to_size(*header_bytes), '\0');
  CAUSEWAY_TRY(file.read(Bytes(8), std::as_writable_bytes(std::span(text))));
  auto tensors = parse_safetensors_header(text, file.bytes());
  if (!tensors.ok()) return tensors.error().with_context(path.string());
  return SafetensorsFile{std::move(file), std::move(tensors).value()};
}

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::exists(directory / kSingle, ignored)) {
    if (std::filesystem::exists(directory / kIndex, ignored)) return open_index(directory / kIndex);
    return not_found(directory.string() + ": neither " + kSingle + " nor " + kIndex +
                     " is there; weights in other formats must be converted to safetensors");
  }
  Checkpoint checkpoint;
  checkpoint.path_ = directory / kSingle;
  CAUSEWAY_ASSIGN(SafetensorsFile file, SafetensorsFile::open(checkpoint.path_));
  checkpoint.files_.push_back(std::move(file));
  for (const TensorInfo& info : checkpoint.files_[0].tensors) {
    checkpoint.tensors_.emplace(info.name, Tensor{0, &info});
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_index(const std::filesystem::path& path) {
  CAUSEWAY_ASSIGN(const TensorsOfShard shards, read_weight_map(path));
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.files_.reserve(shards.size());  // tensors_ points into it
  for (const auto& [shard, names] : shards) {
    CAUSEWAY_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path.parent_path() / shard));
    checkpoint.files_.push_back(std::move(file));
    std::unordered_map<std::string_view, const TensorInfo*> in_file;
    for (const TensorInfo& info : checkpoint.files_.back().tensors) in_file[info.name] = &info;
    for (const std::string& name : names) {
      const auto found = in_file.find(name);
      if (found == in_file.end()) {
        return corrupt(path.string() + ": " + shown_name(name) + " is not in " + shown_name(shard) +
                       ", where the index says it is");
      }
      checkpoint.tensors_.emplace(found->first,
                                  Tensor{checkpoint.files_.size() - 1, found->second});
    }
  }
  return checkpoint;
}

const Checkpoint::Tensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace causeway::weights
