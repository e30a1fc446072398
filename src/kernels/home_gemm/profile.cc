#include "kernels/home_gemm/profile.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace causeway::kernels::home_gemm {
namespace {

int index_of(const std::optional<Way>& way) { return way ? static_cast<int>(*way) : -1; }

bool positive(double value) { return std::isfinite(value) && value > 0; }

// y at x on the line through two points, which have different x.
double on_line(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * ((x - x0) / (x1 - x0));
}

double at_rows(const std::map<std::int64_t, double>& curve, std::int64_t m) {
  const auto above = curve.lower_bound(m);
  if (above == curve.begin()) return above->second;
  const auto below = std::prev(above);
  const auto x = static_cast<double>(m), x0 = static_cast<double>(below->first);
  if (above == curve.end()) return below->second * (x / x0);
  return on_line(x, x0, below->second, static_cast<double>(above->first), above->second);
}

double on_slice(const std::map<int, std::map<std::int64_t, double>>& slices, int sms,
                std::int64_t m) {
  const auto above = slices.upper_bound(sms);
  if (above != slices.begin()) return at_rows(std::prev(above)->second, m);
  return at_rows(above->second, m) * (static_cast<double>(above->first) / sms);
}

void never_falling(std::map<std::int64_t, double>& curve) {
  double most = 0;
  for (auto& [m, seconds] : curve) most = seconds = std::max(most, seconds);
}

Status check(const Point& p) {
  if (p.n > 0 && p.k > 0 && p.m > 0 && p.sms > 0 && positive(p.seconds)) return {};
  return invalid_argument("profile: a point has a size or a time that is not positive");
}

}  // namespace

Result<Profile> Profile::of(MachineProfile machine) {
  if (!positive(machine.copy_gb_per_s) || !positive(machine.read_gb_per_s)) {
    return invalid_argument("profile: the link's rates are not positive");
  }
  for (const Beside& b : {machine.staged, machine.in_place}) {
    if (!(b.product >= 1 && b.neighbour >= 1 && b.product < 1e6 && b.neighbour < 1e6)) {
      return invalid_argument("profile: a factor beside a neighbour is not between 1 and 1e6");
    }
  }
  for (const Point& point : machine.points) CAUSEWAY_TRY(check(point));
  return Profile(std::move(machine));
}

Profile::Profile(MachineProfile machine) : machine_(std::move(machine)) {
  for (const Point& p : machine_.points) {
    double& seconds = ways_[index_of(p.way)][p.n * p.k][p.sms][p.m];
    seconds = std::max(seconds, p.seconds);  // of the same measured twice, or of n and k swapped
  }
  for (auto& [way, weights] : ways_) {
    for (auto& [size, slices] : weights) {
      for (auto& [sms, curve] : slices) never_falling(curve);
    }
  }
}

std::optional<double> Profile::seconds(const Question& q) const {
  const auto found = ways_.find(index_of(q.way));
  if (found == ways_.end() || q.weights <= 0 || q.m <= 0 || q.sms <= 0) return std::nullopt;
  const auto x = static_cast<double>(q.weights);
  double most = 0, before = 0, x_before = 0;
  for (const auto& [size, slices] : found->second) {
    const auto x_here = static_cast<double>(size);
    most = std::max(most, on_slice(slices, q.sms, q.m));
    if (x_here >= x) {
      if (x_before == 0) return most * (x / x_here);
      return on_line(x, x_before, before, x_here, most);
    }
    before = most;
    x_before = x_here;
  }
  return before * (x / x_before);
}

Result<Profile> profile_for(const std::vector<MachineProfile>& machines, std::string_view gpu,
                            Home home) {
  for (const MachineProfile& machine : machines) {
    if (machine.gpu == gpu && machine.home == home) return Profile::of(machine);
  }
  return Profile::built_in(home);
}

}  // namespace causeway::kernels::home_gemm
