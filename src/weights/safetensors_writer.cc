#include "weights/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "weights/safetensors.h"

namespace causeway::weights {
namespace {

// The size of a tensor; nothing when a dimension is negative or the product overflows.
std::optional<Bytes> bytes_of(const TensorSpec& spec) {
  std::int64_t bytes = size_of(spec.dtype).count;
  for (const std::int64_t size : spec.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return Bytes(bytes);
}

std::string header_entry(const TensorSpec& spec, Bytes begin, Bytes end) {
  using nlohmann::json;
  const json name = spec.name;
  const json value = {{"dtype", name_of(spec.dtype)},
                      {"shape", spec.shape},
                      {"data_offsets", {begin.count, end.count}}};
  return name.dump(-1, ' ', false, json::error_handler_t::replace) + ":" + value.dump();
}

Status write_all(int fd, const std::filesystem::path& path, Bytes offset,
                 std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), offset.count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_error("cannot write " + path.string(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += Bytes(put);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::create(
    std::filesystem::path path, std::span<const TensorSpec> tensors) {
  auto writer = std::make_unique<SafetensorsWriter>(Private{}, std::move(path));
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::unordered_set<std::string_view> names = {"__metadata__"};
  Bytes end;
  for (const TensorSpec& spec : tensors) {
    const auto bytes = bytes_of(spec);
    std::int64_t next = 0;
    if (!bytes || __builtin_add_overflow(end.count, bytes->count, &next)) {
      return invalid_argument(shown_name(spec.name) + ": not a possible shape");
    }
    if (!names.insert(spec.name).second) {
      return invalid_argument(shown_name(spec.name) + ": named twice");
    }
    text += "," + header_entry(spec, end, Bytes(next));
    writer->ranges_.push_back({end, *bytes});
    end = Bytes(next);
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');  // so that data is aligned to 8 bytes
  CAUSEWAY_TRY(writer->begin(std::move(text), end));
  return writer;
}

Status SafetensorsWriter::begin(std::string header, Bytes data_bytes) {
  std::string start(8, '\0');
  for (int i = 0; i < 8; ++i) start[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  start += header;
  const Bytes data_begin(static_cast<std::int64_t>(start.size()));
  for (Range& range : ranges_) range.offset += data_begin;
  data_bytes_ = data_bytes;
  const std::filesystem::path partial = path_.string() + ".partial";
  fd_ = FileDescriptor(::open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd_.valid()) return io_error("cannot create " + partial.string(), errno);
  partial_ = partial;
  // Asking for all of it now makes a full disk an error before the work, not in the middle of it.
  const Bytes total = data_begin + data_bytes;
  const int error = ::posix_fallocate(fd_.get(), 0, total.count);
  if (error == ENOSPC || error == EFBIG || error == EIO) {
    return io_error(
        "no room for the " + std::to_string(total.count) + " bytes of " + path_.string(), error);
  }
  if (error != 0 && ::ftruncate(fd_.get(), total.count) != 0) {
    return io_error("cannot size " + partial.string(), errno);
  }
  return write_all(fd_.get(), partial_, Bytes(0), std::as_bytes(std::span(start)));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Status SafetensorsWriter::write(std::size_t tensor, Bytes offset,
                                std::span<const std::byte> bytes) {
  CAUSEWAY_CHECK(tensor < ranges_.size(), "no such tensor in this file");
  const Range& range = ranges_[tensor];
  const Bytes size(static_cast<std::int64_t>(bytes.size()));
  CAUSEWAY_CHECK(offset.count >= 0 && size <= range.bytes && offset <= range.bytes - size,
                 "a write outside its tensor");
  CAUSEWAY_TRY(write_all(fd_.get(), partial_, range.offset + offset, bytes));
  written_.fetch_add(size.count, std::memory_order_relaxed);
  return {};
}

Status SafetensorsWriter::finish() {
  if (written_.load() != data_bytes_.count) {
    return invalid_argument(path_.string() + ": " + std::to_string(written_.load()) + " of " +
                            std::to_string(data_bytes_.count) + " bytes were written");
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    return io_error("cannot name " + path_.string(), errno);
  }
  partial_.clear();
  fd_ = FileDescriptor();
  return {};
}

}  // namespace causeway::weights
