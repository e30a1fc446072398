// Which way, and its parameters: pure.
#include <algorithm>
#include <utility>

#include "kernels/home_gemm/home_gemm.h"
#include "kernels/home_gemm/profile.h"
#include "kernels/home_gemm/traffic.h"

namespace causeway::kernels::home_gemm {
namespace {

// A way that was not measured takes what it must move and multiply, and a tenth more, so that what
// was measured is preferred.
constexpr double kUnmeasured = 1.1;
// FLOP/s of one SM of Hopper's kind: cuBLAS's products of 4,096 rows reach 854 TFLOP/s on 132 SMs.
constexpr double kMatrixFlops = 6.4e12;
constexpr double kHbmBytes = 3.5e12;
// What one SM that only relays brings (hybrid_gemm.h).
constexpr double kRelayHost = 13.0, kRelayPeer = 26.0;

Status check(const gemm::CudaRequest& request, const Facts& facts) {
  if (facts.sm_count < 1) return invalid_argument("GEMM at home: a slice without SMs");
  if (facts.scratch.count < 0) return invalid_argument("GEMM at home: negative scratch");
  if (request.norm || request.parts != 1) {
    return unsupported("GEMM at home: neither a norm inside nor parts");
  }
  // The others are those of every product.
  const auto resident = gemm::choose(request, {.sm_count = facts.sm_count});
  return resident.ok() ? Status() : Status(resident.error());
}

std::int64_t weight_rows(const gemm::CudaRequest& r) { return (r.silu_mul ? 2 : 1) * r.n; }

std::int64_t weights_of(const gemm::CudaRequest& r) { return weight_bytes(r).count / 2; }

double arithmetic_seconds(const gemm::CudaRequest& r, int sms) {
  const double operations = 2.0 * static_cast<double>(r.m) * static_cast<double>(weights_of(r));
  return operations / (kMatrixFlops * sms);
}

// Seconds with w in HBM.
double resident_seconds(const gemm::CudaRequest& r, const Facts& facts, const Profile& profile) {
  const auto known = profile.seconds(
      {.way = std::nullopt, .weights = weights_of(r), .m = r.m, .sms = facts.sm_count});
  if (known) return *known;
  return std::max(arithmetic_seconds(r, facts.sm_count),
                  static_cast<double>(weight_bytes(r).count) / kHbmBytes);
}

double estimate(const gemm::CudaRequest& r, const Facts& facts, const Profile& profile,
                const TrafficOf& of) {
  const Traffic moved = traffic(r, of);
  const MachineProfile& machine = profile.machine();
  const double rate = of.way == Way::kStaged ? machine.copy_gb_per_s : machine.read_gb_per_s;
  return kUnmeasured * std::max({static_cast<double>(moved.link.count) / (rate * 1e9),
                                 static_cast<double>(moved.hbm.count) / kHbmBytes,
                                 arithmetic_seconds(r, facts.sm_count)});
}

void predict(Plan& plan, const Facts& facts, const Profile& profile) {
  const gemm::CudaRequest& r = plan.request;
  const auto known =
      profile.seconds({.way = plan.way, .weights = weights_of(r), .m = r.m, .sms = facts.sm_count});
  plan.measured = known.has_value();
  plan.seconds = known ? *known : estimate(r, facts, profile, traffic_of(plan));
}

Result<Plan> plan_staged(Plan plan, const Facts& facts, const Profile& profile) {
  if (!facts.copies) return unsupported("GEMM at home: no copies, so nothing can be staged");
  const ChunkRates rates = {.link_bytes_per_s = profile.machine().copy_gb_per_s * 1e9,
                            .product_seconds = resident_seconds(plan.request, facts, profile),
                            .sm_count = facts.sm_count};
  CAUSEWAY_ASSIGN(plan.chunks, cut(plan.request, facts.scratch, rates));
  for (const Chunk& chunk : plan.chunks) {
    plan.workspace = std::max(plan.workspace, chunk.product.workspace);
  }
  plan.scratch = facts.scratch;
  predict(plan, facts, profile);
  // What was measured had other pieces, perhaps worse ones, and scratch for all of the weight.
  const double modelled = staged_seconds(plan.request, plan.chunks, rates);
  plan.seconds = plan.measured ? std::max(plan.seconds, modelled) : kUnmeasured * modelled;
  return plan;
}

Result<Plan> plan_hybrid(Plan plan, const Facts& facts, const Profile& profile) {
  const gemm::CudaRequest& r = plan.request;
  if (r.out != gemm::CudaOut::kBF16 || !r.aligned || (r.silu_mul && (r.n % 8 != 0 || !r.boxed))) {
    return unsupported("GEMM at home: HybridGEMM writes bf16, from aligned operands");
  }
  // Its flags lie in the scratch too. A ring larger than was measured would leave L2.
  const Bytes flags(std::int64_t{hybrid_gemm::kRingSlotsMax} * (r.k / hybrid_gemm::kStepK + 2) * 4 +
                    1024);
  const Bytes ring = std::min(std::max(facts.scratch - flags, Bytes(0)), mib(32));
  const hybrid_gemm::SliceFacts slice = {
      .sm_count = facts.sm_count,
      .clusters = facts.clusters,
      .link_gb_per_s = profile.machine().read_gb_per_s,
      .relay_gb_per_s = facts.home == Home::kHost ? kRelayHost : kRelayPeer,
      .ring_bytes = ring};
  const hybrid_gemm::Request request = {.shape = {r.m, weight_rows(r), r.k},
                                        .alpha = plan.way == Way::kSymmetric ? 1.0 : 0.0};
  auto hybrid = hybrid_gemm::choose(request, slice);
  if (!hybrid.ok()) return unsupported("GEMM at home: " + hybrid.error().message);
  plan.hybrid = *hybrid;
  // Gate and up of all rows, side by side, until they are multiplied.
  if (r.silu_mul) plan.workspace = gemm::kFlagBytes + Bytes(r.m * weight_rows(r) * 2);
  plan.scratch = hybrid->workspace;
  predict(plan, facts, profile);
  return plan;
}

// Gemm's choice if that is a kernel of its own; else its split kernel, where it would take the
// library, which would fetch w again and again.
Result<gemm::CudaPlan> few_rows_plan(const gemm::CudaRequest& request, const Facts& facts) {
  const gemm::CudaFacts slice = {.sm_count = facts.sm_count};
  const auto chosen = gemm::choose(request, slice);
  if (chosen.ok() &&
      (chosen->path == gemm::CudaPath::kRows || chosen->path == gemm::CudaPath::kSplit)) {
    return chosen;
  }
  return gemm::plan_for(gemm::CudaPath::kSplit, request, slice);
}

Result<Plan> plan_gemm(Plan plan, const Facts& facts, const Profile& profile) {
  const auto library = plan.request.paired ? gemm::CudaPath::kLibrary : gemm::CudaPath::kPlain;
  const auto product = plan.way == Way::kFewRows
                           ? few_rows_plan(plan.request, facts)
                           : gemm::plan_for(library, plan.request, {.sm_count = facts.sm_count});
  if (!product.ok()) return product.error();
  plan.product = *product;
  plan.workspace = product->workspace;
  predict(plan, facts, profile);
  return plan;
}

// What a plan costs: its time, and what a neighbour loses meanwhile.
double cost(const Plan& plan, const Facts& facts, const Profile& profile) {
  if (!facts.neighbour) return plan.seconds;
  const Beside& beside = profile.beside(plan.way);
  return plan.seconds * beside.product * beside.neighbour;
}

Result<Plan> plan_checked(Way way, const gemm::CudaRequest& request, const Facts& facts,
                          const Profile& profile) {
  Plan plan;
  plan.request = request;
  plan.way = way;
  switch (way) {
    case Way::kStaged: return plan_staged(std::move(plan), facts, profile);
    case Way::kSymmetric:
    case Way::kRing: return plan_hybrid(std::move(plan), facts, profile);
    case Way::kFewRows:
    case Way::kLibrary: break;
  }
  return plan_gemm(std::move(plan), facts, profile);
}

}  // namespace

Result<Plan> plan_for(Way way, const gemm::CudaRequest& request, const Facts& facts,
                      const Profile& profile) {
  CAUSEWAY_TRY(check(request, facts));
  return plan_checked(way, request, facts, profile);
}

Result<Plan> choose(const gemm::CudaRequest& request, const Facts& facts, const Profile& profile) {
  CAUSEWAY_TRY(check(request, facts));
  Result<Plan> best = unsupported("GEMM at home: no way can do this product");
  double best_cost = 0;
  for (const Way way : kWays) {
    auto plan = plan_checked(way, request, facts, profile);
    if (!plan.ok()) continue;
    const double its_cost = cost(*plan, facts, profile);
    if (best.ok() && its_cost >= best_cost) continue;
    best_cost = its_cost;
    best = std::move(plan);
  }
  return best;
}

}  // namespace causeway::kernels::home_gemm
