// Inputs that come late, for tests of kernels that chain by programmatic dependent launch
// (kernels/cuda_launch.cuh): poison lies in their place until the kernels behind have been enqueued
// and had time to start; only then a kernel in front writes them. A kernel that reads before it
// waits for its predecessor reads poison.
//
//   Late late;                          one for many uses: it keeps its memory
//   late.clear();
//   late.add(q, bytes, kNan);           memory holds what it should
//   late.poison(stream);                keeps that, and puts poison there
//   late.write([&] { … }, …);           enqueues the writer, then what the function does; lets go
//
// What holds the host up while it enqueues (a kernel's code is loaded at its first launch, which
// may wait for the GPU) would hold up the writer for ever, so that has an end; but then all was
// there before who might have read too early, and nothing is shown. So:
//
//   report.check(late.repeat([&] { … poison, write … }), …);
//
// Where every launch waits for the kernel in front (some tools have it so) no kernel can read too
// early: Late finds that out, says so on stderr, and holds nothing back.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::testing {

constexpr std::uint32_t kNan = 0xFFFFFFFFu;  // in words of any float type

struct LatePart {
  std::uint32_t* memory;
  std::uint32_t* kept;
  int words;
  std::uint32_t poison;
};

// What host and writer tell each other, in the host's memory.
struct LateFlags {
  int go;     // the host's: all is enqueued
  int early;  // the writer's: it has not waited for that
};

// Both enqueue. For `count` parts in device memory: keeps what is there, and puts poison there
// instead, by so many CTAs.
void keep_and_poison(const LatePart* parts, int count, unsigned ctas, cudaStream_t stream);
// Puts back what was kept, by few CTAs, when the host has let go and some time has passed. What is
// enqueued behind may start at once.
void write_late(const LatePart* parts, int count, volatile LateFlags* flags, cudaStream_t stream);

class Late {
 public:
  Late() {
    void* flags = nullptr;
    must(cudaHostAlloc(&flags, sizeof(LateFlags), cudaHostAllocMapped), "flags");
    flags_ = static_cast<volatile LateFlags*>(flags);
    cudaStream_t stream;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    const auto nothing = [&] { keep_and_poison(nullptr, 0, 1, stream); };
    overlaps_ = repeat([&] { write(nothing, stream, "trying late inputs"); });
    must(cudaStreamDestroy(stream), "stream");
    if (!overlaps_) std::fprintf(stderr, "late inputs: every launch waits here: nothing is late\n");
  }
  ~Late() { (void)cudaFreeHost(const_cast<LateFlags*>(flags_)); }
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;

  bool overlaps() const { return overlaps_; }

  void clear() {
    parts_.clear();
    words_ = 0;
  }
  // The words of 4 bytes that lie wholly in this memory, which other parts do not overlap.
  void add(void* memory, std::int64_t bytes, std::uint32_t poison) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory), first = (begin + 3) / 4 * 4;
    auto* words = reinterpret_cast<std::uint32_t*>(first);
    for (std::int64_t left = (bytes - static_cast<std::int64_t>(first - begin)) / 4; left > 0;
         left -= kPartWords) {
      const int count = static_cast<int>(std::min<std::int64_t>(left, kPartWords));
      parts_.push_back({words, nullptr, count, poison});
      words += count;
      words_ += count;
    }
  }
  template <typename T>
  void add(const Device<T>& memory, std::uint32_t poison) {
    add(memory.get(), static_cast<std::int64_t>(memory.size() * sizeof(T)), poison);
  }

  // Enqueues: begins when all has ended that the stream holds, ends before the writer begins.
  void poison(cudaStream_t stream) {
    const auto words = static_cast<std::size_t>(words_);
    if (kept_.size() < words) kept_ = Device<std::uint32_t>(words + words / 2);
    if (device_parts_.size() < parts_.size()) device_parts_ = Device<LatePart>(2 * parts_.size());
    std::uint32_t* kept = kept_.get();
    for (LatePart& part : parts_) part.kept = std::exchange(kept, kept + part.words);
    must(cudaMemcpyAsync(device_parts_.get(), parts_.data(), parts_.size() * sizeof(LatePart),
                         cudaMemcpyHostToDevice, stream),
         "parts");
    // Launched without overlap, even if there is nothing to poison.
    keep_and_poison(device_parts_.get(), static_cast<int>(parts_.size()), 64, stream);
  }

  // Behind poison(). Returns when all is done. By repeat(), which says whether it shows anything.
  void write(const std::function<void()>& enqueue, cudaStream_t stream, const char* what) {
    flags_->go = overlaps_ ? 0 : 1;
    flags_->early = 0;
    write_late(device_parts_.get(), static_cast<int>(parts_.size()), flags_, stream);
    enqueue();
    flags_->go = 1;
    must(cudaStreamSynchronize(stream), what);
    if (flags_->early != 0) ++early_;
  }

  // Does `attempt`, which puts everything as it was before, until no write in it came before all
  // was enqueued. False if some did each time, so that a kernel that reads too early might have
  // found what it needs.
  [[nodiscard]] bool repeat(const std::function<void()>& attempt) {
    for (int i = 0; i < kAttempts; ++i) {
      const int before = early_;
      attempt();
      if (early_ == before) return true;
    }
    return false;
  }

 private:
  static constexpr int kPartWords = 1024;
  static constexpr int kAttempts = 5;

  volatile LateFlags* flags_ = nullptr;
  bool overlaps_ = true;  // until the trial says otherwise
  int early_ = 0;         // writes that did not wait
  std::vector<LatePart> parts_;
  std::int64_t words_ = 0;
  Device<std::uint32_t> kept_;
  Device<LatePart> device_parts_;
};

}  // namespace causeway::kernels::testing
