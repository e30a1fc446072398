#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <span>
#include <string>

#include "base/testing/temporary_directory.h"
#include "weights/checkpoint.h"
#include "weights/testing/checkpoints.h"

namespace causeway::weights::safetensors_test {
namespace {

using ::testing::HasSubstr;
using testing::raw_safetensors;
using testing::write_file;

Result<SafetensorsHeader> parse(std::string_view header, std::int64_t data_bytes) {
  return parse_safetensors_header(header,
                                  Bytes(8 + static_cast<std::int64_t>(header.size()) + data_bytes));
}

void expect_corrupt(std::string_view header, std::int64_t data_bytes, const std::string& part,
                    ErrorCode code = ErrorCode::kCorrupt) {
  const auto tensors = parse(header, data_bytes);
  ASSERT_FALSE(tensors.ok()) << header.substr(0, 200);
  EXPECT_EQ(tensors.error().code, code) << tensors.error().message;
  EXPECT_THAT(tensors.error().message, HasSubstr(part)) << header.substr(0, 200);
  EXPECT_LT(tensors.error().message.size(), 1000u);
}

TEST(Safetensors, ReadsTensorsInOrderOfTheirBytes) {
  const std::string header =
      R"({"b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]},
          "__metadata__": {"format": "pt", "b": "x"},
          "a": {"data_offsets": [0, 4], "shape": [2], "dtype": "BF16"},
          "empty": {"dtype": "I64", "shape": [0, 9], "data_offsets": [28, 28]},
          "scalar": {"dtype": "U8", "shape": [], "data_offsets": [28, 29]}}   )";
  const auto tensors = parse(header, 29);
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 4u);
  const TensorInfo& b = (*tensors)[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kF32);
  EXPECT_THAT(b.shape, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(b.offset, Bytes(8 + static_cast<std::int64_t>(header.size()) + 4));
  EXPECT_EQ(b.bytes, Bytes(24));
  EXPECT_EQ((*tensors)[0].dtype, DType::kBF16);
  EXPECT_FALSE((*tensors)[3].dtype.has_value());
  EXPECT_EQ((*tensors)[3].stored_type, "U8");
  EXPECT_TRUE(parse("{}", 0).ok());
}

