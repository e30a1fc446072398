// Loads the input as tokenizer.model, any bytes or changes of models of both kinds (edited_file.h),
// and encodes and decodes with what can be loaded. The last 64 bytes are a text too.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"

using namespace causeway::text;

namespace {

// Fields as protocol buffers have them. Numbers and sizes are below 128.
std::string number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}

std::string bytes(int field, std::string_view value) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(value.size())} +
         std::string(value);
}

std::string piece(std::string_view content, float score, int type) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  std::string fixed(1, static_cast<char>(2 << 3 | 5));
  for (int i = 0; i < 4; ++i) fixed += static_cast<char>(bits >> (8 * i));
  return bytes(1, bytes(1, content) + fixed + number(3, type));
}

std::string model(int kind) {
  std::string out = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
  out += piece("\xE2\x96\x81", -10, 1) + piece("a", -11, 1) + piece("b", -12, 1);
  out += piece("ab", -1, 1) +
         piece(
             "\xE2\x96\x81"
             "a",
             -2, 1) +
         piece("[X]", 0, 4);
  out += piece("<0x41>", 0, 6);
  return out + bytes(2, number(3, kind)) +
         bytes(3, bytes(1, "identity") + number(3, 1) + number(4, 0) + number(5, 1));
}

constexpr std::string_view kWords[] = {
    "\x08\x01", "\x12\x00",     "\x18\x02", "\x20\x01",
    "<0x42>",   "\xE2\x96\x81", "nmt_nfkc", "\xFF\xFF\xFF\xFF\x0F"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> kModels = {model(1), model(2)};
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto file = causeway::testing::edited_file({kModels, kWords}, input);
  const auto tokenizer = load_sentencepiece({file.text});
  if (!tokenizer.ok()) {
    CAUSEWAY_CHECK(!file.whole, tokenizer.error().message);
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return 0;
  }
  constexpr auto kStrict = testing::Refusal::kOfBrokenTextOnly;
  testing::use(**tokenizer, input.substr(input.size() - std::min<std::size_t>(input.size(), 64)),
               kStrict);
  testing::use(**tokenizer, "  Hello world \xC3\xA9 <s>\xE2\x96\x81\xF0\x9F\xA6\x99  a", kStrict);
  return 0;
}
