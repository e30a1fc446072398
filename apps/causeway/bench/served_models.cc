#include "bench/served_models.h"

#include <nlohmann/json.hpp>

#include "base/json_numbers.h"

namespace causeway::bench {
namespace {

std::string text(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
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
      const auto length = model.find("max_model_len");
      // Beyond that it is no length: an integer from 2^63 up would wrap.
      constexpr std::int64_t kMost = std::int64_t{1} << 40;
      if (length != model.end() && length->is_number_integer() && *length > 0 && *length <= kMost) {
        served.max_model_len = Tokens(length->get<std::int64_t>());
      }
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
