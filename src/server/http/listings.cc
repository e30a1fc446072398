#include "server/http/listings.h"

#include "server/api/json_write.h"

namespace causeway::server {

std::string model_body(const fleet::CatalogueEntry& model, const fleet::ModelStatus& status) {
  std::string out = "{\"id\":";
  append_json_string(out, model.name);
  out += ",\"object\":\"model\",\"created\":";
  append_json_integer(out, model.created_unix_seconds);
  out += ",\"owned_by\":\"causeway\",\"root\":";
  append_json_string(out, model.name);
  out += ",\"max_model_len\":";
  append_json_integer(out, model.max_model_len.count);
  out += ",\"vocab_size\":";
  append_json_integer(out, model.vocab);
  out += ",\"status\":";
  append_json_string(out, fleet::name_of(status.state));
  out += ",\"resident_bytes\":{\"host\":";
  append_json_integer(out, status.host_bytes.count);
  out += ",\"device\":";
  append_json_integer(out, status.device_bytes.count);
  out += "},\"requests_running\":";
  append_json_integer(out, status.requests_running);
  out += ",\"requests_waiting\":";
  append_json_integer(out, status.requests_waiting);
  out += ",\"requests_rotary\":";
  append_json_integer(out, status.requests_rotary);
  if (status.streamed_bytes > Bytes(0)) {
    out += ",\"streamed_bytes_per_step\":";
    append_json_integer(out, status.streamed_bytes.count);
  }
  if (status.predicted_tpot > Nanos(0)) {
    out += ",\"predicted_tpot_us\":";
    append_json_integer(out, status.predicted_tpot.count / 1000);
  }
  if (status.best_effort) out += ",\"best_effort\":true";
  if (!status.last_error.empty()) {
    out += ",\"last_error\":";
    append_json_string(out, status.last_error);
  }
  out += '}';
  return out;
}

std::string models_body(const fleet::Fleet& fleet) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  bool first = true;
  for (const fleet::CatalogueEntry* model : fleet.catalogue()) {
    if (!first) out += ',';
    first = false;
    out += model_body(*model, fleet.status(model->id));
  }
  out += ']';
  const request::Observation seen = fleet.observe();
  if (seen.twins_total > 0) {
    out += ",\"kv_host\":{\"blocks\":";
    append_json_integer(out, seen.twins_total);
    out += ",\"used\":";
    append_json_integer(out, seen.twins_used);
    out += '}';
  }
  out += '}';
  return out;
}

std::string version_body(std::string_view version) {
  std::string out = "{\"version\":";
  append_json_string(out, version);
  out += '}';
  return out;
}

}  // namespace causeway::server
