// A regular file, read at offsets by many threads at once.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace causeway::weights {

// An open file descriptor. Move-only; -1 holds none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A mapping of a file. Move-only; null holds none.
class AddressRange {
 public:
  AddressRange() = default;
  AddressRange(std::byte* begin, Bytes bytes) : begin_(begin), bytes_(bytes) {}
  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;
  ~AddressRange();
  std::byte* begin() const { return begin_; }
  Bytes bytes() const { return bytes_; }

 private:
  std::byte* begin_ = nullptr;
  Bytes bytes_;
};

// Thread-safe after open(). Errors name the file: kIo from the system, kCorrupt when it ends early.
class File {
 public:
  // Follows symbolic links (the hub cache is made of them). kNotFound; kCorrupt when it is not a
  // regular file.
  static Result<File> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  Bytes bytes() const { return bytes_; }  // when it was opened

  // Reads exactly [offset, offset + target.size()).
  Status read(Bytes offset, std::span<std::byte> target) const;

  // The same into several places, one after the other. At most IOV_MAX of them; they are changed.
  Status read(Bytes offset, std::span<iovec> targets) const;

  // Whether a sample of the range's pages is in the page cache. True also when the system does not
  // tell (it does for files that the user owns or may write).
  bool looks_cached(Bytes offset, Bytes bytes) const;

  // Reads a range past the page cache, when the file system can. `offset` and `target` are
  // multiples of kDirectAlignment; returns how much was read, less than asked only at the end of
  // the file. kUnsupported when it cannot.
  Result<Bytes> read_direct(Bytes offset, std::span<std::byte> target) const;

 private:
  std::filesystem::path path_;
  Bytes bytes_;
  FileDescriptor buffered_;
  FileDescriptor direct_;  // the same file with O_DIRECT, when the file system has it
  AddressRange mapping_;   // never touched, only asked about
};

inline constexpr Bytes kDirectAlignment = kib(4);

}  // namespace causeway::weights
