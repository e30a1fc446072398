// Profiles as JSON. What is read may come from anywhere.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_numbers.h"
#include "kernels/home_gemm/profile.h"

namespace causeway::kernels::home_gemm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "causeway-home-profile";
constexpr int kVersion = 1;
constexpr std::size_t kBytesMax = 16 << 20;
constexpr int kDepthMax = 16;
constexpr std::size_t kMachinesMax = 256;
constexpr std::size_t kPointsMax = 100'000;
constexpr std::size_t kNameMax = 256;
constexpr std::int64_t kSizeMax = std::int64_t{1} << 31;
constexpr std::string_view kResident = "resident";

Error wrong(const std::string& what) { return corrupt("profile: " + what); }

bool too_deep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    // Brackets in strings count too: no name of a profile has any.
    if ((c == '[' || c == '{') && ++depth > kDepthMax) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

Result<const Json*> field(const Json& object, const char* name) {
  if (!object.is_object()) return wrong(std::string("what should hold ") + name + " is no object");
  const auto found = object.find(name);
  if (found == object.end()) return wrong(std::string(name) + " is missing");
  return &*found;
}

Result<std::string> text_of(const Json& object, const char* name) {
  CAUSEWAY_ASSIGN(const Json* const value, field(object, name));
  if (!value->is_string()) return wrong(std::string(name) + " is no text");
  const auto& text = value->get_ref<const std::string&>();
  if (text.empty() || text.size() > kNameMax) {
    return wrong(std::string(name) + " is empty or longer than 256 bytes");
  }
  return text;
}

Result<double> positive(const Json& value, const std::string& name) {
  if (!value.is_number()) return wrong(name + " is no number");
  const double number = value.get<double>();
  if (!(number > 0 && number < 1e12)) return wrong(name + " is not positive, or 1e12 and more");
  return number;
}

Result<double> number_of(const Json& object, const char* name) {
  CAUSEWAY_ASSIGN(const Json* const value, field(object, name));
  return positive(*value, name);
}

Result<std::int64_t> count_of(const Json& object, const char* name) {
  CAUSEWAY_ASSIGN(const Json* const value, field(object, name));
  // A number of more than 64 bits is a float to the parser.
  if (!value->is_number_integer()) return wrong(std::string(name) + " is no whole number");
  const bool fits = !value->is_number_unsigned() || value->get<std::uint64_t>() < kSizeMax;
  const std::int64_t count = fits ? value->get<std::int64_t>() : kSizeMax;
  if (count < 1 || count >= kSizeMax) {
    return wrong(std::string(name) + " is not between 1 and 2^31");
  }
  return count;
}

Result<const Json*> list_of(const Json& object, const char* name, std::size_t most) {
  CAUSEWAY_ASSIGN(const Json* const value, field(object, name));
  if (!value->is_array()) return wrong(std::string(name) + " is no list");
  if (value->size() > most) {
    return wrong(std::string(name) + " has more than " + std::to_string(most) + " entries");
  }
  return value;
}

Result<Point> parse_point(const Json& json) {
  Point point;
  CAUSEWAY_ASSIGN(const std::string way, text_of(json, "way"));
  point.way = way_named(way);
  if (!point.way && way != kResident) return wrong("there is no way " + way);
  CAUSEWAY_ASSIGN(point.n, count_of(json, "n"));
  CAUSEWAY_ASSIGN(point.k, count_of(json, "k"));
  CAUSEWAY_ASSIGN(point.m, count_of(json, "m"));
  CAUSEWAY_ASSIGN(const std::int64_t sms, count_of(json, "sms"));
  point.sms = static_cast<int>(sms);
  CAUSEWAY_ASSIGN(const double ms, number_of(json, "ms"));
  point.seconds = ms * 1e-3;
  return point;
}

Result<Beside> parse_beside(const Json& object, const char* name) {
  CAUSEWAY_ASSIGN(const Json* const pair, list_of(object, name, 2));
  if (pair->size() != 2) return wrong(std::string(name) + " is no pair of factors");
  Beside beside;
  CAUSEWAY_ASSIGN(beside.product, positive((*pair)[0], name));
  CAUSEWAY_ASSIGN(beside.neighbour, positive((*pair)[1], name));
  return beside;
}

