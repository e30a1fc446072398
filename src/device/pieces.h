// Small pieces of a device's memory (constants of a model, a step's tables, what sampling reads),
// cut from extents of the arena, so that the arena accounts for everything that is allocated.
//
//   extent │ piece │ piece │ free … │ piece │ free … │
//
// Thread-safe. A Piece must not outlive its Pieces, nor the Pieces its arena.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/arena.h"

namespace causeway::device {

class Pieces;

// Memory of a device that is given back on destruction. Move-only.
class Piece {
 public:
  Piece() = default;
  Piece(Piece&& other) noexcept;
  Piece& operator=(Piece&& other) noexcept;
  ~Piece();

  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }  // at least as many as were asked for

 private:
  friend class Pieces;
  Piece(Pieces* pieces, std::byte* data, Bytes bytes)
      : pieces_(pieces), data_(data), bytes_(bytes) {}
  void give_back();

  Pieces* pieces_ = nullptr;
  std::byte* data_ = nullptr;
  Bytes bytes_;
};

class Pieces {
 public:
  static constexpr Bytes kAlignment = Bytes(256);  // as loads of any kernel need

  // Takes no memory yet. The arena outlives it.
  explicit Pieces(Arena& arena) : arena_(arena) {}
  ~Pieces();
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  // Takes the first free place that is large enough, or one in new extents, and then waits until
  // they are zeroed. The contents are undefined. An empty piece for zero bytes. kResourceExhausted.
  Result<Piece> take(Bytes bytes);
  // The memory taken from the arena, in whole extents. A run of extents stays until its last piece
  // is gone; the first run stays for good.
  Bytes bytes() const;

 private:
  friend class Piece;
  struct Run {
    Extents extents;
    std::map<std::int64_t, std::int64_t> free;  // offset in the run → bytes; none touches another
  };
  static std::byte* cut(Run& run, Bytes bytes);
  void put_back(std::byte* data, Bytes bytes);

  Arena& arena_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Run>> runs_;
};

}  // namespace causeway::device
