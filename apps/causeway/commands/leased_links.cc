#include "commands/leased_links.h"

#include "base/check.h"
#include "device/link_profile.h"

namespace causeway::app {

Result<std::unique_ptr<transfer::LeaseBook>> book_of_workers(
    std::vector<int> gpus, std::span<const topology::ChosenInstance> instances,
    const transfer::LinkShares& machine) {
  std::unique_ptr<transfer::LeaseBook> book;
  if (instances.empty()) {
    CAUSEWAY_ASSIGN(book, transfer::LeaseBook::create(machine, gpus));
  } else {
    for (int& gpu : gpus) {
      CAUSEWAY_CHECK(gpu >= 0 && gpu < std::ssize(instances), "a worker of no instance");
      gpu = topology::link_of_instance(instances, gpu);
    }
    const transfer::LinkShares links(
        device::make_link_tree({.devices = static_cast<int>(instances.size())}));
    CAUSEWAY_ASSIGN(book, transfer::LeaseBook::create(links, gpus));
  }
  if (!book->shared()) book.reset();
  return book;
}

}  // namespace causeway::app
