#include "weights/checked_json.h"

#include <cerrno>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/json_numbers.h"

namespace causeway::weights {
namespace {

// Walks a document without building it, and remembers why it is not acceptable.
class DepthCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit DepthCheck(int depth_max) : depth_max_(depth_max) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    reason = "not valid JSON at byte " + std::to_string(position);
    return false;
  }

  std::string reason;

 private:
  bool enter() {
    if (++depth_ <= depth_max_) return true;
    reason = "JSON nested deeper than " + std::to_string(depth_max_) + " levels";
    return false;
  }
  bool leave() {
    --depth_;
    return true;
  }
  int depth_max_;
  int depth_ = 0;
};

// For the parser, of each value that it has read: stand-ins become what they stand for.
bool python_numbers(int, nlohmann::json::parse_event_t, nlohmann::json& value) {
  if (value.is_number_float()) value = python_number(value.get<double>());
  return true;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, int depth_max) {
  // The parser takes a NUL for the end of its input and would not see what stands behind it.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return corrupt("not valid JSON at byte " + std::to_string(nul));
  }
  std::string buffer;
  const std::string_view plain = plain_json_numbers(text, buffer);
  DepthCheck check(depth_max);
  if (!nlohmann::json::sax_parse(plain, &check)) return corrupt(check.reason);
  nlohmann::json value = nlohmann::json::parse(plain, python_numbers, false);
  if (value.is_discarded()) return corrupt("not valid JSON");
  return value;
}

std::string shown_json(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return std::string(unusual_number_text(value.get<double>()));
  }
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= 40 ? text : text.substr(0, 40) + "…";
}

Result<std::string> read_small_file(const std::filesystem::path& path, Bytes bytes_max) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return not_found(path.string() + ": no such file");
  }
  if (error) return io_error(path.string(), error.value());
  if (!std::filesystem::is_regular_file(status)) return corrupt(path.string() + ": not a file");
  const auto size = std::filesystem::file_size(path, error);
  if (error) return io_error(path.string(), error.value());
  if (size > static_cast<std::uintmax_t>(bytes_max.count)) {
    return corrupt(path.string() + ": larger than " + std::to_string(bytes_max.count) + " bytes");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error("cannot open " + path.string(), errno);
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return io_error("cannot read " + path.string(), errno);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace causeway::weights
