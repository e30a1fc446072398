// Any bytes as the YAML file of `causeway serve`, and changes of one (edited_file.h), read into the
// command's own options. What is refused names the file.
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/testing/edited_file.h"
#include "commands/command.h"
#include "settings.h"

namespace {

const std::vector<std::string> kFiles = {
    "# A service\nmodels-dir: /models\nhost: 127.0.0.1\nport: 8000\napi-key: [a, 'b']\n"
    "shutdown-grace: 30\nweights-memory-bytes: 40GB\nload-on-demand: true\n",
    "{served-model-name: m, max-model-len: 4096, slo-ttft-ms: '5000,chat=500', port: \"0x10\"}\n"};
constexpr std::string_view kWords[] = {
    "admin-port", "config",    "model", "max-queue", "slices", "&a [x, *a]", "*a", "!!binary x",
    "<<:",        "|\n  long", "? key", "---\n",     "40GiB",  "~",          "'",  "\t"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway;  // NOLINT: the fuzzer's entry must be global
  // A file in memory, the same one every time.
  static const int file = ::memfd_create("settings", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const auto edited =
      testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data), size});
  const std::string& text = edited.text;
  CAUSEWAY_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  CAUSEWAY_CHECK(::pwrite(file, text.data(), text.size(), 0) == std::ssize(text));

  const RealClock clock;
  CLI::App line("causeway");
  app::Options program(line);
  const auto serve = app::make_serve(program, clock);
  const Status status = app::apply_settings(serve->options(), path,
                                            [](const char*) -> const char* { return nullptr; });
  if (status.ok()) return 0;
  CAUSEWAY_CHECK(!edited.whole, status.error().message);
  CAUSEWAY_CHECK(status.error().message.starts_with(path));
  return 0;
}