Result<MachineProfile> parse_machine(const Json& json) {
  MachineProfile machine;
  CAUSEWAY_ASSIGN(machine.gpu, text_of(json, "gpu"));
  CAUSEWAY_ASSIGN(const std::string home, text_of(json, "home"));
  const auto known = home_named(home);
  if (!known) return wrong("home is neither host nor peer");
  machine.home = *known;
  CAUSEWAY_ASSIGN(const std::string precision, text_of(json, "precision"));
  if (precision != kPrecision) {
    return unsupported("profile: precision " + precision + "; this build knows bf16");
  }
  CAUSEWAY_ASSIGN(machine.copy_gb_per_s, number_of(json, "copy_gb_per_s"));
  CAUSEWAY_ASSIGN(machine.read_gb_per_s, number_of(json, "read_gb_per_s"));
  CAUSEWAY_ASSIGN(const Json* const beside, field(json, "beside"));
  CAUSEWAY_ASSIGN(machine.staged, parse_beside(*beside, "staged"));
  CAUSEWAY_ASSIGN(machine.in_place, parse_beside(*beside, "in_place"));
  CAUSEWAY_ASSIGN(const Json* const points, list_of(json, "points", kPointsMax));
  for (std::size_t i = 0; i < points->size(); ++i) {
    auto point = parse_point((*points)[i]);
    if (!point.ok()) return point.error().with_context("point " + std::to_string(i));
    machine.points.push_back(*point);
  }
  CAUSEWAY_TRY(Profile::of(machine).ok() ? Status() : wrong("beside has a factor below 1"));
  return machine;
}

Json point_json(const Point& p) {
  return {{"way", p.way ? name_of(*p.way) : kResident},
          {"n", p.n},
          {"k", p.k},
          {"m", p.m},
          {"sms", p.sms},
          {"ms", std::round(p.seconds * 1e9) * 1e-6}};  // whole nanoseconds
}

Json pair_json(const Beside& b) { return Json::array({b.product, b.neighbour}); }

Json machine_json(const MachineProfile& m) {
  auto points = Json::array();
  for (const Point& point : m.points) points.push_back(point_json(point));
  return {{"gpu", m.gpu},
          {"home", name_of(m.home)},
          {"precision", kPrecision},
          {"copy_gb_per_s", m.copy_gb_per_s},
          {"read_gb_per_s", m.read_gb_per_s},
          {"beside", {{"staged", pair_json(m.staged)}, {"in_place", pair_json(m.in_place)}}},
          {"points", points}};
}

Status check_format(const Json& json) {
  CAUSEWAY_ASSIGN(const std::string format, text_of(json, "format"));
  if (format != kFormat) return wrong("the format is not causeway-home-profile");
  CAUSEWAY_ASSIGN(const std::int64_t version, count_of(json, "version"));
  if (version != kVersion) {
    return unsupported("profile: version " + std::to_string(version) +
                       "; this build reads version 1: the profile has to be measured anew");
  }
  return {};
}

}  // namespace

Result<std::vector<MachineProfile>> parse_profiles(std::string_view text) {
  if (text.size() > kBytesMax) return wrong("more than 16 MiB");
  if (too_deep(text)) return wrong("nested too deeply");
  std::string buffer;
  const Json json = Json::parse(plain_json_numbers(text, buffer), nullptr, false);
  if (json.is_discarded()) return wrong("no JSON");
  CAUSEWAY_TRY(check_format(json));
  CAUSEWAY_ASSIGN(const Json* const machines, list_of(json, "machines", kMachinesMax));
  std::vector<MachineProfile> parsed;
  std::set<std::pair<std::string, Home>> seen;
  for (std::size_t i = 0; i < machines->size(); ++i) {
    auto machine = parse_machine((*machines)[i]);
    if (!machine.ok()) return machine.error().with_context("machine " + std::to_string(i));
    if (!seen.insert({machine->gpu, machine->home}).second) {
      return wrong("machine " + std::to_string(i) + " is there twice");
    }
    parsed.push_back(std::move(*machine));
  }
  return parsed;
}

std::string profiles_json(const std::vector<MachineProfile>& machines) {
  auto list = Json::array();
  for (const MachineProfile& machine : machines) list.push_back(machine_json(machine));
  const Json json = {{"format", kFormat}, {"version", kVersion}, {"machines", list}};
  return json.dump(1) + "\n";
}

}  // namespace causeway::kernels::home_gemm
