// str.encode, and the methods of the bytes that it gives. UTF-8, ASCII and Latin-1; "strict",
// "ignore" and "replace".
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

struct Codec {
  enum class Errors { kStrict, kIgnore, kReplace };
  char32_t last = 0;  // the last code point that has a byte of its own; 0: UTF-8
  std::string_view name;
  Errors errors = Errors::kStrict;
};

Codec codec_of(const Value& encoding, const Value& errors) {
  std::string name = "utf-8";
  if (!encoding.is_missing()) name = lower(text_argument(encoding, "encoding"));
  std::replace(name.begin(), name.end(), '_', '-');
  Codec codec;
  if (name == "ascii" || name == "us-ascii") {
    codec.last = 0x7F;
    codec.name = "ascii";
  } else if (name == "latin-1" || name == "latin1" || name == "iso-8859-1" || name == "iso8859-1") {
    codec.last = 0xFF;
    codec.name = "latin-1";
  } else if (name == "utf-8" || name == "utf8" || name == "u8") {
    codec.name = "utf-8";
  } else {
    fail("the encoding '" + name + "' is not supported; utf-8, ascii and latin-1 are");
  }
  const std::string_view how =
      errors.is_missing() ? std::string_view("strict") : text_argument(errors, "errors");
  if (how == "ignore") {
    codec.errors = Codec::Errors::kIgnore;
  } else if (how == "replace") {
    codec.errors = Codec::Errors::kReplace;
  } else if (how != "strict") {
    fail("the error handler '" + std::string(how) + "' is not supported");
  }
  return codec;
}

[[noreturn]] void fail_codec(const Codec& codec, const char* what) {
  fail("'" + std::string(codec.name) + "' codec can't " + what);
}

Value decode(Heap& heap, std::string_view bytes, const Codec& codec) {
  heap.work_bytes(bytes.size());
  heap.require(3 * bytes.size());
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    CodePoint point = code_point_at(bytes, at);
    bool valid = point.bytes > 1 || static_cast<unsigned char>(bytes[at]) < 0x80;
    if (codec.last != 0) {
      point = {static_cast<unsigned char>(bytes[at]), 1};
      valid = point.value <= codec.last;
    }
    if (valid) {
      append_code_point(out, point.value);
    } else if (codec.errors == Codec::Errors::kStrict) {
      fail_codec(codec, "decode a byte");
    } else if (codec.errors == Codec::Errors::kReplace) {
      append_code_point(out, 0xFFFD);
    }
    at += point.bytes;
  }
  return heap.string(std::move(out));
}

}  // namespace

Value encode_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("encode", arguments, {"encoding", "errors"});
  const Codec codec = codec_of(bound[0], bound[1]);
  if (codec.last == 0) return Value::bytes(self);
  const std::string_view text = self.text();
  heap.work_bytes(text.size());
  heap.require(text.size());
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.bytes;
    if (point.value <= codec.last) {
      out.push_back(static_cast<char>(point.value));
    } else if (codec.errors == Codec::Errors::kStrict) {
      fail_codec(codec, "encode a character");
    } else if (codec.errors == Codec::Errors::kReplace) {
      out.push_back('?');
    }
  }
  return Value::bytes(heap.string(std::move(out)));
}

Value call_bytes_method(Heap& heap, const Value& self, std::string_view name,
                        const Arguments& arguments) {
  if (name == "decode") {
    const auto bound = bind(name, arguments, {"encoding", "errors"});
    return decode(heap, self.text(), codec_of(bound[0], bound[1]));
  }
  bind(name, arguments, {});
  heap.require(2 * self.text().size());
  std::string out;
  for (const char c : self.text()) {
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4]);
    out.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15]);
  }
  return heap.string(std::move(out));
}

}  // namespace causeway::text::jinja
