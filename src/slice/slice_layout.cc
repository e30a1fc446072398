#include "slice/slice_layout.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"

namespace causeway::slice {
namespace {

constexpr std::size_t kTextMax = 4096;
constexpr std::size_t kQuotedMax = 60;
constexpr std::int64_t kTakenMax = std::int64_t{1} << 40;

// What stands between two separators.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find_first_of(separators);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// A number of digits only, that fits an int.
std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.front() == '-' || error != std::errc() ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// For a message: hostile text may be long, and may not be text.
std::string quoted(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, kQuotedMax)) {
    const bool plain = c >= ' ' && c <= '~' && c != '\'';
    shown += plain ? c : '?';
  }
  return shown + (text.size() > kQuotedMax ? "…'" : "'");
}

// `count` slices of `size` each; nothing: the whole GPU.
struct Group {
  int count = 1;
  std::optional<int> size;
};

class Parser {
 public:
  Parser(std::string_view text, const SliceFacts& facts) : text_(text), facts_(facts) {}

  Result<SliceLayout> run() {
    if (text_.size() > kTextMax) {
      return bad("it is longer than " + std::to_string(kTextMax) + " characters");
    }
    for (const std::string_view entry : split(text_, ";")) CAUSEWAY_TRY(parse_entry(entry));
    return std::move(layout_);
  }

 private:
  const char* word() const { return facts_.threads ? "threads" : "SMs"; }
  std::string name(int gpu) const {
    return (facts_.threads ? "device " : "GPU ") + std::to_string(gpu);
  }
  const SliceGpu& facts_of(int gpu) const { return facts_.gpus[static_cast<std::size_t>(gpu)]; }
  int usable(int gpu) const { return facts_of(gpu).unit * facts_of(gpu).units; }

  std::string what_there_is(int gpu) const {
    const SliceGpu& facts = facts_of(gpu);
    std::string text = name(gpu) + " has " + std::to_string(facts.processors) + " " + word();
    if (facts.units == 0) return text + ", which cannot be divided";
    if (facts.unit > 1) {
      text += ", of which slices get units of " + std::to_string(facts.unit) + ", " +
              std::to_string(usable(gpu)) + " in all";
    }
    for (const SliceSplit& split : facts.coarser) {
      text += "; in units of " + std::to_string(split.unit) + " alone, " +
              std::to_string(split.unit * split.units);
    }
    return text;
  }
  Error bad(const std::string& why) const {
    return invalid_argument("slices " + quoted(text_) + ": " + why);
  }
  Error bad_form(std::string_view piece) const {
    return bad(quoted(piece) + " is no COUNTxSIZE, such as 2x" +
               std::to_string(std::max(1, usable(facts_.gpu) / 2)) +
               ", and not 'all'; several are separated by ',', those of several GPUs by ';' as in "
               "0:all;1:all");
  }

