#include "engine/chunk_profile.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/dcheck.h"
#include "weights/checked_json.h"

namespace causeway::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "causeway-chunk-profile";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kBytesMax = 16 << 20;
constexpr std::size_t kTablesMax = 4096;
constexpr std::size_t kStepsMax = 256;
constexpr std::size_t kTextMax = 256;
constexpr std::int64_t kCountMax = std::int64_t{1} << 31;
constexpr double kMsMin = 1e-5, kMsMax = 86'400'000;
constexpr double kPassesMax = 1e6;

Error wrong_field(const std::string& name, const json& value, std::string_view wanted) {
  return corrupt(fmt::format("{} is {}, not {}", name, weights::shown_json(value), wanted));
}

Result<const json*> field_of(const json& object, const std::string& name) {
  CAUSEWAY_DCHECK(object.is_object(), "fields of what is no object");
  const auto found = object.find(name);
  if (found == object.end()) return corrupt(name + " is missing");
  return &*found;
}

Result<std::string> text_field(const json& object, const std::string& name) {
  CAUSEWAY_ASSIGN(const json* const value, field_of(object, name));
  if (!value->is_string()) return wrong_field(name, *value, "a text");
  const auto& text = value->get_ref<const std::string&>();
  if (text.empty() || text.size() > kTextMax) {
    return corrupt(fmt::format("{} has {} bytes, and not 1 to {}", name, text.size(), kTextMax));
  }
  return text;
}

Result<std::int64_t> count_field(const json& object, const std::string& name) {
  CAUSEWAY_ASSIGN(const json* const value, field_of(object, name));
  const bool whole = value->is_number_unsigned() && value->get<std::uint64_t>() >= 1 &&
                     value->get<std::uint64_t>() < static_cast<std::uint64_t>(kCountMax);
  if (!whole) return wrong_field(name, *value, "a whole number from 1 to 2^31");
  return value->get<std::int64_t>();
}

Result<double> number_field(const json& object, const std::string& name, double low, double high) {
  CAUSEWAY_DCHECK(low <= high, "no number is in range");
  CAUSEWAY_ASSIGN(const json* const value, field_of(object, name));
  const double number = value->is_number() ? value->get<double>() : 0;
  if (number >= low && number <= high) return number;  // not where it is NaN
  return wrong_field(name, *value, fmt::format("a number from {:g} to {:g}", low, high));
}

Result<const json*> list_field(const json& object, const std::string& name, std::size_t most) {
  CAUSEWAY_DCHECK(most >= 1, "no list is short enough");
  CAUSEWAY_ASSIGN(const json* const value, field_of(object, name));
  if (!value->is_array()) return wrong_field(name, *value, "a list");
  if (value->empty() || value->size() > most) {
    return corrupt(fmt::format("{} has {} entries, and not 1 to {}", name, value->size(), most));
  }
  return value;
}

Result<MeasuredStep> parse_step(const json& object) {
  if (!object.is_object()) return corrupt("is " + weights::shown_json(object) + ", not an object");
  MeasuredStep step;
  CAUSEWAY_ASSIGN(step.tokens.count, count_field(object, "tokens"));
  CAUSEWAY_ASSIGN(step.ttft_ms, number_field(object, "ttft_ms", kMsMin, kMsMax));
  CAUSEWAY_ASSIGN(step.tpot_ms, number_field(object, "tpot_ms", kMsMin, kMsMax));
  CAUSEWAY_ASSIGN(step.gamma_x, number_field(object, "gamma_x", 0, kPassesMax));
  CAUSEWAY_ASSIGN(step.gamma_o, number_field(object, "gamma_o", 0, kPassesMax));
  return step;
}

Result<MeasuredTable> parse_table(const json& object) {
  if (!object.is_object()) return corrupt("is " + weights::shown_json(object) + ", not an object");
  MeasuredTable table;
  CAUSEWAY_ASSIGN(table.model, text_field(object, "model"));
  CAUSEWAY_ASSIGN(table.shape, text_field(object, "shape"));
  CAUSEWAY_ASSIGN(const std::int64_t processors, count_field(object, "processors"));
  table.processors = static_cast<int>(processors);
  CAUSEWAY_ASSIGN(table.decodes, count_field(object, "decodes"));
  CAUSEWAY_ASSIGN(table.context, count_field(object, "context"));
  CAUSEWAY_ASSIGN(table.runs, count_field(object, "runs"));
  CAUSEWAY_ASSIGN(const json* const steps, list_field(object, "steps", kStepsMax));
  for (std::size_t i = 0; i < steps->size(); ++i) {
    auto step = parse_step((*steps)[i]);
    if (!step.ok()) return step.error().with_context(fmt::format("steps[{}]", i));
    table.steps.push_back(*step);
  }
  const Status whole = schedule::check_table(table.times());
  if (!whole.ok()) return corrupt(whole.error().message);
  return table;
}

