// Any bytes as a body of /tokenize or /detokenize, or as the target of a request with its query,
// and changes of such (edited_file.h). The first byte picks which. What is answered is JSON; a
// text's tokens give the text again.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "engine/slice_handle.h"
#include "server/api/admin_body.h"
#include "server/api/route.h"
#include "server/api/tokenize.h"
#include "server/byte_model.h"
#include "server/testing/scripted_fleet.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

using nlohmann::json;

const std::vector<std::string> kTokenize = {
    R"({"model": "m", "prompt": "a b", "add_special_tokens": false, "return_token_strs": true})",
    R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
 "add_generation_prompt": false, "continue_final_message": true,
 "chat_template_kwargs": {"x": [1]}})"};
const std::vector<std::string> kDetokenize = {R"({"model": "m", "tokens": [104, 105, 256, 257]})"};
const std::vector<std::string> kTargets = {"/v1/models/m%2Fn?x=1",
                                           "/health?deep=1",
                                           "/sleep?level=2&mode=wait",
                                           "/wake_up?tags=weights",
                                           "http://h:1/v1/chat/completions?autoload=false#f",
                                           "/v1/responses/resp_1"};
constexpr std::string_view kWords[] = {"prompt",    "messages",     "tokens",    "tools",
                                       "195, 169",  "65",           "/v1/score", "%C3%A9",
                                       "&autoload", "/admin/models"};

class NoSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output>) override {}
};

// A catalogue of one model, whose requests go nowhere.
const fleet::Fleet& fleet_of_one() {
  static NoSink sink;
  static testing::ScriptedFleet& fleet = []() -> testing::ScriptedFleet& {
    auto made = std::make_unique<testing::ScriptedFleet>(sink);
    made->add_model("m", Tokens(512));
    return *made.release();
  }();
  return fleet;
}

void check_error(const ApiError& error) {
  CAUSEWAY_CHECK((error.status == 400 || error.status == 404 || error.status == 405) &&
                 !error.message.empty());
  std::string out;
  append_error(out, error);
  CAUSEWAY_CHECK(!text::first_invalid_utf8(out));
  CAUSEWAY_CHECK(json::accept(out));
}

using Answer = MaybeError (*)(std::string_view, const TokenizeContext&, std::string&);

// The answer, or nothing for a body that is refused.
std::optional<json> ask(Answer answer, std::string_view body) {
  static const ApiLimits limits = [] {
    ApiLimits made;
    made.tokenize_bytes_max = std::size_t{1} << 16;
    return made;
  }();
  std::string out;
  if (const auto error = answer(body, {fleet_of_one(), limits, 1'700'000'000}, out)) {
    check_error(*error);
    return {};
  }
  json parsed = json::parse(out, nullptr, false);
  CAUSEWAY_CHECK(parsed.is_object(), "an answer that is no JSON");
  return parsed;
}

// What detokenizes to `prompt`, if there is one, is its tokens.
void fuzz_tokenize(std::string_view body) {
  const auto answer = ask(answer_tokenize, body);
  if (!answer) return;
  const json& tokens = (*answer)["tokens"];
  CAUSEWAY_CHECK(tokens.is_array() && (*answer)["count"] == tokens.size());
  for (const json& token : tokens) {
    CAUSEWAY_CHECK(token.get<std::int64_t>() >= 0 && token.get<std::int64_t>() < kByteModelVocab);
  }
  const json asked = json::parse(body, nullptr, false);
  if (!asked.is_object() || !asked.contains("prompt") || !asked["prompt"].is_string()) return;
  const auto back = ask(answer_detokenize, json{{"tokens", tokens}}.dump());
  if (!back) return;  // the text is longer than an answer may be
  CAUSEWAY_CHECK((*back)["prompt"] == asked["prompt"], "a text that its tokens do not give");
}

void fuzz_target(std::string_view target) {
  for (const Door door : {Door::kPublic, Door::kAdmin}) {
    for (const char* method : {"GET", "POST", "HEAD", "DELETE"}) {
      Routed routed;
      if (const auto error = find_route(door, method, target, routed)) {
        check_error(*error);
        continue;
      }
      CAUSEWAY_CHECK(!administers(routed.route) || door == Door::kAdmin);
      CAUSEWAY_CHECK(target.substr(0, target.find('#')).ends_with(routed.query));
      CAUSEWAY_CHECK(!text::first_invalid_utf8(routed.model_name));
      CAUSEWAY_CHECK(!text::first_invalid_utf8(routed.response));
      CAUSEWAY_CHECK(routed.route == Route::kResponse || !routed.deletes);
      bool flag = false;
      SleepQuery sleep;
      if (const auto error = parse_autoload_query(routed.query, flag)) check_error(*error);
      if (const auto error = parse_health_query(routed.query, flag)) check_error(*error);
      if (const auto error = parse_sleep_query(routed.query, sleep)) check_error(*error);
      if (const auto error = parse_wake_query(routed.query)) check_error(*error);
    }
  }
  const auto parameters = query_parameters(target);
  if (!parameters) return;
  for (const auto& [name, value] : *parameters) {
    CAUSEWAY_CHECK(!text::first_invalid_utf8(name) && !text::first_invalid_utf8(value));
    CAUSEWAY_CHECK(name.size() + value.size() <= target.size());
  }
}

}  // namespace
}  // namespace causeway::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::server;  // NOLINT: the fuzzer's entry must be global
  if (size == 0) return 0;
  const std::vector<std::string>* const kinds[] = {&kTokenize, &kDetokenize, &kTargets};
  const std::string text =
      causeway::testing::edited_file({*kinds[data[0] % 3], kWords},
                                     {reinterpret_cast<const char*>(data) + 1, size - 1})
          .text;
  switch (data[0] % 3) {
    case 0: fuzz_tokenize(text); break;
    case 1: ask(answer_detokenize, text); break;
    default: fuzz_target(text); break;
  }
  return 0;
}
