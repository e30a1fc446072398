#include "kernels/cpu.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace causeway::kernels::cpu_test {
namespace {

constexpr Variant kAll[] = {Variant::kPlain, Variant::kAvx2, Variant::kAvx512,
                            Variant::kAvx512Bf16};

// Puts the limit back, because other tests of the program run behind this one.
class VariantsTest : public ::testing::Test {
 protected:
  ~VariantsTest() override { limit_variants(limit_); }

 private:
  Variant limit_ = variants_limit();
};

TEST_F(VariantsTest, TheLimitTakesAwayWhatIsWiderAndNothingElse) {
  const auto all = available_variants();
  for (const Variant limit : kAll) {
    limit_variants(limit);
    std::vector<Variant> wanted;
    std::copy_if(all.begin(), all.end(), std::back_inserter(wanted),
                 [&](Variant variant) { return variant <= limit; });
    EXPECT_EQ(available_variants(), wanted) << name_of(limit);
    EXPECT_EQ(best_variant(), wanted.back()) << name_of(limit);
    if (limit < Variant::kAvx512Bf16) {
      EXPECT_FALSE(has_fast_bf16_pairs()) << name_of(limit);
    }
  }
}

// A CPU that has a variant has all narrower ones: a wide kernel may call narrow ones.
TEST_F(VariantsTest, NarrowerVariantsAreAvailableToo) {
  const auto all = available_variants();
  ASSERT_FALSE(all.empty());
  for (const Variant variant : kAll) {
    EXPECT_EQ(is_available(variant), variant <= all.back()) << name_of(variant);
  }
}

TEST_F(VariantsTest, NamesDiffer) {
  std::set<std::string_view> names;
  for (const Variant variant : kAll) names.insert(name_of(variant));
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace causeway::kernels::cpu_test
