// Renders chat templates for chat_template_oracle.py.
//
//   stdin   {"templates": {name: source},
//            "cases": [{"template": name, "messages": [...], "tools": ..., "extra": {...},
//                       "add_generation_prompt": bool, "bos_token": "", "eos_token": ""}]}
//   stdout  [{"text": "..."} or {"error": "..."}], one a case
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "text/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;
using causeway::Result;
using causeway::text::ChatTemplate;

Json render(const Result<ChatTemplate>& compiled, const Json& test_case) {
  if (!compiled.ok()) return {{"error", compiled.error().message}};
  const std::string bos = test_case.value("bos_token", "");
  const std::string eos = test_case.value("eos_token", "");
  causeway::text::ChatTemplateInput input{.messages = test_case.at("messages")};
  if (test_case.contains("tools")) input.tools = &test_case.at("tools");
  if (test_case.contains("extra")) input.extra = &test_case.at("extra");
  input.add_generation_prompt = test_case.value("add_generation_prompt", true);
  input.bos_token = bos;
  input.eos_token = eos;
  input.now_unix_seconds = test_case.value("now", std::int64_t{0});
  const Result<std::string> text = compiled->render(input);
  if (!text.ok()) return {{"error", text.error().message}};
  return {{"text", *text}};
}

}  // namespace

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const Json request = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object()) {
    std::cerr << "render_template: standard input is not a JSON object\n";
    return 1;
  }
  std::map<std::string, Result<ChatTemplate>> templates;
  for (const auto& [name, source] : request.at("templates").items()) {
    templates.emplace(name, ChatTemplate::compile(source.get<std::string>()));
  }
  Json answers = Json::array();
  for (const Json& test_case : request.at("cases")) {
    answers.push_back(render(templates.at(test_case.at("template").get<std::string>()), test_case));
  }
  std::cout << answers.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}