  Status parse_entry(std::string_view entry) {
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) return divide(facts_.gpu, entry);
    const std::string_view gpus = entry.substr(0, colon), groups = entry.substr(colon + 1);
    if (gpus == "*") {
      for (int gpu = 0; gpu < static_cast<int>(facts_.gpus.size()); ++gpu) {
        CAUSEWAY_TRY(divide(gpu, groups));
      }
      return {};
    }
    const std::optional<int> gpu = number_of(gpus);
    if (!gpu) return bad(quoted(gpus) + " is no number of a GPU, and not '*', which is every one");
    return divide(*gpu, groups);
  }

  Status divide(int gpu, std::string_view text) {
    if (gpu < 0 || gpu >= static_cast<int>(facts_.gpus.size())) {
      return bad("there is no " + name(gpu) + "; there are " + std::to_string(facts_.gpus.size()) +
                 ", counted from 0");
    }
    if (!named_.insert(gpu).second) return bad(name(gpu) + " is named twice");
    std::vector<Group> groups;
    for (const std::string_view piece : split(text, ",+")) {
      CAUSEWAY_ASSIGN(const Group group, parse_group(piece));
      groups.push_back(group);
    }
    const bool whole =
        groups.size() == 1 && groups[0].count == 1 &&
        groups[0].size.value_or(facts_of(gpu).processors) == facts_of(gpu).processors;
    if (whole) {
      layout_.parts.push_back({.gpu = gpu, .processors = facts_of(gpu).processors});
      return {};
    }
    return add_parts(gpu, groups);
  }

  Result<Group> parse_group(std::string_view piece) const {
    if (piece == "all" || piece == "1xall") return Group{};
    const std::size_t cross = piece.find('x');
    if (cross == std::string_view::npos) return bad_form(piece);
    const std::optional<int> count = number_of(piece.substr(0, cross));
    const std::optional<int> size = number_of(piece.substr(cross + 1));
    if (!count || !size) return bad_form(piece);
    if (*count < 1) return bad(quoted(piece) + " is no slice");
    return Group{*count, size};
  }

  Status add_parts(int gpu, const std::vector<Group>& groups) {
    const int unit = facts_of(gpu).unit;
    std::int64_t taken = 0;
    for (const Group& group : groups) {
      if (!group.size) return bad("where a slice is all of " + name(gpu) + " it has no other");
      if (*group.size < unit) {
        return bad("a slice of " + std::to_string(*group.size) + " " + word() +
                   " is less than a unit: " + what_there_is(gpu));
      }
      taken += std::int64_t{group.count} * (*group.size / unit * unit);
      if (taken > kTakenMax) break;  // more than any GPU has: the sum of many would overflow
    }
    const std::optional<int> split = split_for(gpu, groups, taken);
    if (!split) {
      return bad("its slices of " + name(gpu) + " need " + std::to_string(taken) + " " + word() +
                 " together: " + what_there_is(gpu));
    }
    for (const Group& group : groups) add_group(gpu, group, *split, taken);
    return {};
  }

  // The unit of a split that has room for all slices: SlicePart::unit. `taken`: by all of them.
  std::optional<int> split_for(int gpu, const std::vector<Group>& groups,
                               std::int64_t taken) const {
    if (taken <= usable(gpu)) return 0;
    const int finest = facts_of(gpu).unit;
    for (const SliceSplit& split : facts_of(gpu).coarser) {
      const bool whole_units = std::all_of(groups.begin(), groups.end(), [&](const Group& group) {
        return *group.size / finest * finest % split.unit == 0;
      });
      if (whole_units && taken <= std::int64_t{split.unit} * split.units) return split.unit;
    }
    return std::nullopt;
  }

  void add_group(int gpu, const Group& group, int split, std::int64_t taken) {
    const int unit = facts_of(gpu).unit, got = *group.size / unit * unit;
    for (int i = 0; i < group.count; ++i) {
      layout_.parts.push_back({.gpu = gpu,
                               .processors = got,
                               .unit = split,
                               .whole = false,
                               .share = static_cast<double>(got) / static_cast<double>(taken)});
    }
    if (got == *group.size) return;
    layout_.notes.push_back("a slice of " + std::to_string(*group.size) + " " + word() + " gets " +
                            std::to_string(got) + ": " + what_there_is(gpu));
  }

  const std::string_view text_;
  const SliceFacts& facts_;
  std::set<int> named_;
  SliceLayout layout_;
};

}  // namespace

Result<SliceLayout> parse_slices(std::string_view text, const SliceFacts& facts) {
  CAUSEWAY_CHECK(facts.gpu >= 0 && facts.gpu < static_cast<int>(facts.gpus.size()),
                 "the GPU that slices are of is none of the machine's");
  for (const SliceGpu& gpu : facts.gpus) {
    CAUSEWAY_CHECK(gpu.processors >= 1 && gpu.unit >= 1 && gpu.units >= 0 &&
                       std::int64_t{gpu.unit} * gpu.units <= gpu.processors,
                   "a GPU has processors, and units of them");
    for (const SliceSplit& split : gpu.coarser) {
      CAUSEWAY_CHECK(split.unit > gpu.unit && split.units >= 1 &&
                         std::int64_t{split.unit} * split.units <= gpu.processors,
                     "a coarser split has larger units, and no more processors than the GPU");
    }
  }
  return Parser(text, facts).run();
}

}  // namespace causeway::slice
