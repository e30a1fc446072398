#include "bench/zipf_router.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/random.h"

namespace causeway::bench {
namespace {

// Scores are normal, draws without replacement would want Gumbel's distribution. With this factor
// the first quarter of 128 experts gets the same part of 8 choices (0.70 at exponent 1).
constexpr double kOfNormal = 0.55;
// Of the norms in front of attention and experts: both add next to nothing to the residual stream,
// so that it stays what the embedding says in all layers, and differs from token to token.
constexpr float kNorm = 1.0f / 4096;

struct Matrix {
  BFloat16* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  BFloat16& at(std::int64_t row, std::int64_t col) const { return data[row * cols + col]; }
};

class Skewer {
 public:
  Skewer(std::span<std::byte> weights, const model::ModelCard& card, double exponent)
      : weights_(weights), card_(card), exponent_(exponent), random_(17) {}

  void run() {
    const Matrix embedding = matrix("embedding", "embedding");
    const double scale = deviation(embedding);
    const auto common =
        to_bfloat16(static_cast<float>(scale * std::sqrt(static_cast<double>(embedding.cols))));
    for (std::int64_t row = 0; row < embedding.rows; ++row) embedding.at(row, 0) = common;
    for (std::int64_t i = 0; i < card_.config.layers; ++i) skew_layer(i, scale);
  }

 private:
  // No data: the group has no such tensor.
  Matrix matrix(const std::string& group, const std::string& tensor) const {
    const weights::PlacedWeights placed{&card_.layout, weights_.data()};
    if (!placed.has(group, tensor)) return {};
    const weights::TensorView view = placed.tensor(group, tensor);
    CAUSEWAY_CHECK(view.dtype == DType::kBF16, "routers of bf16 are skewed only");
    // The same memory, which this owner may change.
    const std::ptrdiff_t offset = view.data - weights_.data();
    return {reinterpret_cast<BFloat16*>(weights_.data() + offset), view.rows, view.cols};
  }

  static double deviation(const Matrix& matrix) {
    const std::int64_t count = std::min<std::int64_t>(matrix.rows * matrix.cols, 1 << 20);
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = to_float(matrix.data[i]);
      squares += value * value;
    }
    return std::sqrt(squares / static_cast<double>(count));
  }

  // So that the product's first output is nought; `each`: rows of one of several in the matrix.
  static void clear_first_row(const Matrix& matrix, std::int64_t each) {
    for (std::int64_t row = 0; row < matrix.rows; row += each) {
      std::fill_n(&matrix.at(row, 0), matrix.cols, BFloat16{});
    }
  }

  void skew_layer(std::int64_t layer, double scale) {
    const std::string group = "layers." + std::to_string(layer);
    for (const char* product : {"o", "down", "experts_down"}) {
      const Matrix weight = matrix(group, product);
      if (weight.data != nullptr) clear_first_row(weight, card_.config.hidden);
    }
    const Matrix router = matrix(group, "router");
    if (router.data == nullptr) return;
    for (const char* name : {"input_norm", "post_norm"}) {
      const Matrix norm = matrix(group, name);
      std::fill_n(norm.data, norm.rows * norm.cols, to_bfloat16(kNorm));
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(router.rows));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) {
      const auto j = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)));
      std::swap(order[i - 1], order[j]);
    }
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const double popular = -exponent_ * std::log(static_cast<double>(rank + 1));
      router.at(order[rank], 0) = to_bfloat16(static_cast<float>(kOfNormal * scale * popular));
    }
  }

  const std::span<std::byte> weights_;
  const model::ModelCard& card_;
  const double exponent_;
  Random random_;
};

}  // namespace

void skew_routers(std::span<std::byte> weights, const model::ModelCard& card, double exponent) {
  Skewer(weights, card, exponent).run();
}

}  // namespace causeway::bench
