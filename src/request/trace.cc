#include "request/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/json_numbers.h"

namespace causeway::request {
namespace {

constexpr std::int64_t kTokensMax = 100'000'000;
constexpr Nanos kTimeMax = seconds(std::int64_t{200} * 366 * 86'400);  // since 1970, or the start
constexpr std::size_t kLineMax = std::size_t{16} << 20;

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    fields.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos) return fields;
    begin = end + 1;
  }
}

std::optional<Tokens> parse_tokens(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 0 || count > kTokensMax) return std::nullopt;
  if (end != text.data() + text.size() && *end != '.') return std::nullopt;  // "32.0" occurs
  return Tokens(count);
}

bool is_time(const std::tm& t) {
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  return within(t.tm_year, 1970, 2150) && within(t.tm_mon, 1, 12) && within(t.tm_mday, 1, 31) &&
         within(t.tm_hour, 0, 23) && within(t.tm_min, 0, 59) && within(t.tm_sec, 0, 60);
}

// "2023-11-16 18:17:03.9799600", fraction optional, as nanoseconds since 1970.
std::optional<Nanos> parse_time(std::string_view text) {
  std::tm parts{};
  const std::string copy(text.substr(0, 40));
  int consumed = 0;
  if (std::sscanf(copy.c_str(), "%d-%d-%d %d:%d:%d%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &consumed) != 6) {
    return std::nullopt;
  }
  if (!is_time(parts)) return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  std::int64_t fraction = 0;
  std::int64_t unit = 100'000'000;
  for (std::size_t i = static_cast<std::size_t>(consumed) + 1;
       i < copy.size() && copy[static_cast<std::size_t>(consumed)] == '.' && unit > 0; ++i) {
    if (copy[i] < '0' || copy[i] > '9') break;
    fraction += (copy[i] - '0') * unit;
    unit /= 10;
  }
  return seconds(timegm(&parts)) + Nanos(fraction);
}

// Reads one line into an entry; nullopt when it does not have the format's form. `wrong` is then
// the field of a JSON object that is missing or out of range, or empty.
using LineReader = std::optional<TraceEntry> (*)(std::string_view, std::string& wrong);

std::optional<TraceEntry> read_azure(std::string_view line, std::string&) {
  const auto fields = split(line, ',');
  if (fields.size() != 3) return std::nullopt;
  const auto time = parse_time(fields[0]);
  const auto prompt = parse_tokens(fields[1]);
  const auto output = parse_tokens(fields[2]);
  if (!time || !prompt || !output) return std::nullopt;
  TraceEntry entry;
  entry.arrival = *time;
  entry.prompt = *prompt;
  entry.output = *output;
  return entry;
}

std::optional<TraceEntry> read_lengths(std::string_view line, std::string&) {
  const auto fields = split(line, ',');
  if (fields.size() < 2) return std::nullopt;
  const auto prompt = parse_tokens(fields[0]);
  const auto output = parse_tokens(fields[1]);
  if (!prompt || !output) return std::nullopt;
  TraceEntry entry;
  entry.prompt = *prompt;
  entry.output = *output;
  return entry;
}

std::optional<TraceEntry> read_genai(std::string_view line, std::string&) {
  constexpr std::size_t kModelField = 9, kFields = 11;
  const auto fields = split(line, ',');
  // A line that was cut has fewer fields; the rest of its model's name would pass for another
  // model.
  if (fields.size() != kFields) return std::nullopt;
  const auto time = parse_time(fields[0]);
  if (!time) return std::nullopt;
  TraceEntry entry;
  entry.arrival = *time;
  entry.model = fields[kModelField];
  return entry;
}

// An integer from 0 to `most`, else -1.
std::int64_t integer(const nlohmann::json& value, std::int64_t most) {
  if (!value.is_number_integer() || value < 0 || value > most) return -1;
  return value.get<std::int64_t>();
}

// The value of the field, from 0 to `most`; -1 on error, with the field's name in `wrong`.
std::int64_t integer(const nlohmann::json& object, const char* key, std::int64_t most,
                     std::string& wrong) {
  const auto found = object.find(key);
  const std::int64_t number = found == object.end() ? -1 : integer(*found, most);
  if (number < 0 && wrong.empty()) wrong = key;
  return number;
}

template <typename T>
void read_array(const nlohmann::json& object, const char* key, std::vector<T>& out,
                std::string& wrong) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  bool good = found->is_array();
  for (std::size_t i = 0; good && i < found->size(); ++i) {
    const std::int64_t id = integer((*found)[i], std::numeric_limits<T>::max());
    good = id >= 0;
    out.push_back(static_cast<T>(id));
  }
  if (!good && wrong.empty()) wrong = key;
}

struct JsonKeys {
  const char* time;
  Nanos time_unit;
  const char* prompt;
  const char* output;
};

