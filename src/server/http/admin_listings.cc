#include "server/http/admin_listings.h"

#include "server/api/json_write.h"
#include "server/http/listings.h"
#include "server/model_watch.h"

namespace causeway::server {
namespace {

void append_boolean(std::string& out, std::string_view name, bool value) {
  append_json_string(out, name);
  out += value ? ":true" : ":false";
}

void append_names(std::string& out, std::string_view field, const std::vector<std::string>& names) {
  append_json_string(out, field);
  out += ":[";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, names[i]);
  }
  out += ']';
}

void append_exceptions(std::string& out, std::string_view field,
                       const std::vector<fleet::ReloadReport::Exception>& all) {
  append_json_string(out, field);
  out += ":[";
  for (std::size_t i = 0; i < all.size(); ++i) {
    out += i > 0 ? ",{\"model\":" : "{\"model\":";
    append_json_string(out, all[i].model);
    out += ",\"why\":";
    append_json_string(out, all[i].why);
    out += '}';
  }
  out += ']';
}

template <typename AppendOne>
void append_models(std::string& out, const fleet::Fleet& fleet, AppendOne append_one) {
  out += '[';
  bool first = true;
  for (const fleet::CatalogueEntry* model : fleet.catalogue()) {
    std::string one = append_one(*model);
    if (one.empty()) continue;
    if (!first) out += ',';
    first = false;
    out += one;
  }
  out += ']';
}

std::string router_model(const fleet::Fleet& fleet, const fleet::CatalogueEntry& model) {
  const fleet::ModelStatus status = fleet.status(model.id);
  std::string out = "{\"id\":";
  append_json_string(out, model.name);
  out += ",\"object\":\"model\",\"created\":";
  append_json_integer(out, model.created_unix_seconds);
  out += ",\"owned_by\":\"causeway\",\"status\":{\"value\":";
  append_json_string(out, router_value(status));
  const bool failed = status.state == fleet::ModelState::kUnloaded && !status.last_error.empty();
  out += failed ? ",\"failed\":true}}" : "}}";
  return out;
}

}  // namespace

std::string admin_model_body(const fleet::Fleet& fleet, const fleet::CatalogueEntry& model) {
  const fleet::ModelStatus status = fleet.status(model.id);
  std::string out = model_body(model, status);
  out.back() = ',';
  append_boolean(out, "pinned", status.pinned);
  out += ',';
  append_boolean(out, "attached", status.attached);
  out += '}';
  return out;
}

std::string admin_models_body(const fleet::Fleet& fleet, const ServerState& state) {
  std::string out = "{\"object\":\"list\",\"data\":";
  append_models(out, fleet, [&](const auto& model) { return admin_model_body(fleet, model); });
  out += ',';
  append_boolean(out, "draining", state.draining);
  out += ',';
  append_boolean(out, "is_sleeping", state.asleep);
  out += '}';
  return out;
}

std::string sleep_body(const fleet::Fleet& fleet, bool asleep) {
  std::string out = is_sleeping_body(asleep);
  out.back() = ',';
  out += "\"loaded\":";
  append_models(out, fleet, [&](const auto& model) {
    std::string name;
    if (fleet.status(model.id).attached) append_json_string(name, model.name);
    return name;
  });
  out += '}';
  return out;
}

std::string is_sleeping_body(bool asleep) {
  std::string out = "{";
  append_boolean(out, "is_sleeping", asleep);
  out += '}';
  return out;
}

std::string reload_body(const fleet::ReloadReport& report) {
  std::string out = "{";
  append_names(out, "added", report.added);
  out += ',';
  append_names(out, "removed", report.removed);
  out += ',';
  append_exceptions(out, "kept", report.kept);
  out += ',';
  append_exceptions(out, "left_out", report.left_out);
  out += '}';
  return out;
}

std::string router_models_body(const fleet::Fleet& fleet) {
  std::string out = "{\"object\":\"list\",\"data\":";
  append_models(out, fleet, [&](const auto& model) { return router_model(fleet, model); });
  out += '}';
  return out;
}

}  // namespace causeway::server