Status check_head(const json& document) {
  if (!document.is_object()) return corrupt("not a JSON object");
  CAUSEWAY_ASSIGN(const std::string format, text_field(document, "format"));
  if (format != kFormat) {
    return corrupt(fmt::format("format is '{}', not '{}'", format, kFormat));
  }
  CAUSEWAY_ASSIGN(const std::int64_t version, count_field(document, "version"));
  if (version == kVersion) return {};
  return unsupported(
      fmt::format("version is {}, and this build reads {}: the profile has to be measured anew",
                  version, kVersion));
}

ordered_json step_json(const MeasuredStep& step) {
  return {{"tokens", step.tokens.count},
          {"ttft_ms", step.ttft_ms},
          {"tpot_ms", step.tpot_ms},
          {"gamma_x", step.gamma_x},
          {"gamma_o", step.gamma_o}};
}

ordered_json table_json(const MeasuredTable& table) {
  auto steps = ordered_json::array();
  for (const MeasuredStep& step : table.steps) steps.push_back(step_json(step));
  return {{"model", table.model},     {"shape", table.shape},     {"processors", table.processors},
          {"decodes", table.decodes}, {"context", table.context}, {"runs", table.runs},
          {"steps", std::move(steps)}};
}

}  // namespace

schedule::StepTable MeasuredTable::times() const {
  CAUSEWAY_DCHECK(steps.size() <= kStepsMax, "more steps than a file may have");
  schedule::StepTable table{.decodes = decodes};
  for (const MeasuredStep& step : steps) {
    table.times.push_back(
        {.tokens = step.tokens, .alone = step.ttft_ms * 1e-3, .beside = step.tpot_ms * 1e-3});
  }
  return table;
}

Result<MeasuredChunks> parse_chunk_profile(std::string_view text) {
  if (text.size() > kBytesMax) return corrupt("a chunk profile of more than 16 MiB");
  CAUSEWAY_ASSIGN(const json document, weights::parse_json(text));
  CAUSEWAY_TRY(check_head(document));
  MeasuredChunks chunks;
  CAUSEWAY_ASSIGN(chunks.device, text_field(document, "device"));
  if (chunks.device != "cuda" && chunks.device != "cpu") {
    return corrupt("device is neither cuda nor cpu");
  }
  CAUSEWAY_ASSIGN(chunks.machine, text_field(document, "machine"));
  CAUSEWAY_ASSIGN(chunks.driver, text_field(document, "driver"));
  CAUSEWAY_ASSIGN(chunks.commit, text_field(document, "commit"));
  CAUSEWAY_ASSIGN(const json* const tables, list_field(document, "tables", kTablesMax));
  std::set<std::pair<std::string, int>> seen;
  for (std::size_t i = 0; i < tables->size(); ++i) {
    auto table = parse_table((*tables)[i]);
    if (!table.ok()) return table.error().with_context(fmt::format("tables[{}]", i));
    if (!seen.insert({table->shape, table->processors}).second) {
      return corrupt(fmt::format("tables[{}] is of a shape and processors that came before", i));
    }
    chunks.tables.push_back(std::move(table).value());
  }
  return chunks;
}

std::string chunk_profile_json(const MeasuredChunks& chunks) {
  CAUSEWAY_DCHECK(chunks.tables.size() <= kTablesMax, "more tables than a file may have");
  auto tables = ordered_json::array();
  for (const MeasuredTable& table : chunks.tables) tables.push_back(table_json(table));
  const ordered_json document = {{"format", kFormat},          {"version", kVersion},
                                 {"device", chunks.device},    {"machine", chunks.machine},
                                 {"driver", chunks.driver},    {"commit", chunks.commit},
                                 {"tables", std::move(tables)}};
  // Names of models are those of folders, which need not be UTF-8.
  return document.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

schedule::ChunkProfile profile_of(const MeasuredChunks& chunks, std::string file) {
  CAUSEWAY_DCHECK(!file.empty(), "messages that do not name the file");
  schedule::ChunkProfile profile{.file = std::move(file), .machine = chunks.machine};
  for (const MeasuredTable& table : chunks.tables) {
    profile.tables.push_back({.shape = table.shape,
                              .processors = table.processors,
                              .table = schedule::rising(table.times())});
  }
  return profile;
}

}  // namespace causeway::engine
