#include "model/read_rope.h"

#include <algorithm>
#include <utility>

namespace causeway::model {
namespace {

std::optional<RopeType> type_named(const std::string& name) {
  if (name == "su") return RopeType::kLongRope;  // as Phi-3 called it at first
  for (const RopeType type :
       {RopeType::kLinear, RopeType::kLlama3, RopeType::kYarn, RopeType::kLongRope}) {
    if (name == name_of(type)) return type;
  }
  return std::nullopt;
}

void read_llama3(Fields& rope, RopeScaling& scaling) {
  scaling.low_freq_factor = rope.real("low_freq_factor", scaling.low_freq_factor, 1e-3, 1e6);
  scaling.high_freq_factor = rope.real("high_freq_factor", scaling.high_freq_factor, 1e-3, 1e6);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.fail("high_freq_factor", "must be larger than \"low_freq_factor\"");
  }
}

void read_yarn(Fields& rope, RopeScaling& scaling) {
  scaling.beta_fast = rope.real("beta_fast", scaling.beta_fast, 1e-3, 1e6);
  scaling.beta_slow = rope.real("beta_slow", scaling.beta_slow, 1e-3, 1e6);
  scaling.whole = rope.boolean("truncate", scaling.whole);
  if (scaling.beta_fast <= scaling.beta_slow) {
    rope.fail("beta_fast", "must be larger than \"beta_slow\"");
  }
  // DeepSeek's way of stating the attention factor.
  const double scale = rope.real("mscale", 0, 0, 100), all = rope.real("mscale_all_dim", 0, 0, 100);
  if (scaling.attention_factor || scale == 0 || all == 0 || scaling.factor <= 1) return;
  const double growth = 0.1 * std::log(scaling.factor);
  scaling.attention_factor = (scale * growth + 1) / (all * growth + 1);
}

void read_long_rope(Fields& rope, std::int64_t rotated, RopeScaling& scaling) {
  const std::pair<const char*, std::vector<double>*> lists[] = {
      {"short_factor", &scaling.short_factor}, {"long_factor", &scaling.long_factor}};
  for (const auto& [name, list] : lists) {
    *list = rope.reals(name, static_cast<std::size_t>(rotated / 2), 1e-3, 1e6);
  }
}

void read_scaled_rope(Fields& rope, Fields& fields, RopeType type, ModelConfig& config) {
  RopeScaling scaling{.type = type};
  // Phi-3 has the original context outside.
  const char* const original = "original_max_position_embeddings";
  const bool outside = rope.find(original) == nullptr && fields.find(original) != nullptr;
  Fields& place = outside ? fields : rope;
  const std::int64_t otherwise =
      type == RopeType::kLlama3 ? scaling.original_max_position : config.max_position.count;
  scaling.original_max_position = place.integer(original, kPositionsMax, otherwise, 2);
  const double longest = static_cast<double>(config.max_position.count) /
                         static_cast<double>(scaling.original_max_position);
  const bool follows = type == RopeType::kLongRope || (type == RopeType::kYarn && longest > 1);
  if (!follows && rope.find("factor") == nullptr) rope.fail("factor", "is missing");
  scaling.factor = rope.real("factor", std::max(1.0, longest), 1, 1e6);
  if (rope.find("attention_factor")) {
    scaling.attention_factor = rope.real("attention_factor", 1, 1e-3, 1e3);
  }
  switch (type) {
    case RopeType::kLinear: break;
    case RopeType::kLlama3: read_llama3(rope, scaling); break;
    case RopeType::kYarn: read_yarn(rope, scaling); break;
    case RopeType::kLongRope: read_long_rope(rope, config.rotated_dim(), scaling); break;
  }
  // Qwen's models state the context that they were trained on, and by what it is stretched.
  if (type == RopeType::kYarn) {
    const double stretched = scaling.factor * static_cast<double>(scaling.original_max_position);
    const auto most = static_cast<double>(kPositionsMax);
    config.max_position =
        std::max(config.max_position, Tokens(static_cast<std::int64_t>(std::min(stretched, most))));
  }
  config.rope_scaling = std::move(scaling);
}

// Which part of a head is rotated, rounded down as the published code does.
void read_part(Fields& fields, ModelConfig& config) {
  const char* const name = "partial_rotary_factor";
  if (fields.find(name) == nullptr) return;
  const double part = fields.real(name, 1, 0, 1);
  const auto size = static_cast<double>(config.head_dim);
  config.rotary_dim = static_cast<std::int64_t>(size * part);
  if (config.rotary_dim >= 2 && config.rotary_dim % 2 == 0) return;
  fields.fail(name, "makes " + std::to_string(config.rotary_dim) +
                        " elements of a head rotate; it must be an even number of at least 2");
  config.rotary_dim = 0;
}

void read_rope_scaling(Fields& fields, const nlohmann::json& object, const char* name,
                       ModelConfig& config) {
  if (!object.is_object()) return fields.fail(name, "must be an object");
  Fields rope(object, std::string(name) + ".");
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  config.rope_theta = rope.real("rope_theta", config.rope_theta, 1, 1e12);
  read_part(rope, config);
  if (const auto scaled = type_named(type)) {
    read_scaled_rope(rope, fields, *scaled, config);
  } else if (rope.status().ok() && type != "default") {
    return fields.refuse(name, "has the type \"" + type.substr(0, 40) +
                                   "\"; served are default, linear, llama3, yarn and longrope");
  }
  if (!rope.status().ok()) fields.fail(name, "is wrong: " + rope.status().error().message);
}

}  // namespace

void read_rope(Fields& fields, ModelConfig& config) {
  config.rope_theta = fields.real("rope_theta", traits_of(config.family).rope_theta, 1, 1e12);
  read_part(fields, config);
  if (const double local = traits_of(config.family).local_rope_theta; local > 0) {
    config.local_rope_theta = fields.real("rope_local_base_freq", local, 1, 1e12);
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (const auto* rope = fields.find(name)) read_rope_scaling(fields, *rope, name, config);
  }
}

}  // namespace causeway::model
