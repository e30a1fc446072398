#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/testing/temporary_directory.h"
#include "weights/testing/checkpoints.h"

namespace causeway::weights::checkpoint_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::write_file;
using testing::write_tensors;

constexpr const char* kIndex = "model.safetensors.index.json";

void write_two_shards(const std::filesystem::path& directory) {
  write_tensors(directory / "one.safetensors", {{"a", DType::kF32, {4}}}, 1);
  write_tensors(directory / "two.safetensors",
                {{"b", DType::kF32, {4}}, {"unlisted", DType::kF32, {4}}}, 2);
  write_file(directory / kIndex,
             json{{"weight_map", {{"a", "one.safetensors"}, {"b", "two.safetensors"}}}}.dump());
}

void expect_error(const std::filesystem::path& directory, ErrorCode code, const std::string& part) {
  const auto checkpoint = Checkpoint::open(directory);
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  EXPECT_THAT(checkpoint.error().message, HasSubstr(part));
}

TEST(Checkpoint, SingleFileWins) {
  const TemporaryDirectory directory;
  expect_error(directory.path(), ErrorCode::kNotFound, "safetensors");
  write_two_shards(directory.path());
  write_tensors(directory.path() / "model.safetensors", {{"c", DType::kF32, {4}}}, 1);
  const auto checkpoint = Checkpoint::open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_NE(checkpoint->find("c"), nullptr);
  EXPECT_EQ(checkpoint->find("a"), nullptr);
}

TEST(Checkpoint, ShardsByIndex) {
  const TemporaryDirectory directory;
  write_two_shards(directory.path());
  const auto checkpoint = Checkpoint::open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->files().size(), 2u);
  ASSERT_NE(checkpoint->find("b"), nullptr);
  EXPECT_EQ(checkpoint->find("b")->info->name, "b");
  EXPECT_EQ(checkpoint->files()[checkpoint->find("b")->file].file.path().filename(),
            "two.safetensors");
  EXPECT_EQ(checkpoint->find("unlisted"), nullptr);
}

TEST(Checkpoint, FollowsTheSymbolicLinksOfTheHubCache) {
  const TemporaryDirectory directory;
  const auto blobs = directory.path() / "blobs", snapshot = directory.path() / "snapshots" / "1";
  std::filesystem::create_directories(blobs);
  std::filesystem::create_directories(snapshot);
  write_two_shards(blobs);
  for (const char* name : {"one.safetensors", "two.safetensors", kIndex}) {
    std::filesystem::create_symlink(std::filesystem::path("../../blobs") / name, snapshot / name);
  }
  EXPECT_TRUE(Checkpoint::open(snapshot).ok());
  std::filesystem::remove(blobs / "two.safetensors");
  expect_error(snapshot, ErrorCode::kNotFound, "two.safetensors");
}

TEST(Checkpoint, BadIndexesAreNamed) {
  const TemporaryDirectory directory;
  write_two_shards(directory.path());
  const auto index = [&](const std::string& text) { write_file(directory.path() / kIndex, text); };
  for (const char* text : {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": []})"}) {
    index(text);
    expect_error(directory.path(), ErrorCode::kCorrupt, kIndex);
  }
  index(R"({"metadata":)" + std::string(100'000, '['));
  expect_error(directory.path(), ErrorCode::kCorrupt, "nested deeper");
  for (const json& shard :
       {json("../one.safetensors"), json("/etc/passwd"), json("x/one.safetensors"), json(""),
        json(".."), json("."), json(std::string("one\0.safetensors", 16)), json(7), json("a\\b")}) {
    index(json{{"weight_map", {{"a", shard}}}}.dump());
    expect_error(directory.path(), ErrorCode::kCorrupt, "a: \"weight_map\"");
  }
  index(json{{"weight_map", {{"a", "two.safetensors"}}}}.dump());
  expect_error(directory.path(), ErrorCode::kCorrupt, "a is not in two.safetensors");
  index(json{{"weight_map", {{"a", "three.safetensors"}}}}.dump());
  expect_error(directory.path(), ErrorCode::kNotFound, "three.safetensors");
}

TEST(Checkpoint, TruncatedShardIsNamed) {
  const TemporaryDirectory directory;
  write_two_shards(directory.path());
  const auto path = directory.path() / "two.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_error(directory.path(), ErrorCode::kCorrupt, "two.safetensors: unlisted: ");
  std::filesystem::resize_file(path, 20);
  expect_error(directory.path(), ErrorCode::kCorrupt, "two.safetensors");
}

TEST(Checkpoint, WhatIsNotAFileIsRefusedWithoutHanging) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory.path() / "model.safetensors").c_str(), 0600), 0);
  expect_error(directory.path(), ErrorCode::kCorrupt, "not a regular file");
}

}  // namespace
}  // namespace causeway::weights::checkpoint_test
