#include "version.h"

#include "commit.h"  // of the build: cmake/CausewayCommit.cmake

namespace causeway::app {

std::string version() { return CAUSEWAY_VERSION; }

std::string commit() { return CAUSEWAY_COMMIT; }

std::string version_text() {
  return "causeway " + version() +
         " (CUDA: " CAUSEWAY_WITH_CUDA ", FlashInfer: " CAUSEWAY_WITH_FLASHINFER
         ", oneDNN: " CAUSEWAY_WITH_ONEDNN ", XGrammar: " CAUSEWAY_WITH_XGRAMMAR
         ", compiler: g++ " __VERSION__ ")";
}

}  // namespace causeway::app
