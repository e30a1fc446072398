// Encodes and decodes with tokenizer.json files for tokenizer_oracle.py.
//
//   stdin   one JSON object a line: {"file": tokenizer.json as an object, "texts": ["..."]}
//   stdout  one line each: {"error": "..."} or {"texts": [{"ids": [...], "text": "..."} or
//   {"error":
//           "..."}]}, "text" being what the ids decode to
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using Json = nlohmann::json;
using causeway::text::Detokenizer;
using causeway::text::Tokenizer;

Json tokenize(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, {});
  if (!ids.ok()) return {{"error", ids.error().message}};
  Detokenizer detokenizer(tokenizer);
  std::string decoded;
  for (const auto id : *ids) decoded += detokenizer.push(id, false);
  decoded += detokenizer.finish();
  return {{"ids", *ids}, {"text", decoded}};
}

Json answer(const Json& request) {
  const auto tokenizer = causeway::text::load_tokenizer_json(request.at("file").dump());
  if (!tokenizer.ok()) return {{"error", tokenizer.error().message}};
  Json texts = Json::array();
  for (const Json& text : request.at("texts")) {
    texts.push_back(tokenize(**tokenizer, text.get<std::string>()));
  }
  return {{"texts", texts}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!request.is_object()) {
      std::cerr << "tokenize: a line of standard input is not a JSON object\n";
      return 1;
    }
    std::cout << answer(request).dump() << std::endl;
  }
  return 0;
}
