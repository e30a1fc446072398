#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"
#include "client/sse_client.h"
#include "commands/command.h"

namespace causeway::app {
namespace {

struct ModelState {
  std::string model, state;
  std::int64_t host_bytes = 0, device_bytes = 0, running = 0, waiting = 0, rotary = 0;
  std::int64_t streamed_bytes = 0, predicted_tpot_us = 0;  // 0: nothing is streamed, or known
};

// A field of an answer from outside: 0 when it is not there, or no integer below 2^63.
std::int64_t number(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  const bool fits = found != object.end() && found->is_number_integer() && *found <= INT64_MAX;
  return fits ? found->get<std::int64_t>() : 0;
}

std::string text(const nlohmann::json& object, const char* name, const char* otherwise) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

struct Listing {
  std::vector<ModelState> rows;
  std::int64_t kv_blocks = 0, kv_used = 0;  // of host memory for KV; 0: there is none
};

Result<Listing> read_listing(const std::string& body) {
  std::string buffer;
  const auto listing = nlohmann::json::parse(plain_json_numbers(body, buffer), nullptr, false);
  if (!listing.is_object() || !listing.contains("data") || !listing["data"].is_array()) {
    return corrupt("the answer to /models is not a list of models; is it a Causeway server?");
  }
  Listing read;
  const auto kv = listing.find("kv_host");
  if (kv != listing.end() && kv->is_object()) {
    read.kv_blocks = number(*kv, "blocks");
    read.kv_used = number(*kv, "used");
  }
  for (const auto& model : listing["data"]) {
    if (!model.is_object()) continue;
    ModelState row{.model = text(model, "id", "?"), .state = text(model, "status", "?")};
    row.running = number(model, "requests_running");
    row.waiting = number(model, "requests_waiting");
    row.rotary = number(model, "requests_rotary");
    row.streamed_bytes = number(model, "streamed_bytes_per_step");
    row.predicted_tpot_us = number(model, "predicted_tpot_us");
    const auto bytes = model.find("resident_bytes");
    if (bytes != model.end() && bytes->is_object()) {
      row.host_bytes = number(*bytes, "host");
      row.device_bytes = number(*bytes, "device");
    }
    read.rows.push_back(std::move(row));
  }
  return read;
}

std::string human(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", value * 1e-9);
  if (bytes >= 1'000'000) return fmt::format("{:.2f} MB", value * 1e-6);
  return fmt::format("{} B", bytes);
}

// What a streamed model's token costs.
std::string streaming(const ModelState& row) {
  if (row.streamed_bytes == 0) return "";
  const std::string bytes = human(row.streamed_bytes);
  if (row.predicted_tpot_us == 0) return bytes;
  return fmt::format("{}, {:.1f} ms", bytes, static_cast<double>(row.predicted_tpot_us) * 1e-3);
}

void print_table(const Listing& listing) {
  const std::vector<ModelState>& rows = listing.rows;
  std::size_t width = std::string_view("model").size();
  for (const ModelState& row : rows) width = std::max(width, row.model.size());
  fmt::print("{:<{}}  {:<9} {:>11} {:>11} {:>8} {:>8} {:>8}  {}\n", "model", width, "state", "host",
             "device", "running", "waiting", "rotary", "streamed/token");
  for (const ModelState& row : rows) {
    fmt::print("{:<{}}  {:<9} {:>11} {:>11} {:>8} {:>8} {:>8}  {}\n", row.model, width, row.state,
               human(row.host_bytes), human(row.device_bytes), row.running, row.waiting, row.rotary,
               streaming(row));
  }
  if (listing.kv_blocks > 0) {
    fmt::print("KV in host memory: {} of {} blocks\n", listing.kv_used, listing.kv_blocks);
  }
}

class Ps final : public Command {
 public:
  explicit Ps(Options& parent)
      : Command(parent, "ps", "List the models of a running server: state, bytes, requests") {
    options().add_option("--url", url_, "URL of the server").show_default();
    options().add_option("--api-key", api_key_, "sent as a bearer token");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(const bench::Endpoint endpoint, bench::parse_api_url(url_, api_key_));
    const auto body = bench::get(endpoint, "/models", seconds(10));
    if (!body.ok()) {
      Error error = body.error();
      if (error.code == ErrorCode::kNotFound) {
        error.message += "; --url is where models are asked (serve's --port, not --admin-port)";
      }
      return error;
    }
    CAUSEWAY_ASSIGN(const auto listing, read_listing(*body));
    print_table(listing);
    return {};
  }

 private:
  std::string url_ = "http://127.0.0.1:8000";
  std::string api_key_;
};

}  // namespace

std::unique_ptr<Command> make_ps(Options& parent) { return std::make_unique<Ps>(parent); }

}  // namespace causeway::app
