// glibc's dlsym, which the library's own dlsym hides.
#pragma once

namespace causeway::preload {

using DlSym = void* (*)(void* library, const char* name);

DlSym real_dlsym();

}  // namespace causeway::preload
