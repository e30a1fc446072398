// Holds an object that only CUDA can destroy (a graph, a library handle), and ties it to its slice:
// it is destroyed with the slice's context current, on any thread and whatever GPU that thread used
// before. Once the GPU is lost it is kept, because destroying it would fail, or wait for work that
// never ends.
//
//   CudaOwned<Graph> graph(slice, std::move(made));   // ~Graph() may call the CUDA runtime
#pragma once

#include <memory>
#include <utility>

#include "device/cuda/cuda_device.h"

namespace causeway::device {

// Move-only. The slice outlives it.
template <typename T>
class CudaOwned {
 public:
  CudaOwned() = default;
  CudaOwned(const Device& slice, T value) : slice_(&slice), value_(std::move(value)) {}
  CudaOwned(CudaOwned&& other) noexcept { take(other); }
  CudaOwned& operator=(CudaOwned&& other) noexcept {
    if (this == &other) return *this;
    reset();
    take(other);
    return *this;
  }
  ~CudaOwned() { reset(); }

  explicit operator bool() const { return slice_ != nullptr; }
  T& operator*() { return value_.held; }
  const T& operator*() const { return value_.held; }
  T* operator->() { return &value_.held; }
  const T* operator->() const { return &value_.held; }

  void reset() {
    if (slice_ == nullptr) return;
    const Device& slice = *std::exchange(slice_, nullptr);
    if (!slice.health().ok()) return;
    const auto current = CudaCurrent::enter(slice);
    if (current.ok()) std::destroy_at(&value_.held);
  }

 private:
  // Storage whose content is destroyed explicitly, or not at all.
  union Place {
    Place() {}
    explicit Place(T&& value) : held(std::move(value)) {}
    ~Place() {}
    T held;
  };
  void take(CudaOwned& other) {
    slice_ = std::exchange(other.slice_, nullptr);
    if (slice_ == nullptr) return;
    std::construct_at(&value_.held, std::move(other.value_.held));
    std::destroy_at(&other.value_.held);  // moved from: holds nothing of CUDA
  }

  const Device* slice_ = nullptr;  // null: nothing is held
  Place value_;
};

}  // namespace causeway::device
