#include "base/testing/edited_file.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace causeway::edited_file_test {
namespace {

using testing::edited_file;
using testing::EditedFile;
using testing::FileFormat;

const std::vector<std::string> kFiles = {
    R"({"name": "x", "sizes": [1, 2, {"deep": true}], "last": null})", R"({"other": "a \" b"})"};
constexpr std::string_view kWords[] = {"alpha", "beta", "gamma"};
const FileFormat kFormat = {kFiles, kWords};

std::string input_of(std::uint8_t file, std::initializer_list<int> edits) {
  std::string out(1, static_cast<char>(file));
  for (const int byte : edits) out += static_cast<char>(byte);
  return out;
}

std::string edited(std::initializer_list<int> edit) {
  const EditedFile file = edited_file(kFormat, input_of(0, edit));
  EXPECT_FALSE(file.whole);
  return file.text;
}

TEST(EditedFile, IsTheFileWithoutEdits) {
  for (std::uint8_t which = 0; which < 2; ++which) {
    for (const std::string rest : {"", "ab"}) {
      const EditedFile file = edited_file(kFormat, std::string(1, static_cast<char>(which)) + rest);
      EXPECT_EQ(file.text, kFiles[which]);
      EXPECT_TRUE(file.whole);
    }
  }
  EXPECT_EQ(edited_file(kFormat, "").text, kFiles[0]);
}

TEST(EditedFile, IsTheInputBehindTheLastFile) {
  const EditedFile file = edited_file(kFormat, std::string("\x02{\"a\"", 5));
  EXPECT_EQ(file.text, "{\"a\"");
  EXPECT_FALSE(file.whole);
}

// In `{"name": "x"` the value begins at byte 9.
TEST(EditedFile, ChangesTheValueAtAPlace) {
  const std::string rest = R"(, "sizes": [1, 2, {"deep": true}], "last": null})";
  EXPECT_EQ(edited({0, 0, 9, 3}), R"({"name": 0)" + rest);
  EXPECT_EQ(edited({0, 0, 8, 3}), R"({"name": 0)" + rest) << "or behind it";
  EXPECT_EQ(edited({1, 0, 9, 1}), R"({"name": "beta")" + rest);
  EXPECT_EQ(edited({4, 0, 9, 0}), R"({"name": "x","x")" + rest);
  EXPECT_EQ(edited({7, 0, 9, 2}), R"({"name": [["x"]])" + rest);
  EXPECT_EQ(edited({8, 0, 9, 255}), R"({"name": -1)" + rest);
  EXPECT_EQ(edited({2, 0, 0, 2}), R"({"gamma":null,"name": "x")" + rest);
  EXPECT_EQ(edited({10, 0, 9, '7'}), R"({"name": 7x")" + rest);
}

TEST(EditedFile, KeepsListsAndObjectsWhole) {
  // The list begins at 23.
  EXPECT_EQ(edited({0, 0, 23, 22}), R"({"name": "x", "sizes": [], "last": null})");
  EXPECT_EQ(edited({3, 0, 23, 0}), R"({"name": "x", "sizes":  "last": null})");
}

// Every kind of edit, place and argument: bounded, and every word and file comes in.
TEST(EditedFile, RandomInputsAreBounded) {
  Random random(7);
  std::set<std::string_view> seen;
  for (int round = 0; round < 4000; ++round) {
    std::string input(static_cast<std::size_t>(random.between(0, 400)), '\0');
    for (char& byte : input) byte = static_cast<char>(random.below(256));
    const EditedFile file = edited_file(kFormat, input);
    ASSERT_LE(file.text.size(), std::size_t{1} << 16);
    const bool raw = !input.empty() && static_cast<unsigned char>(input[0]) % 3 == 2;
    ASSERT_EQ(file.whole, !raw && input.size() < 5) << round;
    for (const std::string_view word : kWords) {
      if (file.text.find(word) != std::string::npos) seen.insert(word);
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
}  // namespace causeway::edited_file_test
