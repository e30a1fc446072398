// Which tiles, which CTAs: a pure function of the shape and of what is known about the slice.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::hybrid_gemm {
namespace {

constexpr std::int64_t kElementBytes = 2;

int clusters_of(const SliceFacts& slice, int cluster) {
  const int index = cluster == 8 ? 3 : cluster == 4 ? 2 : cluster == 2 ? 1 : 0;
  return std::min(slice.clusters[static_cast<std::size_t>(index)], slice.sm_count / cluster);
}

Status check(const Request& request, const SliceFacts& slice) {
  const Shape& s = request.shape;
  const std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (s.m <= 0 || s.n <= 0 || s.k <= 0) return invalid_argument("HybridGEMM: empty shape");
  if (s.m > limit || s.n > limit || s.k > limit) {
    return invalid_argument("HybridGEMM: a dimension of 2^31 or more");
  }
  if (!(request.alpha >= 0.0 && request.alpha <= 1.0)) {
    return invalid_argument("HybridGEMM: alpha is outside [0, 1]");
  }
  const int c = request.cluster_ctas;
  if (c != 0 && c != 1 && c != 2 && c != 4 && c != 8) {
    return invalid_argument("HybridGEMM: a cluster has 1, 2, 4 or 8 CTAs");
  }
  if (clusters_of(slice, 1) < 3) return invalid_argument("HybridGEMM: too few SMs");
  return {};
}

// The smallest cluster whose rows hold all of M, so that W crosses the link once; no more than the
// slice offers. Beyond that every further doubling still halves the crossings.
int choose_cluster(const Request& request, const SliceFacts& slice, bool any_symmetric) {
  // A ring needs no multicast over the link. Two CTAs that share a W tile halve what L2
  // has to deliver for it; more only makes clusters harder to place.
  const int limit = any_symmetric ? 8 : 2;
  int cluster = std::max(1, request.cluster_ctas);
  if (request.cluster_ctas == 0) {
    while (cluster * 2 <= limit && cluster * kStreamRows < request.shape.m) cluster *= 2;
  }
  // Three clusters at least, so that both parts and the relay can have one.
  while (cluster > 1 && clusters_of(slice, cluster) < 3) cluster /= 2;
  return cluster;
}

// Seconds that `ctas` SMs need for the arithmetic of `columns` columns.
double compute_seconds(const Shape& shape, std::int64_t columns, const SliceFacts& slice,
                       int ctas) {
  const double operations = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.k) *
                            static_cast<double>(columns);
  return operations / (slice.matrix_tflop_per_s * 1e12 * static_cast<double>(ctas));
}

// Seconds that `columns` columns of W need to cross the link `times` times.
double link_seconds(const Shape& shape, std::int64_t columns, double times,
                    const SliceFacts& slice) {
  const double bytes =
      static_cast<double>(columns) * static_cast<double>(shape.k) * kElementBytes * times;
  return bytes / (slice.link_gb_per_s * 1e9);
}

// CTAs that relay W into the ring: whole clusters, at most a fourth of the slice, so many that the
// larger of what is left to the arithmetic and what they make of the link is smallest. Where the
// link stays the limit, up to twice what it needs: the queues in front of it make single SMs slow.
int choose_relays(const Plan& plan, const SliceFacts& slice, int ctas) {
  const std::int64_t columns = plan.shape.n - plan.n_symmetric;
  const double full_link = link_seconds(plan.shape, columns, 1, slice);
  const auto share = [&](int units) {  // of the link, 1: as much as it has
    return units * plan.cluster_ctas * slice.relay_gb_per_s / slice.link_gb_per_s;
  };
  const auto seconds = [&](int units) {
    return std::max(compute_seconds(plan.shape, columns, slice, ctas - units * plan.cluster_ctas),
                    full_link / std::min(1.0, share(units)));
  };
  const int limit = std::max(1, ctas / plan.cluster_ctas / 4);
  int best = 1;
  for (int units = 2; units <= limit; ++units) {
    if (seconds(units) < seconds(best)) best = units;
  }
  const double enough = seconds(best) * 1.01;
  while (best < limit && share(best + 1) <= 2.1 && seconds(best + 1) <= enough) ++best;
  return best * plan.cluster_ctas;
}

// CTAs for the symmetric part, in proportion to the time each part would need of the whole slice:
// the larger of its arithmetic (the same for both, per column) and its share of the link.
int choose_split(const Plan& plan, const SliceFacts& slice, int ctas) {
  const int cluster = plan.cluster_ctas;
  if (plan.n_symmetric == 0) return 0;
  if (plan.n_symmetric == plan.shape.n) return ctas;
  const double crossings = std::ceil(static_cast<double>(plan.shape.m) / (kStreamRows * cluster));
  const std::int64_t n_asym = plan.shape.n - plan.n_symmetric;
  const double symmetric = std::max(compute_seconds(plan.shape, plan.n_symmetric, slice, ctas),
                                    link_seconds(plan.shape, plan.n_symmetric, crossings, slice));
  const double asymmetric = std::max(compute_seconds(plan.shape, n_asym, slice, ctas),
                                     link_seconds(plan.shape, n_asym, 1, slice));
  const int units = ctas / cluster;
  const int wanted = static_cast<int>(std::lround(units * symmetric / (symmetric + asymmetric)));
  return std::clamp(wanted, 1, units - 1) * cluster;
}

