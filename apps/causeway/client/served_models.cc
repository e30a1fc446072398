#include "client/served_models.h"

#include <nlohmann/json.hpp>

#include "base/json_numbers.h"

namespace causeway::bench {
namespace {

std::string text(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Zero where it is not there, or none. Beyond kMost it is no count: from 2^63 up it would wrap.
std::int64_t count(const nlohmann::json& object, const char* name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return 0;
  return *found > 0 && *found <= kMost ? found->get<std::int64_t>() : 0;
}

}  // namespace

Result<std::vector<ServedModel>> read_served_models(const std::string& body) {
  std::string buffer;
  const auto listing = nlohmann::json::parse(plain_json_numbers(body, buffer), nullptr, false);
  std::vector<ServedModel> models;
  if (listing.is_object() && listing.contains("data") && listing["data"].is_array()) {
    for (const auto& model : listing["data"]) {
      if (!model.is_object() || text(model, "id").empty()) continue;
      ServedModel served{.name = text(model, "id"), .status = text(model, "status")};
      served.max_model_len = Tokens(count(model, "max_model_len"));
      served.vocab = count(model, "vocab_size");
      models.push_back(std::move(served));
    }
  }
  if (models.empty()) return unavailable("the server lists no models");
  return models;
}

Result<std::vector<ServedModel>> served_models(const Endpoint& endpoint) {
  CAUSEWAY_ASSIGN(const std::string body, get(endpoint, "/models", seconds(10)));
  return read_served_models(body);
}

}  // namespace causeway::bench
