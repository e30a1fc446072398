#include "preload/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "base/dcheck.h"

namespace causeway::preload {
namespace {

class Reader {
 public:
  Reader(const std::function<const char*(const char*)>& variable,
         std::vector<std::string>& complaints)
      : variable_(variable), complaints_(complaints) {}

  std::optional<std::string_view> text(const char* name) const {
    const char* value = variable_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }

  // A number with K, M or G behind it, within [least, most].
  void size(const char* name, Bytes least, Bytes most, Bytes& into) {
    CAUSEWAY_DCHECK(least <= into && into <= most, "a default is a value that may be given");
    const auto value = text(name);
    if (!value) return;
    std::int64_t count = 0;
    const auto [end, failure] =
        std::from_chars(value->data(), value->data() + value->size(), count);
    const auto unit = shift_of(value->substr(static_cast<std::size_t>(end - value->data())));
    const bool sane = failure == std::errc() && unit && count >= 0 && count <= kLargest >> *unit;
    if (!sane || Bytes(count << *unit) < least || Bytes(count << *unit) > most) {
      return complain(name, *value,
                      "a size from " + std::to_string(least.count) + " to " +
                          std::to_string(most.count) + " bytes, such as 12M");
    }
    into = Bytes(count << *unit);
  }

  void number(const char* name, int least, int most, int& into) {
    CAUSEWAY_DCHECK(least <= into && into <= most, "a default is a value that may be given");
    const auto value = text(name);
    if (!value) return;
    const auto parsed = integer(*value);
    if (!parsed || *parsed < least || *parsed > most) {
      return complain(name, *value,
                      "a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    into = *parsed;
  }

  // One of some words; the first one unless another is given.
  std::size_t word(const char* name, std::initializer_list<std::string_view> words) {
    CAUSEWAY_DCHECK(words.size() >= 2, "the first word is the default, another switches");
    const auto value = text(name);
    if (!value) return 0;
    const auto* const found = std::find(words.begin(), words.end(), *value);
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    std::string wanted;
    for (const std::string_view one : words) {
      wanted += (wanted.empty() ? "" : ", ") + std::string(one);
    }
    complain(name, *value, "one of " + wanted);
    return 0;
  }

  void list(const char* name, std::optional<std::vector<int>>& into) {
    const auto value = text(name);
    if (!value) return;
    std::vector<int> numbers;
    if (*value != "none") {
      for (std::string_view rest = *value;;) {
        const std::size_t comma = rest.find(',');
        const auto parsed = integer(rest.substr(0, comma));
        if (!parsed || *parsed < 0 || *parsed > 63) {
          return complain(name, *value, "GPUs by number, such as 0,1, or none");
        }
        numbers.push_back(*parsed);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
    }
    into = std::move(numbers);
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 50;

  static std::optional<int> shift_of(std::string_view unit) {
    if (unit.empty()) return 0;
    if (unit == "K" || unit == "k") return 10;
    if (unit == "M" || unit == "m") return 20;
    if (unit == "G" || unit == "g") return 30;
    return std::nullopt;
  }

  static std::optional<int> integer(std::string_view text) {
    int value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  void complain(const char* name, std::string_view value, const std::string& wanted) {
    complaints_.push_back(std::string(name) + "=" + std::string(value.substr(0, 80)) +
                          " is ignored: it takes " + wanted);
  }

  const std::function<const char*(const char*)>& variable_;
  std::vector<std::string>& complaints_;
};

}  // namespace

Settings read_settings(const std::function<const char*(const char*)>& variable) {
  Settings settings;
  Reader reader(variable, settings.complaints);
  settings.off = reader.word("CAUSEWAY_PRELOAD", {"on", "off"}) != 0;
  reader.size("CAUSEWAY_THRESHOLD", kib(64), gib(1'024), settings.threshold);
  reader.size("CAUSEWAY_CHUNK", kib(256), mib(32), settings.chunk);
  reader.number("CAUSEWAY_DEPTH", 1, 8, settings.depth);
  reader.list("CAUSEWAY_GPUS", settings.gpus);
  reader.list("CAUSEWAY_RELAYS", settings.relays);
  reader.size("CAUSEWAY_STAGING", Bytes(0), mib(64), settings.staging);
  const Bytes buffers = settings.chunk * (2 * settings.depth);
  CAUSEWAY_DCHECK(buffers > Bytes(0), "a relay passes on chunks");
  if (settings.staging > Bytes(0) && buffers > settings.staging) {
    settings.complaints.push_back("no GPU relays: two ways of CAUSEWAY_DEPTH chunks take " +
                                  std::to_string(buffers.count) +
                                  " bytes, more than CAUSEWAY_STAGING");
  }
  settings.native_sync = reader.word("CAUSEWAY_SYNC", {"wait", "native"}) != 0;
  settings.async = static_cast<Async>(reader.word("CAUSEWAY_ASYNC", {"native", "wait", "hold"}));
  settings.order = static_cast<Order>(reader.word("CAUSEWAY_ORDER", {"value", "kernel"}));
  settings.wait_for_opening = reader.word("CAUSEWAY_OPEN", {"background", "wait"}) != 0;
  settings.link_map = reader.text("CAUSEWAY_LINK_MAP").value_or("");
  if (const auto cache = reader.text("XDG_CACHE_HOME")) {
    settings.link_map_folder = std::string(*cache) + "/causeway";
  } else if (const auto home = reader.text("HOME")) {
    settings.link_map_folder = std::string(*home) + "/.cache/causeway";
  }
  settings.statistics = reader.text("CAUSEWAY_STATISTICS").value_or("");
  return settings;
}

Settings read_settings() {
  return read_settings([](const char* name) { return std::getenv(name); });
}

}  // namespace causeway::preload
