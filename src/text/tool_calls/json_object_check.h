// Checks that bytes which come one at a time are a JSON object, and says where the members of the
// outermost one begin and end. Nothing is built: a parser of text that may turn out to be no call
// needs to know at every byte whether it still may.
#pragma once

#include <string>

namespace causeway::text {

class JsonObjectCheck {
 public:
  // Events of the outermost object; what happens deeper is kNone.
  enum class Event {
    kNone,
    kKeyEnd,      // the closing quote of a key
    kValueBegin,  // the first byte of a value
    kValueEnd,    // the last byte of a value that is a string, object or array
    kDone,        // the last byte of all
    kBroken,      // this cannot become an object, or is nested deeper than kDepthMax
  };
  static constexpr std::size_t kDepthMax = 64;
  static constexpr std::size_t kScalarBytesMax = 512;  // of a number

  // After kDone and kBroken nothing more may come.
  Event push(char c);
  // The byte pushed last is part of a key of the outermost object.
  bool in_key() const { return string_ == String::kKey && open_.size() == 1; }

 private:
  enum class Expect { kStart, kKeyOrEnd, kKey, kColon, kValueOrEnd, kValue, kCommaOrEnd };
  enum class String { kNone, kKey, kValue };

  Event push_string(char c);
  Event push_scalar(char c);
  Event push_structure(char c);
  Event begin_value(char c);
  Event open(char c);
  Event close(char c);
  Event comma();
  bool outermost() const { return open_.size() == 1; }

  Expect expect_ = Expect::kStart;
  String string_ = String::kNone;
  int escape_ = 0;      // bytes of an escape that are still due; 5: the one behind the backslash
  std::string scalar_;  // of a number or a literal, as far as it has come
  std::string open_;    // '{' and '[' within each other
};

}  // namespace causeway::text
