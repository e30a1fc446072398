#include "preload/spin_kernel.h"

#ifdef CAUSEWAY_SPIN_IMAGE
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".hidden causeway_spin_image\n"
    ".globl causeway_spin_image\n"
    "causeway_spin_image:\n"
    ".incbin \"" CAUSEWAY_SPIN_IMAGE
    "\"\n"
    ".previous\n");
extern "C" const unsigned char causeway_spin_image[];
#endif

namespace causeway::preload {

const void* spin_kernel_image() {
#ifdef CAUSEWAY_SPIN_IMAGE
  return causeway_spin_image;
#else
  return nullptr;
#endif
}

}  // namespace causeway::preload
