#include "bench/metrics_text.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace causeway::bench {
namespace {

// One line, from its beginning on.
class LineParser {
 public:
  explicit LineParser(std::string_view line) : rest_(line) {}

  std::optional<MetricSample> sample() {
    MetricSample sample;
    sample.name = take_name();
    if (sample.name.empty()) return std::nullopt;
    if (accept('{') && !take_labels(sample)) return std::nullopt;
    skip_spaces();
    const auto value = take_number();
    if (!value) return std::nullopt;
    sample.value = *value;
    skip_spaces();
    if (!rest_.empty() && !take_number()) return std::nullopt;  // its time
    skip_spaces();
    if (!rest_.empty()) return std::nullopt;
    return sample;
  }

 private:
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':';
  }
  bool accept(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_spaces() {
    while (accept(' ') || accept('\t')) continue;
  }
  std::string take_name() {
    std::size_t length = 0;
    while (length < rest_.size() && is_name(rest_[length])) ++length;
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }
  std::optional<std::string> take_quoted() {
    if (!accept('"')) return std::nullopt;
    std::string value;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return value;
      if (c != '\\') {
        value += c;
        continue;
      }
      if (rest_.empty()) return std::nullopt;
      value += rest_.front() == 'n' ? '\n' : rest_.front();
      rest_.remove_prefix(1);
    }
    return std::nullopt;
  }
  bool take_labels(MetricSample& sample) {
    while (!accept('}')) {
      const std::string label = take_name();
      if (label.empty() || !accept('=')) return false;
      auto value = take_quoted();
      if (!value) return false;
      sample.labels[label] = std::move(*value);
      if (!accept(',') && !rest_.starts_with('}')) return false;
    }
    return true;
  }
  std::optional<double> take_number() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t"));
    rest_.remove_prefix(word.size());
    if (word == "+Inf") return HUGE_VAL;
    if (word == "-Inf") return -HUGE_VAL;
    if (word == "NaN") return std::nan("");
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
  }

  std::string_view rest_;
};

}  // namespace

Result<std::vector<MetricSample>> parse_metrics(std::string_view text) {
  std::vector<MetricSample> samples;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    auto sample = LineParser(line).sample();
    if (!sample) return corrupt("line " + std::to_string(number) + " of the metrics is no sample");
    samples.push_back(std::move(*sample));
  }
  return samples;
}

std::map<std::string, double> sums_of(const std::vector<MetricSample>& samples,
                                      std::string_view name,
                                      const std::vector<std::string>& labels) {
  std::map<std::string, double> sums;
  for (const MetricSample& sample : samples) {
    if (sample.name != name) continue;
    std::string key;
    for (const std::string& label : labels) {
      const auto found = sample.labels.find(label);
      if (found == sample.labels.end()) continue;
      key += (key.empty() ? "" : " ") + found->second;
    }
    sums[key] += sample.value;
  }
  return sums;
}

}  // namespace causeway::bench
