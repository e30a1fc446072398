#include "model/step_traffic.h"

#include <algorithm>
#include <vector>

#include "kernels/home_gemm/home_gemm.h"
#include "kernels/home_gemm/profile.h"
#include "kernels/home_gemm/traffic.h"
#include "model/step_products.h"
#include "model/step_work.h"

namespace causeway::model {
namespace {

using kernels::gemm::CudaRequest;
using kernels::home_gemm::Facts;
using kernels::home_gemm::Profile;
using kernels::home_gemm::TrafficOf;

struct LayerProduct {
  CudaRequest request;
  std::int64_t layers = 0;
};

std::vector<LayerProduct> products_of(const ModelConfig& c, std::int64_t rows) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const std::int64_t dense_layers = c.layers - sparse_layers(c);
  const bool silu = c.activation == kernels::activation::Gate::kSilu;
  const bool residual = !c.output_norms;
  std::vector<LayerProduct> products = {
      {{.m = rows, .n = q + 2 * kv, .k = c.hidden, .bias = c.attention_bias}, c.layers},
      {{.m = rows, .n = c.hidden, .k = q, .bias = c.output_bias, .residual = residual}, c.layers}};
  if (dense_layers > 0) {
    products.push_back({{.m = rows,
                         .n = silu ? c.intermediate : 2 * c.intermediate,
                         .k = c.hidden,
                         .bias = c.mlp_bias,
                         .silu_mul = silu},
                        dense_layers});
    products.push_back(
        {{.m = rows, .n = c.hidden, .k = c.intermediate, .bias = c.mlp_bias, .residual = residual},
         dense_layers});
  }
  return products;
}

// A slice has room for as many clusters as its SMs make, or fewer.
Facts facts_of(int sm_count) {
  Facts facts;
  facts.sm_count = sm_count;
  for (std::size_t i = 0; i < facts.clusters.size(); ++i) {
    facts.clusters[i] = std::min(facts.clusters[i], sm_count >> i);
  }
  return facts;
}

Result<TrafficOf> way_of(const CudaRequest& request, int sm_count) {
  // One pass over x, and gate and up side by side, as the library has it.
  if (sm_count == 0) return TrafficOf{.way = kernels::home_gemm::Way::kLibrary};
  CAUSEWAY_ASSIGN(const auto plan,
                  kernels::home_gemm::choose(request, facts_of(sm_count),
                                             Profile::built_in(kernels::home_gemm::Home::kHost)));
  return kernels::home_gemm::traffic_of(plan);
}

}  // namespace

Result<ActivationPasses> activation_passes(const ModelConfig& config, std::int64_t rows,
                                           int sm_count) {
  double x = 0, x_moved = 0, out = 0, out_moved = 0;
  for (const LayerProduct& product : products_of(config, rows)) {
    const CudaRequest request = dense(product.request);
    CAUSEWAY_ASSIGN(const TrafficOf of, way_of(request, sm_count));
    const kernels::home_gemm::Traffic moved = kernels::home_gemm::traffic(request, of);
    const auto layers = static_cast<double>(product.layers);
    x += layers * static_cast<double>(rows * request.k * 2);
    x_moved += layers * static_cast<double>(moved.x.count);
    out += layers * static_cast<double>(rows * request.n * 2);
    out_moved += layers * static_cast<double>(moved.out.count);
  }
  return ActivationPasses{.x = x_moved / x, .out = out_moved / out};
}

}  // namespace causeway::model
