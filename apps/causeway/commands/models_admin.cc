// `models load` and `models unload`: clients of a running server's admin port.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_numbers.h"
#include "client/sse_client.h"
#include "commands/command.h"

namespace causeway::app {
namespace {

constexpr std::string_view kNoModel = "model_not_found";

// What the answer says of the model; "" where it is none of a Causeway server.
std::string described(const std::string& body) {
  std::string buffer;
  const auto model = nlohmann::json::parse(plain_json_numbers(body, buffer), nullptr, false);
  if (!model.is_object()) return "";
  const auto status = model.find("status");
  if (status == model.end() || !status->is_string()) return "";
  const auto bytes = model.find("resident_bytes");
  double host = 0;
  if (bytes != model.end() && bytes->is_object()) {
    const auto found = bytes->find("host");
    if (found != bytes->end() && found->is_number()) host = found->get<double>();
  }
  return fmt::format("{}, {:.3f} GB in host memory", status->get<std::string>(), host * 1e-9);
}

class ModelsAdmin final : public Command {
 public:
  ModelsAdmin(Options& parent, const std::string& name, const std::string& description)
      : Command(parent, name, description), path_("/admin/models/" + name) {
    options().add_option("model", model_, "name of the model");
    options().add_option("--url", url_, "URL of the server's admin port").show_default();
    options().add_option("--admin-key", key_, "sent as a bearer token");
    options()
        .add_option("--timeout", timeout_seconds_, "seconds to wait for the end")
        .range(0.1, 1e6)
        .show_default();
  }

  Status run() override {
    if (model_.empty()) return invalid_argument("give the model's name; see `causeway ps`");
    CAUSEWAY_ASSIGN(bench::Endpoint endpoint, bench::parse_base_url(url_, key_));
    if (endpoint.prefix == "/v1") endpoint.prefix.clear();  // that of the API
    std::string body;
    try {
      body = nlohmann::json({{"model", model_}}).dump();
    } catch (const nlohmann::json::exception&) {
      return invalid_argument("the model's name is not UTF-8");
    }
    CAUSEWAY_ASSIGN(
        const bench::HttpAnswer answer,
        bench::post(endpoint, path_, std::move(body), nanos_from_seconds(timeout_seconds_)));
    if (answer.status != 200) {
      Error error = answer.as_error(path_);
      // A model that is not there gets a 404, too, with a code of its own.
      if (error.code == ErrorCode::kNotFound && answer.error_code() != kNoModel) {
        error.message += "; --url is that of the admin port (serve's --admin-port, not --port)";
      }
      return error;
    }
    const std::string told = described(answer.body);
    if (told.empty()) {
      return corrupt("the answer tells nothing of a model; is " + url_ + " a Causeway server's?");
    }
    fmt::print("{}: {}\n", model_, told);
    return {};
  }

 private:
  const std::string path_;
  std::string model_;
  std::string url_ = "http://127.0.0.1:8001";
  std::string key_;
  double timeout_seconds_ = 600;
};

}  // namespace

std::unique_ptr<Command> make_models_load(Options& parent) {
  return std::make_unique<ModelsAdmin>(parent, "load", "Have a running server load a model");
}

std::unique_ptr<Command> make_models_unload(Options& parent) {
  return std::make_unique<ModelsAdmin>(parent, "unload",
                                       "Have a running server unload a model without requests");
}

}  // namespace causeway::app
