// What is not a plain file where a vocabulary is expected.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <string>

#include "text/tokenizer.h"

namespace causeway::text::tokenizer_files_test {
namespace {

using ::testing::HasSubstr;

class TokenizerFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerFiles, AFifoIsRefusedAtOnce) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / (std::string("fifo_") + GetParam());
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(std::filesystem::create_directories(folder));
  const std::string fifo = folder / GetParam();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto loading = std::async(std::launch::async, [&folder] {
    const auto loaded = load_tokenizer(folder);
    return loaded.ok() ? std::string("loaded") : loaded.error().message;
  });
  const bool ended = loading.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  int writer = -1;
  if (!ended) writer = ::open(fifo.c_str(), O_WRONLY);  // lets the reader go
  EXPECT_TRUE(ended) << "it waits for a writer";
  EXPECT_THAT(loading.get(), HasSubstr("is not a regular file"));
  if (writer >= 0) ::close(writer);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Names, TokenizerFiles,
                         ::testing::Values("tokenizer.json", "tokenizer.model", "tekken.json",
                                           "qwen.tiktoken"),
                         [](const auto& named) {
                           const std::string name = named.param;
                           return name.substr(0, name.find('.')) + name.substr(name.find('.') + 1);
                         });

}  // namespace
}  // namespace causeway::text::tokenizer_files_test
