// The tokenizer of a random model: byte-level BPE whose first merges are learnt from a short text,
// so that English takes about two and a half bytes a token, and whose others fill the vocabulary
// with letter combinations, so that every id that a random model samples stands for some text.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/random_model.h"

namespace causeway::model {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, kSpecialTokens> kSpecials = {
    "<|begin_of_text|>", "<|end_of_text|>",     "<|im_start|>",      "<|im_end|>",
    "<|eot_id|>",        "<|start_header_id|>", "<|end_header_id|>", "<|pad|>"};

// What the merges are learnt from.
constexpr std::string_view kText =
    "the river carries what the hills let go and the harbour sends it on to the sea. in the "
    "morning the boats are waiting for the water to rise, and the people who work there know by "
    "the colour of the light how long they will have to wait. there is a bridge over the narrow "
    "part of the river, and under the bridge the current is strong. when a boat comes through, "
    "everything else has to stop until it has passed. this is why they built a second channel: "
    "it is longer, but it is never closed, and most of what goes to the city now goes that way. "
    "some of the older captains would rather wait. they say that the shortest way is the best "
    "way, and that waiting costs nothing. but the merchants, who pay for every hour, do not "
    "agree with them. so the two channels are used together, and a man on the tower decides "
    "which boat takes which. he looks at what each one carries, how soon it must arrive, and "
    "how much water is left before the tide turns. he does not know everything, and he is "
    "sometimes wrong, but he has watched the river for a long time. when he is wrong he writes "
    "it down, and in the evening he reads what he has written. in this way the rules that he "
    "works by have become better from year to year, and the harbour has become one of the "
    "quickest in the country, although the river is no wider than it was before. can you tell "
    "me something about the history of this place? what should i do with these things? please "
    "give an example, and explain your answer with more than one word. that would be helpful.";

// A byte as byte-level BPE writes it: itself when printable, else a character from U+0100 on.
std::string byte_symbol(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

using Merge = std::pair<std::string, std::string>;

// The vocabulary as it grows: 256 bytes, then one token a merge.
class Merges {
 public:
  explicit Merges(std::size_t limit) : limit_(limit) {
    for (int byte = 0; byte < 256; ++byte) known_.insert(byte_symbol(byte));
  }
  bool full() const { return list_.size() >= limit_; }
  // Ignored when the token exists or the vocabulary is full.
  void add(const std::string& left, const std::string& right) {
    if (!full() && known_.insert(left + right).second) list_.emplace_back(left, right);
  }
  const std::vector<Merge>& list() const { return list_; }

 private:
  std::size_t limit_;
  std::vector<Merge> list_;
  std::unordered_set<std::string> known_;
};

using Words = std::map<std::vector<std::string>, int>;  // symbols of a word → how often it occurs

Words split_words() {
  const std::string space = byte_symbol(' ');
  Words words;
  std::vector<std::string> word;
  for (const char c : kText) {
    const bool letter = c >= 'a' && c <= 'z';
    if (!letter && !word.empty()) {
      ++words[word];
      word.clear();
    }
    if (c == ' ') word.push_back(space);
    if (letter) word.push_back(std::string(1, c));
  }
  return words;
}

// The commonest pair of neighbours; of equals the first in order, so that there is one answer.
std::pair<Merge, int> commonest_pair(const Words& words) {
  std::map<Merge, int> counts;
  for (const auto& [word, times] : words) {
    for (std::size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += times;
  }
  std::pair<Merge, int> best{{}, 0};
  for (const auto& [pair, count] : counts) {
    if (count > best.second) best = {pair, count};
  }
  return best;
}

void learn_merges(Merges& merges) {
  Words words = split_words();
  while (!merges.full()) {
    const auto [pair, count] = commonest_pair(words);
    if (count < 2) return;
    merges.add(pair.first, pair.second);
    Words merged;
    for (const auto& [word, times] : words) {
      std::vector<std::string> next;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool joins =
            i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second;
        next.push_back(joins ? word[i] + word[i + 1] : word[i]);
        i += joins;
      }
      merged[next] += times;
    }
    words = std::move(merged);
  }
}

// Pairs of letters, the same behind a space, then four letters: 457,678 tokens if need be.
void fill_merges(Merges& merges) {
  const std::string space = byte_symbol(' ');
  std::vector<std::string> pairs;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      merges.add(std::string(1, a), std::string(1, b));
      pairs.push_back({a, b});
    }
  }
  for (char a = 'a'; a <= 'z'; ++a) merges.add(space, std::string(1, a));
  for (const std::string& pair : pairs) merges.add(space, pair);
  for (const std::string& left : pairs) {
    for (const std::string& right : pairs) {
      if (merges.full()) return;
      merges.add(left, right);
    }
  }
}

