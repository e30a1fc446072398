// Any bytes as the YAML file of `causeway serve`, read into the command's own options. What is
// refused names the file.
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "commands/command.h"
#include "settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway;  // NOLINT: the fuzzer's entry must be global
  // A file in memory, the same one every time.
  static const int file = ::memfd_create("settings", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  CAUSEWAY_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  CAUSEWAY_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));

  const RealClock clock;
  CLI::App line("causeway");
  app::Options program(line);
  const auto serve = app::make_serve(program, clock);
  const Status status = app::apply_settings(serve->options(), path,
                                            [](const char*) -> const char* { return nullptr; });
  if (!status.ok()) CAUSEWAY_CHECK(status.error().message.starts_with(path));
  return 0;
}
