// glibc's dlsym, which the library's own stands in front of.
#pragma once

namespace causeway::preload {

using DlSym = void* (*)(void* library, const char* name);

DlSym real_dlsym();

}  // namespace causeway::preload
