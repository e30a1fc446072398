#include "commands/link_settings.h"

#include <utility>

namespace causeway::app {
namespace {

// As `causeway topology --measure` has kept it in `folder`.
Result<slice::MeasuredLinks> kept_links(const std::string& folder) {
  CAUSEWAY_ASSIGN(const topology::Machine machine, look_at_machine());
  slice::MeasuredLinks links;
  CAUSEWAY_ASSIGN(links.map, transfer::load_link_map(folder, transfer::machine_identity(machine)));
  for (const topology::Gpu& gpu : machine.gpus) links.gpus.push_back(gpu.pci_id);
  return links;
}

}  // namespace

void LinkSettings::declare(CLI::App& command, const std::string& group) {
  command
      .add_option("--links", choice_,
                  "links that bring weights to the GPU: own; map (those that help, by the link map "
                  "that `causeway topology --measure` keeps; without one its own); all (of every "
                  "GPU that the process sees and that reaches it)")
      ->check(CLI::IsMember({"own", "map", "all"}))
      ->group(group)
      ->capture_default_str();
  command.add_option("--link-map-dir", folder_, "where the link map is kept")
      ->group(group)
      ->capture_default_str();
}

slice::LinkOptions LinkSettings::options() const {
  slice::LinkOptions options;
  if (choice_ == "own") options.choice = slice::LinkChoice::kOwn;
  if (choice_ == "all") options.choice = slice::LinkChoice::kAll;
  options.measured = [folder = folder_] { return kept_links(folder); };
  return options;
}

}  // namespace causeway::app
