// What benchmarks that run a slice in this process share.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/bench/machine_limits.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::bench {

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

struct Samples {
  std::vector<double> values;
  void add(double value) { values.push_back(value); }
  double median() const {
    if (values.empty()) return 0;
    auto sorted = values;
    const auto middle = sorted.begin() + std::ssize(sorted) / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
  double least() const {
    return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  }
  double most() const {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }
};

// Random bf16, a piece of it again and again: what crosses the link does not depend on more.
inline void fill_model(std::span<std::byte> memory) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  const std::size_t first = std::min(kPiece, memory.size());
  kernels::bench::fill_random_bf16(memory.first(first), 3, 0.03f);
  std::vector<std::thread> threads;
  const std::size_t parts = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
  for (std::size_t part = 0; part < parts; ++part) {
    threads.emplace_back([&, part] {
      for (std::size_t at = kPiece * (part + 1); at < memory.size(); at += kPiece * parts) {
        std::memcpy(memory.data() + at, memory.data(), std::min(kPiece, memory.size() - at));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A model of random weights, made at home, attached to the slice and told to its engine.
inline Result<model::ModelCard> add_random_model(ModelId id, const model::ModelConfig& config,
                                                 Tokens max_model_len, slice::ModelHome& home,
                                                 slice::Slice& slice) {
  CAUSEWAY_ASSIGN(model::ModelCard card, slice.card(config));
  CAUSEWAY_TRY(home.pool.make(id, card.layout,
                              [](std::span<std::byte> memory) {
                                fill_model(memory);
                                return Status();
                              },
                              {.home_taken = [&](device::HostAddress address, Bytes bytes) {
                                return slice.reach(address, bytes, {});
                              }}));
  CAUSEWAY_ASSIGN(auto pinned, home.pool.pin(id));
  CAUSEWAY_ASSIGN(
      const engine::ModelFacts facts,
      slice.attach(
          {.id = id, .card = card, .home = std::move(pinned), .max_model_len = max_model_len}));
  CAUSEWAY_TRY(slice.engine().add_model(id, facts));
  return card;
}

}  // namespace causeway::bench
