#include "commands/link_settings.h"

#include <string_view>
#include <utility>

#include "option_advice.h"

namespace causeway::app {
namespace {

// The link map that `causeway topology --measure` has kept in `folder`.
Result<slice::MeasuredLinks> kept_links(const std::string& folder) {
  CAUSEWAY_ASSIGN(const topology::Machine machine, look_at_machine());
  slice::MeasuredLinks links;
  CAUSEWAY_ASSIGN(links.map, transfer::load_link_map(folder, transfer::machine_identity(machine)));
  for (const topology::Gpu& gpu : machine.gpus) links.gpus.push_back(gpu.pci_id);
  return links;
}

// For a log, which prints what the libraries say as it is.
Result<slice::MeasuredLinks> kept_links_or_advice(const std::string& folder) {
  auto links = kept_links(folder);
  if (links.ok()) return links;
  return Error{links.error().code, with_options(links.error().message)};
}

constexpr std::string_view kGpu = "gpu:";

std::string check_home(const std::string& home) {
  const bool numbered = home.starts_with(kGpu) && home.size() > kGpu.size() &&
                        home.size() <= kGpu.size() + 2 &&
                        home.find_first_not_of("0123456789", kGpu.size()) == std::string::npos;
  return home == "host" || numbered ? "" : "\"" + home + "\" is neither host nor gpu:N";
}

}  // namespace

void LinkSettings::declare(Options& command, const std::string& group) {
  command
      .add_option("--links", choice_,
                  "links that bring weights to the GPU: own; map (those that help, by the link map "
                  "that `causeway topology --measure` keeps; without one its own); all (of every "
                  "GPU that the process sees and that reaches it)")
      .one_of({"own", "map", "all"})
      .group(group)
      .show_default();
  command.add_option("--link-map-dir", folder_, "folder of the link map")
      .group(group)
      .show_default();
  command
      .add_option(
          "--home", home_,
          "memory from which cached and streamed weights come: host, or gpu:N for another GPU's "
          "memory (over NVLink), which then holds a copy of every model that is ready")
      .check(check_home, "host|gpu:N")
      .group(group)
      .show_default();
}

int LinkSettings::home_gpu() const {
  return home_.starts_with(kGpu) ? std::stoi(home_.substr(kGpu.size())) : -1;
}

slice::LinkOptions LinkSettings::options() const {
  slice::LinkOptions options;
  if (choice_ == "own") options.choice = slice::LinkChoice::kOwn;
  if (choice_ == "all") options.choice = slice::LinkChoice::kAll;
  options.home_gpu = home_gpu();
  options.measured = [folder = folder_] { return kept_links_or_advice(folder); };
  return options;
}

}  // namespace causeway::app
