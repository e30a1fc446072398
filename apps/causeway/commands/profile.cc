#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "bench/home_profile.h"
#include "commands/command.h"
#include "commands/profile_file.h"

namespace causeway::app {
namespace {

using kernels::home_gemm::Home;
using kernels::home_gemm::MachineProfile;

class ProfileCommand final : public Command {
 public:
  ProfileCommand(Options& parent, const Clock& clock)
      : Command(parent, "profile",
                "Measure how fast products are whose weight is in host memory or at a peer GPU"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--out", file_, "the profile; entries of other GPUs and homes in it stay")
        .show_default();
    app.add_option("--home", homes_,
                   "where weights lie; without it host, and peer where there is one")
        .one_of({"host", "peer"})
        .delimiter(',');
    app.add_flag("--quick", quick_, "fewer sizes, within a minute; the whole takes some");
    app.add_option("--gpu", gpu_, "which GPU").non_negative();
    app.add_option("--runs", runs_, "of each figure; the median is kept")
        .range(3, 1000)
        .show_default();
  }

  Status run() override {
    // What is in the file is read first, so that a bad one costs no measuring.
    std::vector<MachineProfile> machines;
    if (std::filesystem::exists(file_)) {
      CAUSEWAY_ASSIGN(machines, read_profiles(file_));
    }
    CAUSEWAY_ASSIGN(const auto slices, HomeSlices::open(gpu_, clock_));
    auto settings = quick_ ? HomeProfileSettings::quick() : HomeProfileSettings::whole();
    settings.runs = runs_;
    for (const Home home : homes(*slices)) {
      CAUSEWAY_ASSIGN(const MachineProfile measured,
                      measure_home_profile(*slices, home, settings, print_progress));
      print(measured);
      machines = merged(std::move(machines), {measured});
      CAUSEWAY_TRY(write_profiles(file_, machines));
    }
    fmt::print("written to {}\n", file_);
    return {};
  }

 private:
  std::vector<Home> homes(const HomeSlices& slices) const {
    std::vector<Home> all;
    for (const std::string& name : homes_) all.push_back(*kernels::home_gemm::home_named(name));
    if (!all.empty()) return all;
    all.push_back(Home::kHost);
    if (slices.has_peer()) all.push_back(Home::kPeer);
    return all;
  }

  static void print_progress(std::size_t done, std::size_t all, const std::string& what) {
    fmt::print(stderr, "[{}/{}] {}\n", done + 1, all, what);
  }

  static void print(const MachineProfile& m) {
    fmt::print(
        "{}, {}: copy engine {:.1f} GB/s, kernels {:.1f} GB/s, {} figures; beside a neighbour "
        "staging takes {:.2f} × and the neighbour {:.2f} ×, in place {:.2f} × and {:.2f} ×\n",
        m.gpu, name_of(m.home), m.copy_gb_per_s, m.read_gb_per_s, m.points.size(), m.staged.product,
        m.staged.neighbour, m.in_place.product, m.in_place.neighbour);
  }

  const Clock& clock_;
  std::string file_ = "home-profile.json";
  std::vector<std::string> homes_;
  bool quick_ = false;
  int gpu_ = 0;
  std::int64_t runs_ = 5;
};

}  // namespace

std::unique_ptr<Command> make_profile(Options& parent, const Clock& clock) {
  return std::make_unique<ProfileCommand>(parent, clock);
}

}  // namespace causeway::app
