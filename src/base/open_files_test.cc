#include "base/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace causeway::open_files_test {
namespace {

// Each test puts back what it found: the limit is the whole process's.
class OpenFiles : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0); }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void set_soft(rlim_t soft) {
    const rlimit limit{soft, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlimit before_{};
};

TEST_F(OpenFiles, RaisesToWhatIsNeededAndNeverLowers) {
  const auto hard = static_cast<std::int64_t>(std::min<rlim_t>(before_.rlim_max, 1 << 20));
  if (hard < 128) GTEST_SKIP() << "this process may open only " << hard << " files";
  set_soft(64);
  EXPECT_EQ(*allow_open_files(100), 100);
  EXPECT_EQ(*allow_open_files(-1), 100);
  rlimit now{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 100u);
}

TEST_F(OpenFiles, StopsAtTheHardLimit) {
  if (before_.rlim_max == RLIM_INFINITY) GTEST_SKIP() << "this process has no hard limit";
  const auto hard = static_cast<std::int64_t>(before_.rlim_max);
  EXPECT_EQ(*allow_open_files(hard + 1000), hard);
}

}  // namespace
}  // namespace causeway::open_files_test
