#include "hub_cache.h"

#include <gtest/gtest.h>

#include <map>

namespace causeway::app::hub_cache_test {
namespace {

std::string found_with(std::map<std::string, std::string> variables) {
  return hub_cache([&variables](const char* name) -> const char* {
           const auto found = variables.find(name);
           return found == variables.end() ? nullptr : found->second.c_str();
         })
      .string();
}

TEST(HubCache, IsWhereHuggingFacesToolsKeepIt) {
  EXPECT_EQ(found_with({{"HOME", "/h"}}), "/h/.cache/huggingface/hub");
  EXPECT_EQ(found_with({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}}), "/c/huggingface/hub");
  EXPECT_EQ(found_with({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}, {"HF_HOME", "/f"}}), "/f/hub");
  EXPECT_EQ(found_with({{"HF_HUB_CACHE", "/u"}, {"HF_HOME", "/f"}}), "/u");
  EXPECT_EQ(found_with({{"HF_HUB_CACHE", ""}, {"HF_HOME", ""}, {"HOME", "/h"}}),
            "/h/.cache/huggingface/hub");
}

}  // namespace
}  // namespace causeway::app::hub_cache_test
