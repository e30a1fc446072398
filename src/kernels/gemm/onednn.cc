#include "kernels/gemm/onednn.h"

#include "base/check.h"

#ifdef CAUSEWAY_ONEDNN

#include <list>
#include <map>
#include <new>
#include <string>

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/cpu.h"

namespace causeway::kernels::gemm {
namespace {

// Prepared products kept: a model has about six shapes of weight, a server many counts of rows.
constexpr std::size_t kPreparedMax = 1024;

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t cols, DType dtype,
                          std::int64_t row_stride, std::int64_t col_stride) {
  using Type = dnnl::memory::data_type;
  return {{rows, cols}, dtype == DType::kBF16 ? Type::bf16 : Type::f32, {row_stride, col_stride}};
}

struct Prepared {
  dnnl::matmul product;
  dnnl::memory x;
  dnnl::memory w;
  dnnl::memory out;
};

}  // namespace

class OneDnn::State {
 public:
  State() {
    // It takes effect before oneDNN's first product, and fails afterwards.
    const Variant limit = variants_limit();
    if (limit == Variant::kAvx512) (void)dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
    if (limit == Variant::kAvx2) (void)dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    if (limit == Variant::kPlain) (void)dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
  }

  void run(const Product& product, const void* x, const void* w, float* out) {
    Prepared& prepared = find_or_prepare(product);
    prepared.x.set_data_handle(const_cast<void*>(x));
    prepared.w.set_data_handle(const_cast<void*>(w));
    prepared.out.set_data_handle(out);
    prepared.product.execute(
        stream_,
        {{DNNL_ARG_SRC, prepared.x}, {DNNL_ARG_WEIGHTS, prepared.w}, {DNNL_ARG_DST, prepared.out}});
    stream_.wait();
  }

 private:
  // Oldest first: prepared products are dropped in the order in which they were made.
  Prepared& find_or_prepare(const Product& product) {
    const auto found = prepared_.find(product);
    if (found != prepared_.end()) return found->second;
    if (prepared_.size() >= kPreparedMax) {
      prepared_.erase(order_.front());
      order_.pop_front();
    }
    Prepared made = prepare(product);
    order_.push_back(product);
    return prepared_.emplace(product, std::move(made)).first->second;
  }

  Prepared prepare(const Product& p) {
    const auto x = matrix(p.m, p.k, p.dtype, p.x_stride, 1);
    const auto w = matrix(p.k, p.n, p.dtype, 1, p.k);  // [n][k] seen as its transpose
    const auto out = matrix(p.m, p.n, DType::kF32, p.out_stride, 1);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, w, out), engine_);
    return {dnnl::matmul(description), dnnl::memory(x, engine_, DNNL_MEMORY_NONE),
            dnnl::memory(w, engine_, DNNL_MEMORY_NONE),
            dnnl::memory(out, engine_, DNNL_MEMORY_NONE)};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Product, Prepared> prepared_;
  std::list<Product> order_;
};

bool OneDnn::can_multiply(DType dtype) {
  return dtype != DType::kBF16 || is_available(Variant::kAvx512Bf16);
}

OneDnn::OneDnn() : state_(std::make_unique<State>()) {}

void OneDnn::run(const Product& product, const void* x, const void* w, float* out) {
  try {
    state_->run(product, x, w, out);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    CAUSEWAY_CHECK(false, std::string("oneDNN refused a product: ") + error.what());
  }
}

}  // namespace causeway::kernels::gemm

#else

namespace causeway::kernels::gemm {

class OneDnn::State {};

bool OneDnn::can_multiply(DType) { return false; }

OneDnn::OneDnn() = default;

void OneDnn::run(const Product&, const void*, const void*, float*) {
  CAUSEWAY_CHECK(false, "this build has no oneDNN");
}

}  // namespace causeway::kernels::gemm

#endif

namespace causeway::kernels::gemm {

OneDnn::~OneDnn() = default;
OneDnn::OneDnn(OneDnn&&) noexcept = default;
OneDnn& OneDnn::operator=(OneDnn&&) noexcept = default;

}  // namespace causeway::kernels::gemm