Status plan_ring(const SliceFacts& slice, Plan& plan) {
  const std::int64_t steps = ceil_div(plan.shape.k, kStepK);
  const std::int64_t n_tiles = ceil_div(plan.shape.n - plan.n_symmetric, kTileN);
  const std::int64_t slot_bytes = steps * kStepK * kTileN * kElementBytes;
  const std::int64_t slots =
      std::min({slice.ring_bytes.count / slot_bytes, n_tiles, std::int64_t{kRingSlotsMax}});
  if (slots < 1) {
    return exhausted("HybridGEMM: the scratch is too small for a ring of weight tiles");
  }
  plan.slots = static_cast<int>(slots);
  // Tiles walked together must all fit, or the ring would wait for itself; half of it, so that the
  // next ones arrive meanwhile.
  plan.ring_group = static_cast<int>(std::clamp<std::int64_t>(slots / 2, 1, kRingGroupMax));
  plan.flag_bytes = round_up(Bytes(slots * (steps + 1) * 4), Bytes(1024));
  plan.workspace = plan.flag_bytes + Bytes(slots * slot_bytes);
  return {};
}

void account(Plan& plan) {
  const Shape& s = plan.shape;
  const std::int64_t crossings = ceil_div(s.m, std::int64_t{kStreamRows} * plan.cluster_ctas);
  const std::int64_t n_asym = s.n - plan.n_symmetric;
  plan.link_bytes = Bytes((plan.n_symmetric * crossings + n_asym) * s.k * kElementBytes);
  std::int64_t hbm = (s.m * s.k + s.m * s.n) * kElementBytes;
  hbm += n_asym * s.k * kElementBytes;  // written into the ring; L2 serves its readers
  plan.hbm_bytes = Bytes(hbm);
}

}  // namespace

Request recommend(const Shape& shape, const SliceFacts& slice) {
  Request best = {.shape = shape, .alpha = 1.0, .cluster_ctas = 1};
  double best_seconds = std::numeric_limits<double>::infinity();
  for (const int cluster : {1, 2, 4, 8}) {
    const int clusters = clusters_of(slice, cluster);
    if (clusters < 3 && cluster > 1) continue;
    const double crossings = std::ceil(static_cast<double>(shape.m) / (kStreamRows * cluster));
    const double seconds = std::max(compute_seconds(shape, shape.n, slice, clusters * cluster),
                                    link_seconds(shape, shape.n, crossings, slice));
    if (seconds >= best_seconds) continue;
    best_seconds = seconds;
    best.cluster_ctas = cluster;
  }
  const Request ring = {.shape = shape, .alpha = 0.0};
  const Result<Plan> plan = choose(ring, slice);
  if (!plan.ok()) return best;
  const double ring_seconds =
      std::max(compute_seconds(shape, shape.n, slice, plan->asymmetric_ctas),
               link_seconds(shape, shape.n, 1, slice));
  // The ring's tail and its scratch must be worth it.
  return ring_seconds * 1.05 < best_seconds ? ring : best;
}

bool aligned(const Operands& operands) {
  const auto sixteen = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return sixteen(operands.x) && sixteen(operands.w) && operands.x_stride % 8 == 0 &&
         operands.w_stride % 8 == 0;
}

Result<Plan> choose(const Request& request, const SliceFacts& slice) {
  CAUSEWAY_TRY(check(request, slice));
  Plan plan;
  plan.shape = request.shape;
  if (!request.aligned) {
    plan.variant = Variant::kPlain;
    plan.n_symmetric = request.shape.n;
    account(plan);
    return plan;
  }
  const double exact = std::floor(request.alpha * static_cast<double>(request.shape.n));
  plan.n_symmetric =
      request.alpha == 1.0 ? request.shape.n : static_cast<std::int64_t>(exact) / kTileN * kTileN;
  plan.cluster_ctas = choose_cluster(request, slice, plan.n_symmetric > 0);
  const int ctas = clusters_of(slice, plan.cluster_ctas) * plan.cluster_ctas;
  if (plan.n_symmetric < plan.shape.n) plan.relay_ctas = choose_relays(plan, slice, ctas);
  plan.symmetric_ctas = choose_split(plan, slice, ctas - plan.relay_ctas);
  plan.asymmetric_ctas = ctas - plan.relay_ctas - plan.symmetric_ctas;
  if (plan.asymmetric_ctas > 0) CAUSEWAY_TRY(plan_ring(slice, plan));
  account(plan);
  return plan;
}

}  // namespace causeway::kernels::hybrid_gemm
