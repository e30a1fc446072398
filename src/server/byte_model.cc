#include "server/byte_model.h"

#include "server/api/json_write.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

// Byte-level vocabularies write bytes as printable characters: themselves where they are printable
// Latin-1, else the next of those from U+0100 on.
std::string spelt(int byte, int& next_spare) {
  const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                         (byte >= 0xAE && byte <= 0xFF);
  std::string out;
  text::append_utf8(static_cast<char32_t>(printable ? byte : 0x100 + next_spare++), out);
  return out;
}

std::string vocabulary() {
  std::string out;
  int next_spare = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte > 0) out += ',';
    append_json_string(out, spelt(byte, next_spare));
    out += ':';
    append_json_integer(out, byte);
  }
  return out;
}

std::string special_token(TokenId id, std::string_view content) {
  std::string out = "{\"id\":";
  append_json_integer(out, id);
  out += ",\"content\":";
  append_json_string(out, content);
  out += R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  return out;
}

}  // namespace

std::string byte_tokenizer_json() {
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" +
         special_token(kByteModelEos, "<|end|>") + "," + special_token(kByteModelRole, "<|role|>") +
         R"(],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,)"
         R"("trim_offsets":true,"use_regex":true},"post_processor":null,)"
         R"("decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)"
         R"("use_regex":true},"model":{"type":"BPE","dropout":null,"unk_token":null,)"
         R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
         R"("byte_fallback":false,"vocab":{)" +
         vocabulary() + R"(},"merges":[]}})";
}

std::unique_ptr<fleet::CatalogueEntry> byte_model_entry(ModelId id, std::string name,
                                                        Tokens max_model_len) {
  auto entry = std::make_unique<fleet::CatalogueEntry>();
  entry->id = id;
  entry->name = std::move(name);
  entry->max_model_len = max_model_len;
  entry->vocab = kByteModelVocab;
  entry->hidden = kByteModelHidden;
  entry->eos = {kByteModelEos};
  auto tokenizer = text::load_tokenizer_json(byte_tokenizer_json());
  CAUSEWAY_CHECK(tokenizer.ok(), tokenizer.error().message);
  entry->tokenizer = std::move(tokenizer).value();
  auto chat = text::ChatTemplate::compile(kByteModelTemplate);
  CAUSEWAY_CHECK(chat.ok(), chat.error().message);
  entry->chat_template.emplace(std::move(chat).value());
  return entry;
}

}  // namespace causeway::server
