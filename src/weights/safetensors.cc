#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_set>

#include <nlohmann/json.hpp>

namespace causeway::weights {
namespace {

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

constexpr std::array kStoredTypes = {
    StoredType{"BOOL", 8, {}},
    StoredType{"F4", 4, {}},
    StoredType{"F6_E2M3", 6, {}},
    StoredType{"F6_E3M2", 6, {}},
    StoredType{"U8", 8, {}},
    StoredType{"I8", 8, {}},
    StoredType{"F8_E5M2", 8, {}},
    StoredType{"F8_E4M3", 8, {}},
    StoredType{"F8_E8M0", 8, {}},
    StoredType{"F8_E4M3FNUZ", 8, {}},
    StoredType{"F8_E5M2FNUZ", 8, {}},
    StoredType{"I16", 16, {}},
    StoredType{"U16", 16, {}},
    StoredType{"F16", 16, DType::kF16},
    StoredType{"BF16", 16, DType::kBF16},
    StoredType{"I32", 32, {}},
    StoredType{"U32", 32, {}},
    StoredType{"F32", 32, DType::kF32},
    StoredType{"C64", 64, {}},
    StoredType{"F64", 64, {}},
    StoredType{"I64", 64, {}},
    StoredType{"U64", 64, {}},
};

// A tensor's entry while it is read.
struct Entry {
  TensorInfo info;
  int bits = 0;
  bool has_shape = false;
  bool has_offsets = false;
  std::vector<std::int64_t> offsets;
};

// Reads the header without building a tree of it: what is not expected ends the walk at once, so
// neither depth nor size of hostile input costs more than the input itself.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader tensors;
  std::optional<Error> error;

  // Some writers put it where there are no metadata, and the reference reads it as none.
  bool null() override {
    return (place_ == Place::kTop && entry_.info.name == "__metadata__") || unexpected("null");
  }
  bool boolean(bool) override { return unexpected("a boolean"); }
  // The parser calls an integer so, too, from 2^64 on: no size and no offset can be one.
  bool number_float(number_float_t, const string_t& text) override {
    const bool whole = text.find_first_of(".eE") == string_t::npos;
    return unexpected(whole ? "a number beyond 2^63" : "a fraction");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return unexpected("a number");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return unexpected("a number beyond 2^63");
    }
    auto& list = place_ == Place::kShape ? entry_.info.shape : entry_.offsets;
    if (list.size() == (place_ == Place::kShape ? kSafetensorsRankMax : 2)) {
      return unexpected("one more number than possible");
    }
    list.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != "dtype") return unexpected("a string");
    const auto type = std::find_if(kStoredTypes.begin(), kStoredTypes.end(),
                                   [&](const StoredType& t) { return t.name == value; });
    if (type == kStoredTypes.end()) {
      error = unsupported(where() + "unknown dtype \"" + shown_name(value) + "\"");
      return false;
    }
    entry_.info.stored_type = type->name;
    entry_.info.dtype = type->dtype;
    entry_.bits = type->bits;
    field_.clear();
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ == Place::kTensor) return begin_field(name);
    if (!names_.insert(name).second) return fail(shown_name(name) + ": named twice");
    if (tensors.size() == kSafetensorsTensorsMax) return fail("more than a million tensors");
    entry_ = Entry{};
    entry_.info.name = std::move(name);
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = entry_.info.name == "__metadata__" ? Place::kMetadata : Place::kTensor;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    const Place ended = place_;
    place_ = ended == Place::kTop ? Place::kOutside : Place::kTop;
    return ended != Place::kTensor || end_tensor();
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || (field_ != "shape" && field_ != "data_offsets")) {
      return unexpected("a list");
    }
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    (place_ == Place::kShape ? entry_.has_shape : entry_.has_offsets) = true;
    place_ = Place::kTensor;
    field_.clear();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail("not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };

  bool fail(const std::string& what) {
    if (!error) error = corrupt("header: " + what);
    return false;
  }
  std::string where() const {
    return entry_.info.name.empty() ? "header: " : shown_name(entry_.info.name) + ": ";
  }
  bool unexpected(const std::string& what) {
    if (!error) error = corrupt(where() + "has " + what + " where the format has none");
    return false;
  }

  bool begin_field(const std::string& name) {
    const bool again = (name == "dtype" && entry_.bits != 0) ||
                       (name == "shape" && entry_.has_shape) ||
                       (name == "data_offsets" && entry_.has_offsets);
    if (again || (name != "dtype" && name != "shape" && name != "data_offsets")) {
      error = corrupt(where() + (again ? "a second field \"" : "unknown field \"") +
                      shown_name(name) + "\"");
      return false;
    }
    field_ = name;
    return true;
  }

  bool end_tensor() {
    if (entry_.bits == 0 || !entry_.has_shape || entry_.offsets.size() != 2) {
      error = corrupt(where() + "must have dtype, shape and two data_offsets");
      return false;
    }
    std::int64_t bits = entry_.bits;
    for (const std::int64_t size : entry_.info.shape) {
      if (__builtin_mul_overflow(bits, size, &bits)) {
        error = corrupt(where() + "the shape overflows 64 bits");
        return false;
      }
    }
    const std::int64_t begin = entry_.offsets[0], end = entry_.offsets[1];
    if (begin > end || bits % 8 != 0 || end - begin != bits / 8) {
      error =
          corrupt(where() + "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
                  "] do not match its shape and dtype (" + std::to_string(bits / 8) + " bytes)");
      return false;
    }
    entry_.info.offset = Bytes(begin);
    entry_.info.bytes = Bytes(end - begin);
    tensors.push_back(std::move(entry_.info));
    entry_ = Entry{};
    return true;
  }

  Place place_ = Place::kOutside;
  Entry entry_;
  std::string field_;
  std::unordered_set<std::string> names_;
};

