#include "version.h"

namespace causeway::app {

std::string version() { return CAUSEWAY_VERSION; }

std::string version_text() {
  return "causeway " + version() +
         " (CUDA: " CAUSEWAY_WITH_CUDA ", FlashInfer: " CAUSEWAY_WITH_FLASHINFER
         ", oneDNN: " CAUSEWAY_WITH_ONEDNN ", XGrammar: " CAUSEWAY_WITH_XGRAMMAR
         ", compiler: g++ " __VERSION__ ")";
}

}  // namespace causeway::app