ordered_json added_token(std::int64_t id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

ordered_json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

ordered_json pre_tokenizer() {
  // Words with the mark or space before them, numbers by three digits, runs of marks, line ends.
  const char* pattern =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", pattern}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level()})}};
}

ordered_json post_processor(std::int64_t bos, bool adds_bos) {
  if (!adds_bos) return byte_level();
  const char* name = kSpecials[0];
  const ordered_json special = {{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  const ordered_json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const ordered_json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  ordered_json tokens;
  tokens[name] = {
      {"id", name}, {"ids", ordered_json::array({bos})}, {"tokens", ordered_json::array({name})}};
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({special, text})},
          {"pair", ordered_json::array({special, text, second})},
          {"special_tokens", tokens}};
}

// The vocabulary and the merges as text: an ordered_json object would search itself at each insert.
std::string bpe_model(const std::vector<Merge>& merges) {
  std::string vocab, list;
  std::int64_t id = 0;
  const auto add = [&](const std::string& token) {
    vocab += (id == 0 ? "" : ",\n") + ordered_json(token).dump() + ":" + std::to_string(id);
    ++id;
  };
  for (int byte = 0; byte < 256; ++byte) add(byte_symbol(byte));
  for (const auto& [left, right] : merges) {
    add(left + right);
    list += (list.empty() ? "" : ",\n") + ordered_json(left + " " + right).dump();
  }
  return R"({"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
         R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)"
         R"("ignore_merges":false,"vocab":{)" +
         vocab + "},\"merges\":[" + list + "]}";
}

constexpr const char* kTemplate =
    "{%- for message in messages %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' }}\n"
    "{%- if message.content is string %}\n"
    "{{- message.content }}\n"
    "{%- else %}\n"
    "{%- for part in message.content %}\n"
    "{{- part.text }}\n"
    "{%- endfor %}\n"
    "{%- endif %}\n"
    "{{- '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "{{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}";

}  // namespace

std::string random_tokenizer_json(std::int64_t vocab, bool adds_bos) {
  CAUSEWAY_CHECK(vocab >= kRandomVocabMin, "a vocabulary too small for a tokenizer");
  const std::int64_t special_begin = vocab - kSpecialTokens;
  Merges merges(static_cast<std::size_t>(special_begin - 256));
  learn_merges(merges);
  fill_merges(merges);
  ordered_json added = ordered_json::array();
  for (std::int64_t i = 0; i < kSpecialTokens; ++i) {
    added.push_back(added_token(special_begin + i, kSpecials[static_cast<std::size_t>(i)]));
  }
  ordered_json root = {{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", pre_tokenizer()},
                       {"post_processor", post_processor(special_begin, adds_bos)},
                       {"decoder", byte_level()}};
  std::string text = root.dump(1);
  text.pop_back();  // the closing brace
  return text + ",\"model\":" + bpe_model(merges.list()) + "}\n";
}

std::string random_tokenizer_config_json(const ModelConfig& config, bool adds_bos) {
  const std::string chat_template = (adds_bos ? "{{- bos_token }}\n" : "") + std::string(kTemplate);
  ordered_json root = {{"add_bos_token", adds_bos},
                       {"add_eos_token", false},
                       {"bos_token", nullptr},
                       {"eos_token", kSpecials[3]},
                       {"pad_token", kSpecials[7]},
                       {"unk_token", nullptr},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", config.max_position.count},
                       {"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"chat_template", chat_template}};
  if (adds_bos) root["bos_token"] = kSpecials[0];
  return root.dump(2) + "\n";
}

}  // namespace causeway::model
