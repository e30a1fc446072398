#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "bench/chunk_profiler.h"
#include "bench/commands/measuring.h"
#include "bench/commands/profile_file.h"
#include "bench/home_profile.h"
#include "commands/model_config.h"
#include "this_machine.h"
#include "version.h"

namespace causeway::app {
namespace {

using kernels::home_gemm::Home;
using kernels::home_gemm::MachineProfile;

constexpr const char* kHomeFile = "home-profile.json";
constexpr const char* kChunkFile = "chunk-profile.json";

class ProfileCommand final : public Command {
 public:
  ProfileCommand(Options& parent, const Clock& clock)
      : Command(parent, "profile",
                "Measure products whose weight is in host memory or at a peer GPU, for their "
                "planner; or, with --model-config, how long a model's steps take by chunk size"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--out", file_,
                   "file to write; for products it keeps its entries of other GPUs and homes, for "
                   "chunks it is replaced (default then: chunk-profile.json)")
        .show_default(kHomeFile);
    app.add_option("--gpu", gpu_, "number of the GPU").non_negative();
    app.add_option("--runs", runs_, "runs for each figure, of which the median is kept")
        .range(3, 1000)
        .show_default();
    declare_products();
    declare_chunks();
  }

  Status run() override { return configs_.empty() ? profile_products() : profile_chunks(); }

 private:
  void declare_products() {
    const char* const kGroup = "Products at home";
    auto& app = options();
    app.add_option("--home", homes_,
                   "memory of the weights; default: host, and peer if there is a second GPU")
        .one_of({"host", "peer"})
        .delimiter(',')
        .group(kGroup);
    app.add_flag("--quick", quick_, "fewer sizes, in less than a minute instead of some minutes")
        .group(kGroup);
  }

  void declare_chunks() {
    const char* const kGroup = "Chunks";
    auto& app = options();
    app.add_option("--model-config", configs_,
                   "config.json of a model whose steps are measured for serve's --chunk-profile; "
                   "only shapes matter, weights are random; may be repeated")
        .one_value()
        .existing_file()
        .group(kGroup);
    app.add_option("--device", device_, "device: cuda or cpu")
        .one_of({"cuda", "cpu"})
        .group(kGroup)
        .show_default();
    app.add_option("--slices", chunks_.slices,
                   "sizes of slices, as serve's --slices has them, e.g. all or 2x56; may be "
                   "repeated")
        .one_value()
        .group(kGroup)
        .show_default("all");
    app.add_option(
           "--max-num-batched-tokens", chunks_.most.count,
           "tokens of the largest step; servers that use the profile may not have larger ones")
        .range(1, 65'535)
        .group(kGroup)
        .show_default();
    app.add_option("--decodes", chunks_.decodes, "sequences that decode beside a chunk")
        .range(1, 4096)
        .group(kGroup)
        .show_default();
    app.add_option("--context", chunks_.context, "tokens of context of each of these sequences")
        .range(1, 1 << 20)
        .group(kGroup)
        .show_default();
  }

  Status profile_chunks() {
    if (quick_ || !homes_.empty()) {
      return invalid_argument("--home and --quick are for products: leave out --model-config");
    }
    const std::string file = file_.empty() ? kChunkFile : file_;
    for (const std::string& config : configs_) {
      CAUSEWAY_ASSIGN(model::ModelConfig shape, read_model_config(config));
      chunks_.models.push_back({model_name_of(config), std::move(shape)});
    }
    const auto here = look_at_machine();
    const bool driver = device_ == "cuda" && here.ok() && !here->driver.empty();
    chunks_.runs = runs_;
    chunks_.progress = [](const std::string& what) { fmt::print(stderr, "{} …\n", what); };
    chunks_.save = [&](const auto& chunks) { return write_chunk_profile(file, chunks); };
    CAUSEWAY_ASSIGN(const auto machine, device_ == "cuda" ? bench::open_gpu_for_chunks(gpu_, clock_)
                                                          : bench::open_cpu_for_chunks(clock_));
    CAUSEWAY_ASSIGN(
        const engine::MeasuredChunks measured,
        bench::profile_chunks(chunks_, *machine,
                              {.driver = driver ? here->driver : "none", .commit = commit()}));
    fmt::print("{}\nwritten to {}\n", bench::to_text(measured), file);
    return {};
  }

  Status profile_products() {
    const std::string file = file_.empty() ? kHomeFile : file_;
    // What is in the file is read first, so that a bad one costs no measuring.
    std::vector<MachineProfile> machines;
    if (std::filesystem::exists(file)) {
      CAUSEWAY_ASSIGN(machines, read_profiles(file));
    }
    CAUSEWAY_ASSIGN(const auto slices, HomeSlices::open(gpu_, clock_));
    auto settings = quick_ ? HomeProfileSettings::quick() : HomeProfileSettings::whole();
    settings.runs = runs_;
    for (const Home home : homes(*slices)) {
      CAUSEWAY_ASSIGN(const MachineProfile measured,
                      measure_home_profile(*slices, home, settings, print_progress));
      print(measured);
      machines = merged(std::move(machines), {measured});
      CAUSEWAY_TRY(write_profiles(file, machines));
    }
    fmt::print("written to {}\n", file);
    return {};
  }

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
  std::string file_;
  std::vector<std::string> homes_;
  bool quick_ = false;
  int gpu_ = 0;
  std::int64_t runs_ = 5;
  std::string device_ = "cuda";
  std::vector<std::string> configs_;
  bench::ChunkProfileSettings chunks_;
};

}  // namespace

std::unique_ptr<Command> make_profile(Options& parent, const Clock& clock) {
  return std::make_unique<ProfileCommand>(parent, clock);
}

}  // namespace causeway::app
