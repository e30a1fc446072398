// Encodes and decodes with files of tokenizers, for the oracles.
//
//   stdin   one JSON object a line: {"texts": ["..."]} and where the tokenizer comes from, one of
//             "file"           tokenizer.json, as an object
//             "tekken"         tekken.json, as an object
//             "tiktoken"       a file of ranks, as a string
//             "sentencepiece"  tokenizer.model, in base64
//             "directory"      a folder with any of them
//           "plain": true: special tokens are neither added nor looked for
//           "ids": [[...]], to be decoded
//   stdout  one line each: {"error": "..."} or {"texts": [{"ids": [...], "text": "..."} or
//           {"error": "..."}], "decoded": ["..."]}, "text" being what the ids decode to
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/base64.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using Json = nlohmann::json;
using causeway::Result;
using causeway::text::Detokenizer;
using causeway::text::EncodeOptions;
using causeway::text::Tokenizer;

std::string decode(const Tokenizer& tokenizer, const std::vector<causeway::text::TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string decoded;
  for (const auto id : ids) decoded += detokenizer.push(id, false);
  return decoded + detokenizer.finish();
}

Json tokenize(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options) {
  const auto ids = tokenizer.encode(text, options);
  if (!ids.ok()) return {{"error", ids.error().message}};
  return {{"ids", *ids}, {"text", decode(tokenizer, *ids)}};
}

Result<std::unique_ptr<Tokenizer>> load(const Json& request) {
  namespace text = causeway::text;
  const auto string_of = [&](const char* name) { return request.at(name).get<std::string>(); };
  if (request.contains("directory")) return text::load_tokenizer(string_of("directory"));
  if (request.contains("tekken")) return text::load_tekken(request.at("tekken").dump());
  if (request.contains("tiktoken")) return text::load_tiktoken(string_of("tiktoken"));
  if (request.contains("sentencepiece")) {
    const auto model = text::bytes_of_base64(string_of("sentencepiece"));
    if (!model) return causeway::invalid_argument("the model is not base64");
    return text::load_sentencepiece({*model});
  }
  return text::load_tokenizer_json(request.at("file").dump());
}

Json answer(const Json& request) {
  const auto tokenizer = load(request);
  if (!tokenizer.ok()) return {{"error", tokenizer.error().message}};
  EncodeOptions options;
  if (request.value("plain", false)) options = {false, false};
  Json texts = Json::array();
  for (const Json& text : request.at("texts")) {
    texts.push_back(tokenize(**tokenizer, text.get<std::string>(), options));
  }
  Json decoded = Json::array();
  for (const Json& ids : request.value("ids", Json::array())) {
    decoded.push_back(decode(**tokenizer, ids.get<std::vector<causeway::text::TokenId>>()));
  }
  return {{"texts", texts}, {"decoded", decoded}};
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