// Sorts by offset and checks that the tensors cover [0, data_bytes) once.
Status check_coverage(SafetensorsHeader& tensors, Bytes data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  Bytes end;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != end) {
      return corrupt(shown_name(tensor.name) + ": begins at byte " +
                     std::to_string(tensor.offset.count) + " of the data, but " +
                     (tensor.offset < end ? "the tensor before it ends" : "nothing fills it from") +
                     " at byte " + std::to_string(end.count));
    }
    if (tensor.bytes > data_bytes - end) {
      return corrupt(shown_name(tensor.name) + ": ends at byte " + std::to_string(end.count) +
                     " + " + std::to_string(tensor.bytes.count) +
                     " of the data, but the file has only " + std::to_string(data_bytes.count) +
                     "; it may be truncated: fetch it again");
    }
    end += tensor.bytes;
  }
  if (end == data_bytes) return {};
  return corrupt("the file has " + std::to_string((data_bytes - end).count) +
                 " bytes behind its last tensor");
}

}  // namespace

std::string shown_name(std::string_view name) {
  constexpr std::size_t kShownMax = 120;
  std::size_t size = std::min(name.size(), kShownMax);
  // Not in the middle of a UTF-8 character.
  while (size < name.size() && size > 0 && (name[size] & 0xC0) == 0x80) --size;
  std::string shown(name.substr(0, size));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return size < name.size() ? shown + "…" : shown;
}

Result<Bytes> safetensors_header_bytes(std::span<const std::byte, 8> begin, Bytes file_bytes) {
  std::uint64_t size = 0;
  for (int i = 7; i >= 0; --i) size = size << 8 | std::to_integer<std::uint64_t>(begin[i]);
  // What such a pointer begins with, "version https://git-lfs…", read as a number.
  constexpr std::uint64_t kPointer = 0x206e6f6973726576;
  if (size == kPointer) {
    return corrupt(
        "a pointer of Git LFS, not the weights, which have not been downloaded: run `git lfs pull` "
        "in the folder");
  }
  if (file_bytes.count < 8 || size > static_cast<std::uint64_t>(file_bytes.count - 8)) {
    return corrupt("the header's length, " + std::to_string(size) + ", is more than the file's " +
                   std::to_string(file_bytes.count) + " bytes hold");
  }
  if (size > static_cast<std::uint64_t>(kSafetensorsHeaderMax.count)) {
    return corrupt("the header's length, " + std::to_string(size) + ", is above the limit of " +
                   std::to_string(kSafetensorsHeaderMax.count));
  }
  return Bytes(static_cast<std::int64_t>(size));
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, Bytes file_bytes) {
  const Bytes data_begin(8 + static_cast<std::int64_t>(json.size()));
  if (file_bytes < data_begin) return corrupt("the file is shorter than its header");
  // The parser takes a NUL for the end of its input and would not see what stands behind it.
  if (const std::size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return corrupt("header: not valid JSON at byte " + std::to_string(nul));
  }
  HeaderReader reader;
  const bool parsed = nlohmann::json::sax_parse(json, &reader);
  if (reader.error) return *reader.error;
  if (!parsed) return corrupt("header: not valid JSON");
  CAUSEWAY_TRY(check_coverage(reader.tensors, file_bytes - data_begin));
  for (TensorInfo& tensor : reader.tensors) tensor.offset += data_begin;
  return std::move(reader.tensors);
}

}  // namespace causeway::weights
