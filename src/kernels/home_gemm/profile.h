// What the ways of a product at home take on a machine: the offline profile of the paper's kernel
// repository. Measured by `causeway profile`, written and read as JSON, and asked by the planner;
// without a file, the figures of docs/measurements/hybrid-gemm-h200.md (one H200, PCIe 5 x16, and
// a peer over NVLink 4).
//
// A point is the seconds of one way (or of the product with w in HBM) at one precision, weight
// [n][k], M and number of SMs. Between points, by this rule and no other:
//
//   1. M        linear between neighbours; below the smallest as there, beyond the largest in
//               proportion to M. The running maximum over M is taken first, so that noise never
//               makes a larger product cheaper.
//   2. SMs      the largest measured slice that is no larger than the slice at hand; if there is
//               none, the smallest, its seconds in proportion to the missing SMs.
//   3. weights  linear in n · k between the two nearest, again after a running maximum; beyond the
//               smallest and the largest in proportion.
//
// Points beside a neighbour are two factors for each kind of way: how much slower the product gets,
// and how much slower the neighbour.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "kernels/home_gemm/way.h"

namespace causeway::kernels::home_gemm {

// The operands' type. There is one today; a file that names another is refused.
inline constexpr std::string_view kPrecision = "bf16";

struct Point {
  std::optional<Way> way;  // empty: the product with w in HBM
  std::int64_t n = 0;      // rows of w
  std::int64_t k = 0;
  std::int64_t m = 0;
  int sms = 0;
  double seconds = 0;
};

// Beside a neighbour that decodes.
struct Beside {
  double product = 1;    // seconds of the product, ÷ those alone
  double neighbour = 1;  // seconds of the neighbour's step, ÷ those alone
};

// One GPU and one link to a home.
struct MachineProfile {
  std::string gpu;  // as the driver names it
  Home home = Home::kHost;
  double copy_gb_per_s = 0;  // a copy engine bringing a weight
  double read_gb_per_s = 0;  // a kernel reading it once
  Beside staged, in_place;
  std::vector<Point> points;
};

// The seconds of a product by the rule above; nothing when the way was not measured.
struct Question {
  std::optional<Way> way;
  std::int64_t weights = 0;  // rows of w × k
  std::int64_t m = 0;
  int sms = 0;
};

class Profile {
 public:
  // kInvalidArgument: no link rate, a figure that is not positive and finite, a factor below 1.
  static Result<Profile> of(MachineProfile machine);
  // The figures that are built in, for a home.
  static const Profile& built_in(Home home);

  std::optional<double> seconds(const Question& question) const;
  const MachineProfile& machine() const { return machine_; }
  // How the way and a neighbour slow each other.
  const Beside& beside(Way way) const {
    return way == Way::kStaged ? machine_.staged : machine_.in_place;
  }

 private:
  explicit Profile(MachineProfile machine);

  using Curve = std::map<std::int64_t, double>;    // by M, never falling
  using Slices = std::map<int, Curve>;             // by SMs
  using Weights = std::map<std::int64_t, Slices>;  // by rows × k
  MachineProfile machine_;
  std::map<int, Weights> ways_;  // −1: w in HBM
};

// A file of profiles. Its entries are of different GPUs or homes.
//
//   {"format": "causeway-home-profile", "version": 1, "machines": [{"gpu": "NVIDIA H200",
//     "home": "host", "precision": "bf16", "copy_gb_per_s": 55.2, "read_gb_per_s": 51.1,
//     "beside": {"staged": [1.0, 1.07], "in_place": [1.19, 1.32]},
//     "points": [{"way": "staged", "n": 16384, "k": 4096, "m": 1, "sms": 132, "ms": 2.46}, …]}]}
//
// kCorrupt, with the entry and the field, for whatever else it holds; kUnsupported for another
// version or precision. Unknown fields are ignored.
Result<std::vector<MachineProfile>> parse_profiles(std::string_view json);
std::string profiles_json(const std::vector<MachineProfile>& machines);

// The entry of a GPU and home, or, of none, what is built in.
Result<Profile> profile_for(const std::vector<MachineProfile>& machines, std::string_view gpu,
                            Home home);

}  // namespace causeway::kernels::home_gemm