TEST(Safetensors, ReadsWhatTheReferenceReads) {
  EXPECT_TRUE(parse(R"({"__metadata__": null})", 0).ok());
  for (const char* type : {"F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    const auto tensors = parse(
        std::string(R"({"w": {"dtype": ")") + type + R"(", "shape": [3], "data_offsets": [0, 3]}})",
        3);
    ASSERT_TRUE(tensors.ok()) << tensors.error().message;
    EXPECT_EQ(tensors->front().stored_type, type);
    EXPECT_FALSE(tensors->front().dtype.has_value());
  }
}

TEST(Safetensors, LengthIsCheckedAgainstFileAndCap) {
  const auto length = [](std::uint64_t value, std::int64_t file) {
    std::array<std::byte, 8> begin{};
    for (int i = 0; i < 8; ++i) begin[i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
    return safetensors_header_bytes(begin, Bytes(file));
  };
  EXPECT_EQ(*length(100, 108), Bytes(100));
  EXPECT_FALSE(length(100, 107).ok());
  EXPECT_FALSE(length(~std::uint64_t{0}, 1000).ok());
  EXPECT_FALSE(length(std::uint64_t{1} << 63, 1000).ok());
  EXPECT_FALSE(length(0, 7).ok());
  EXPECT_TRUE(length(100'000'000, 1'000'000'000).ok());
  EXPECT_THAT(length(100'000'001, 1'000'000'000).error().message, HasSubstr("limit"));
}

TEST(Safetensors, OffsetsMustAgreeWithShapeAndType) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return R"({"w": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
           offsets + "}}";
  };
  EXPECT_TRUE(parse(one("F32", "[2]", "[0, 8]"), 8).ok());
  expect_corrupt(one("F32", "[2]", "[0, 4]"), 4, "w: data_offsets");
  expect_corrupt(one("F32", "[2]", "[8, 0]"), 8, "w: data_offsets");
  expect_corrupt(one("F32", "[2]", "[0, 8]"), 7, "truncated");
  expect_corrupt(one("F32", "[2]", "[0, 8]"), 9, "behind its last tensor");
  expect_corrupt(one("F32", "[2]", "[1, 9]"), 9, "begins at byte 1");
  expect_corrupt(one("F32", "[4294967296, 4294967296]", "[0, 0]"), 0, "overflows");
  expect_corrupt(one("F32", "[4611686018427387904, 4]", "[0, 0]"), 0, "overflows");
  expect_corrupt(one("U8", "[9223372036854775807]", "[0, 9223372036854775807]"), 0, "overflows");
  expect_corrupt(one("F4", "[3]", "[0, 1]"), 1, "w: data_offsets");
  expect_corrupt(one("F32", "[-2]", "[0, 8]"), 8, "w: has a negative number");
  expect_corrupt(one("F32", "[2.0]", "[0, 8]"), 8, "w: has a fraction");
  expect_corrupt(one("F32", "[2]", "[0, 18446744073709551615]"), 8, "2^63");
  // Beyond 64 bits, where the reference fails, too.
  for (const std::string huge : {"18446744073709551616", "99999999999999999999999"}) {
    expect_corrupt(one("F32", "[2]", "[0, " + huge + "]"), 8, "w: has a number beyond 2^63");
    expect_corrupt(one("F32", "[" + huge + "]", "[0, 8]"), 8, "w: has a number beyond 2^63");
    expect_corrupt(one("F32", "[0, " + huge + "]", "[0, 0]"), 0, "w: has a number beyond 2^63");
  }
  expect_corrupt(one("F32", "[1e20]", "[0, 8]"), 8, "w: has a fraction");
  expect_corrupt(one("F32", "[2]", "[0, 8, 8]"), 8, "one more number");
  expect_corrupt(one("F32", "[2]", "[8]"), 8, "two data_offsets");
  expect_corrupt(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, "one more number");
  expect_corrupt(one("F32", "[[2]]", "[0, 8]"), 8, "a list");
  expect_corrupt(one("F31", "[2]", "[0, 8]"), 8, "unknown dtype \"F31\"", ErrorCode::kUnsupported);
}

TEST(Safetensors, TensorsMustNotOverlapOrLeaveHoles) {
  const auto two = [](int begin, int end) {
    return R"({"a": {"dtype": "U8", "shape": [10], "data_offsets": [0, 10]},
               "b": {"dtype": "U8", "shape": [)" +
           std::to_string(end - begin) + R"(], "data_offsets": [)" + std::to_string(begin) + ", " +
           std::to_string(end) + "]}}";
  };
  EXPECT_TRUE(parse(two(10, 20), 20).ok());
  expect_corrupt(two(9, 20), 20, "b: begins at byte 9");
  expect_corrupt(two(11, 20), 20, "b: begins at byte 11");
  expect_corrupt(two(0, 20), 20, "b: begins at byte 0");
  expect_corrupt(two(2, 5), 10, "b: begins at byte 2");
}

TEST(Safetensors, HostileHeadersAreRefused) {
  expect_corrupt("", 0, "not valid JSON");
  expect_corrupt("[]", 0, "a list");
  expect_corrupt("7", 0, "a number");
  expect_corrupt("{", 0, "not valid JSON");
  expect_corrupt("{} {}", 0, "not valid JSON");
  expect_corrupt(std::string("{}\0\0", 4), 0, "not valid JSON at byte 2");
  expect_corrupt("{\"a\": 1}", 0, "a: has a number");
  expect_corrupt("{\"a\": {}}", 0, "a: must have");
  expect_corrupt("{\"a\": null}", 0, "null");
  expect_corrupt(R"({"__metadata__": {"a": null}})", 0, "null");
  expect_corrupt(R"({"__metadata__": {}, "__metadata__": null})", 0, "named twice");
  expect_corrupt("{\"\xff\": {}}", 0, "not valid JSON");
  expect_corrupt(R"({"a": {"dtype": "U8", "dtype": "U8"}})", 0, "second field \"dtype\"");
  expect_corrupt(R"({"a": {"shape": [], "shape": []}})", 0, "second field \"shape\"");
  expect_corrupt(R"({"a": {"what": 1}})", 0, "unknown field \"what\"");
  expect_corrupt(R"({"__metadata__": {"a": {"b": 1}}})", 0, "an object");
  expect_corrupt(R"({"__metadata__": {"a": 1}})", 0, "a number");
  const std::string a = R"("a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]})";
  expect_corrupt("{" + a + "," + a + "}", 0, "a: named twice");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  expect_corrupt(deep, 0, "a: ");
  expect_corrupt(std::string(100'000, '['), 0, "a list");
  expect_corrupt("{\"" + std::string(1'000'000, 'x') + "\": 1}", 0, "xxx");
}

TEST(Safetensors, NamesAreShownWithoutHarm) {
  EXPECT_EQ(shown_name("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(shown_name("a\x1b[2Jb\n"), "a?[2Jb?");
  EXPECT_EQ(shown_name(std::string(119, 'x') + "é"), std::string(119, 'x') + "…");
}

TEST(SafetensorsFile, ErrorsNameTheFile) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "model.safetensors";
  EXPECT_EQ(SafetensorsFile::open(path).error().code, ErrorCode::kNotFound);
  for (const std::string& content :
       {std::string(), std::string("1234567"), std::string(8, '\xff'), raw_safetensors("[", "x"),
        raw_safetensors(R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
                        "123")}) {
    write_file(path, content);
    const auto file = SafetensorsFile::open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(file.error().message, HasSubstr("model.safetensors: "));
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_FALSE(SafetensorsFile::open(path).ok());
}

RC_GTEST_PROP(SafetensorsWriter, WhatIsWrittenIsReadBack, ()) {
  const TemporaryDirectory directory;
  std::vector<TensorSpec> tensors;
  const int count = *rc::gen::inRange(0, 8);
  for (int i = 0; i < count; ++i) {
    TensorSpec spec;
    // Names with quotes, backslashes and other characters that JSON must escape.
    spec.name = "t\"\\\n" + std::to_string(i);
    spec.dtype = *rc::gen::element(DType::kF32, DType::kF16, DType::kBF16);
    spec.shape =
        *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 9));
    if (spec.shape.size() > 4) spec.shape.resize(4);
    tensors.push_back(spec);
  }
  const auto path = directory.path() / "w.safetensors";
  const auto contents = testing::write_tensors(path, tensors, 7);
  const auto file = SafetensorsFile::open(path);
  RC_ASSERT(file.ok());
  RC_ASSERT(file->tensors.size() == tensors.size());
  for (const TensorInfo& info : file->tensors) {
    std::string bytes(to_size(info.bytes), '\0');
    RC_ASSERT(file->file.read(info.offset, std::as_writable_bytes(std::span(bytes))).ok());
    RC_ASSERT(bytes == contents.at(info.name));
  }
}

TEST(SafetensorsWriter, NothingAppearsBeforeFinish) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "w.safetensors";
  const std::vector<TensorSpec> tensors = {{"a", DType::kBF16, {4}}};
  {
    const auto writer = SafetensorsWriter::create(path, tensors);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ((*writer)->finish().error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsWriter, ImpossibleTensorsAreRefused) {
  const TemporaryDirectory directory;
  const auto create = [&](std::vector<TensorSpec> tensors) {
    return SafetensorsWriter::create(directory.path() / "w", tensors);
  };
  EXPECT_FALSE(create({{"a", DType::kF32, {-1}}}).ok());
  EXPECT_FALSE(create({{"a", DType::kF32, {std::int64_t{1} << 40, std::int64_t{1} << 40}}}).ok());
  EXPECT_FALSE(create({{"a", DType::kF32, {1}}, {"a", DType::kF32, {1}}}).ok());
  EXPECT_FALSE(create({{"__metadata__", DType::kF32, {1}}}).ok());
  const auto full = create({{"a", DType::kF32, {std::int64_t{1} << 48}}});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kIo) << full.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_FALSE(SafetensorsWriter::create(directory.path() / "no" / "w", {}).ok());
}

TEST(SafetensorsHeader, APointerOfGitLfsIsNamed) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  const auto begin = std::as_bytes(std::span(pointer)).first<8>();
  const auto size = safetensors_header_bytes(begin, Bytes(std::ssize(pointer)));
  ASSERT_FALSE(size.ok());
  EXPECT_THAT(size.error().message, HasSubstr("git lfs pull"));
}

}  // namespace
}  // namespace causeway::weights::safetensors_test
