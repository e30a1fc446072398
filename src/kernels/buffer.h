// Scratch memory that is kept from call to call: it grows, and never shrinks.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace causeway::kernels {

// Elements of a trivial type T, aligned to a cache line. Move-only.
template <typename T>
class Buffer {
 public:
  // At least `count` elements; what was in them is lost when the buffer grows. Throws
  // std::bad_alloc, which HostForward turns into an error.
  T* ensure(std::int64_t count) {
    if (count > capacity_) grow(count);
    return data_.get();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(T* pointer) const { std::free(pointer); }
  };
  void grow(std::int64_t count) {
    constexpr std::size_t kLine = 64;
    if (count > static_cast<std::int64_t>(PTRDIFF_MAX / (2 * sizeof(T)))) throw std::bad_alloc();
    const std::size_t bytes =
        (static_cast<std::size_t>(count) * sizeof(T) + kLine - 1) / kLine * kLine;
    data_.reset();
    capacity_ = 0;
    data_.reset(static_cast<T*>(std::aligned_alloc(kLine, bytes)));
    if (data_ == nullptr) throw std::bad_alloc();
    capacity_ = count;
  }

  std::unique_ptr<T[], Free> data_;
  std::int64_t capacity_ = 0;
};

}  // namespace causeway::kernels