std::optional<TraceEntry> read_json(std::string_view line, const JsonKeys& keys,
                                    std::string& wrong) {
  std::string buffer;
  const auto object = nlohmann::json::parse(plain_json_numbers(line, buffer), nullptr,
                                            /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  TraceEntry entry;
  entry.arrival = keys.time_unit * integer(object, keys.time, kTimeMax / keys.time_unit, wrong);
  entry.prompt = Tokens(integer(object, keys.prompt, kTokensMax, wrong));
  entry.output = Tokens(integer(object, keys.output, kTokensMax, wrong));
  read_array(object, "input_tok_ids", entry.prompt_ids, wrong);
  read_array(object, "hash_ids", entry.block_ids, wrong);
  return wrong.empty() ? std::optional(std::move(entry)) : std::nullopt;
}

std::optional<TraceEntry> read_mooncake(std::string_view line, std::string& wrong) {
  return read_json(line, {"timestamp", millis(1), "input_length", "output_length"}, wrong);
}

std::optional<TraceEntry> read_sharegpt(std::string_view line, std::string& wrong) {
  return read_json(line, {"arrival_time_ns", Nanos(1), "input_toks", "output_toks"}, wrong);
}

// A trace's lines, one after the other, none much longer than kLineMax.
class Lines {
 public:
  explicit Lines(std::istream& in) : in_(in), piece_(kPiece) {}

  // False at the end of the trace, or when the line is too long.
  bool next() {
    line_.clear();
    while (true) {
      in_.getline(piece_.data(), kPiece);
      const auto count = static_cast<std::size_t>(in_.gcount());
      const bool ended = !in_.fail();            // by the end of the line, or of the file
      const bool counted = ended && !in_.eof();  // the line's end, which is not in the piece
      line_.append(piece_.data(), counted ? count - 1 : count);
      if (ended) break;
      if (count == 0) {
        if (line_.empty()) return false;
        break;
      }
      in_.clear();  // the piece was full
      too_long_ = line_.size() > kLineMax;
      if (too_long_) return false;
    }
    if (line_.ends_with('\r')) line_.pop_back();
    return true;
  }
  const std::string& line() const { return line_; }  // until next()
  bool too_long() const { return too_long_; }

 private:
  static constexpr std::streamsize kPiece = 1 << 16;

  std::istream& in_;
  std::vector<char> piece_;
  std::string line_;
  bool too_long_ = false;
};

struct Format {
  std::string_view first_line_starts;
  std::string_view first_line_has;
  LineReader read;
  bool header;  // the first line is no entry
  bool arrivals, models, lengths;
};

constexpr Format kFormats[] = {
    {"TIMESTAMP,", "ContextTokens", read_azure, true, true, false, true},
    {"num_prefill_tokens,", "num_decode_tokens", read_lengths, true, false, false, true},
    {"gmt_create,", "checkpoint_model_version_id", read_genai, true, true, true, false},
    {"{", "\"input_toks\"", read_sharegpt, false, true, false, true},
    {"{", "\"input_length\"", read_mooncake, false, true, false, true},
};

const Format* recognise(std::string_view first_line) {
  for (const Format& format : kFormats) {
    if (first_line.starts_with(format.first_line_starts) &&
        first_line.find(format.first_line_has) != std::string_view::npos) {
      return &format;
    }
  }
  return nullptr;
}

void sort_from_zero(std::vector<TraceEntry>& entries) {
  const auto earlier = [](const TraceEntry& a, const TraceEntry& b) {
    return a.arrival < b.arrival;
  };
  std::stable_sort(entries.begin(), entries.end(), earlier);
  if (entries.empty()) return;
  const Nanos first = entries.front().arrival;
  for (TraceEntry& entry : entries) entry.arrival -= first;
}

// A Gamma variate with this shape and scale 1, by Marsaglia and Tsang (2000). For a shape below 1
// it is the product of one of shape + 1 and a power of a uniform number.
double gamma(double shape, Random& random) {
  if (shape < 1) return gamma(shape + 1, random) * std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log1p(-random.uniform()) < x * x / 2 + d * (1 - v + std::log(v)))
      return d * v;
  }
}

}  // namespace

Result<Trace> load_trace(const std::filesystem::path& file, std::int64_t entries_max) {
  std::ifstream in(file);
  return read_trace(in, file.string(), entries_max);
}

Result<Trace> read_trace(std::istream& in, const std::string& name, std::int64_t entries_max) {
  Lines lines(in);
  if (!lines.next()) {
    if (lines.too_long()) return corrupt(name + ":1: the line is too long for a trace");
    return not_found(name + ": cannot be read, or is empty");
  }
  std::string_view line = lines.line();
  const Format* format = recognise(line);
  if (format == nullptr) {
    return unsupported(name + ": no known trace format; its first line is '" +
                       std::string(line.substr(0, 80)) + "'");
  }
  Trace trace{.entries = {},
              .has_arrivals = format->arrivals,
              .has_models = format->models,
              .has_lengths = format->lengths};
  std::int64_t number = 1;
  bool more = !format->header || lines.next();
  if (format->header) ++number;
  for (; more; more = lines.next(), ++number) {
    if (entries_max > 0 && static_cast<std::int64_t>(trace.entries.size()) >= entries_max) break;
    line = lines.line();
    if (line.empty()) continue;
    std::string wrong;
    auto entry = format->read(line, wrong);
    if (!entry) {
      return corrupt(name + ":" + std::to_string(number) + ": " +
                     (wrong.empty() ? "not of the file's format; is the file cut?"
                                    : "'" + wrong + "' is missing or out of range"));
    }
    trace.entries.push_back(std::move(*entry));
  }
  if (lines.too_long()) {
    return corrupt(name + ":" + std::to_string(number) + ": the line is too long for a trace");
  }
  sort_from_zero(trace.entries);
  return trace;
}

std::vector<Nanos> poisson_arrivals(std::int64_t count, double per_second, Random& random) {
  return gamma_arrivals(count, per_second, 1, random);
}

std::vector<Nanos> gamma_arrivals(std::int64_t count, double per_second, double burstiness,
                                  Random& random) {
  std::vector<Nanos> arrivals;
  double now = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    arrivals.push_back(nanos_from_seconds(now));
    if (per_second <= 0) continue;
    now += burstiness == 1 ? random.exponential(1.0 / per_second)
                           : gamma(burstiness, random) / (burstiness * per_second);
  }
  return arrivals;
}

}  // namespace causeway::request
