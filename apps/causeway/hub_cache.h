// Where Hugging Face's tools keep what they download, and so where `serve ORG/NAME` looks.
#pragma once

#include <filesystem>

#include "settings.h"

namespace causeway::app {

// As huggingface_hub finds it: HF_HUB_CACHE, or `hub` of HF_HOME, or of `huggingface` in
// XDG_CACHE_HOME, or in .cache of HOME. Variables that are empty do not count; without any it is
// relative to the working directory. It need not be there.
std::filesystem::path hub_cache(const Environment& environment);

}  // namespace causeway::app
