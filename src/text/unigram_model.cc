#include "text/unigram_model.h"

#include <algorithm>

#include "text/bpe_model.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

constexpr double kUnknownPenalty = 10.0;  // SentencePiece's

Error no_unknown_token() {
  return unsupported("the text has a character without a token, and model.unk_id names none");
}

}  // namespace

PieceTrie::PieceTrie(const Vocabulary& vocabulary) {
  struct Entry {
    std::string_view text;
    TokenId id;
  };
  struct Todo {  // entries [begin, end) agree in the `depth` bytes that lead to `node`
    std::size_t begin, end, depth;
    std::uint32_t node;
  };
  std::vector<Entry> entries;
  for (std::int64_t i = 0; i < vocabulary.ids_end(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocabulary.contains(id) && !vocabulary.content(id).empty()) {
      entries.push_back({vocabulary.content(id), id});
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
  nodes_.resize(1);
  std::vector<Todo> level = {{0, entries.size(), 0, 0}};
  std::vector<Todo> next;
  while (!level.empty()) {
    next.clear();
    for (Todo todo : level) {
      if (todo.begin < todo.end && entries[todo.begin].text.size() == todo.depth) {
        nodes_[todo.node].id = entries[todo.begin++].id;
      }
      nodes_[todo.node].first_child = static_cast<std::uint32_t>(nodes_.size());
      while (todo.begin < todo.end) {
        const auto byte = static_cast<unsigned char>(entries[todo.begin].text[todo.depth]);
        std::size_t end = todo.begin;
        while (end < todo.end &&
               static_cast<unsigned char>(entries[end].text[todo.depth]) == byte) {
          ++end;
        }
        next.push_back(
            {todo.begin, end, todo.depth + 1, static_cast<std::uint32_t>(nodes_.size())});
        nodes_.push_back({0, -1, 0, byte});
        ++nodes_[todo.node].children;
        todo.begin = end;
      }
    }
    level.swap(next);
  }
  for (std::uint32_t i = 0; i < nodes_[0].children; ++i) {
    of_root_[nodes_[nodes_[0].first_child + i].byte] = nodes_[0].first_child + i;
  }
}

// 0, the root, when there is none.
std::uint32_t PieceTrie::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return of_root_[byte];
  const Node& parent = nodes_[node];
  const auto begin = nodes_.begin() + parent.first_child;
  const auto end = begin + parent.children;
  const auto at =
      std::lower_bound(begin, end, byte, [](const Node& n, unsigned char b) { return n.byte < b; });
  if (at == end || at->byte != byte) return 0;
  return static_cast<std::uint32_t>(at - nodes_.begin());
}

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores,
                           UnigramOptions options)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      options_(options),
      trie_(vocabulary_) {
  const auto lowest = std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = (lowest == scores_.end() ? 0 : *lowest) - kUnknownPenalty;
  fallback_ids_.fill(-1);
  for (std::int64_t id = 0; options_.byte_fallback && id < vocabulary_.ids_end(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (const auto byte = byte_of_fallback(vocabulary_.content(token))) {
      fallback_ids_[*byte] = token;
    }
  }
  const bool covers =
      std::all_of(fallback_ids_.begin(), fallback_ids_.end(), [](TokenId id) { return id >= 0; });
  if (covers) token_bytes_max_ = vocabulary_.longest();
}

// Fills steps[0 .. size], each with the best way that ends there; of equal ones the first found.
Status UnigramModel::find_best(std::string_view word,
                               std::vector<UnigramScratch::Step>& steps) const {
  steps.assign(word.size() + 1, {});
  for (std::size_t at = 0; at < word.size();) {
    const double so_far = steps[at].score;
    const std::size_t character = utf8_length(static_cast<unsigned char>(word[at]));
    const auto propose = [&](TokenId id, std::size_t size, double score) {
      UnigramScratch::Step& step = steps[at + size];
      const double sum = score + so_far;
      if (step.begin < 0 || sum > step.score) step = {sum, static_cast<std::int64_t>(at), id};
    };
    bool known = false;
    trie_.each_prefix(word.substr(at), [&](TokenId id, std::size_t size) {
      propose(id, size, scores_[static_cast<std::size_t>(id)]);
      known = known || size == character;
    });
    if (!known) {
      if (!options_.unknown) {
        // The library wants an unknown token only where no piece has led to the same place first.
        const UnigramScratch::Step& step = steps[at + character];
        if (step.begin < 0 || unknown_score_ + so_far > step.score) return no_unknown_token();
      } else {
        propose(*options_.unknown, character, unknown_score_);
      }
    }
    at += character;
  }
  return {};
}

// Unknown pieces that touch have become one, which may be a token again.
Status UnigramModel::emit(std::string_view piece, std::vector<TokenId>& ids) const {
  if (const auto id = vocabulary_.find(piece)) {
    ids.push_back(*id);
    return {};
  }
  const auto byte_id = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(piece.begin(), piece.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
    for (const char byte : piece) ids.push_back(byte_id(byte));
    return {};
  }
  if (!options_.unknown) return no_unknown_token();
  ids.push_back(*options_.unknown);
  return {};
}

Status UnigramModel::encode_word(std::string_view word, UnigramScratch& scratch,
                                 std::vector<TokenId>& ids) const {
  CAUSEWAY_TRY(find_best(word, scratch.steps));
  auto& pieces = scratch.pieces;  // from the end of the word to its start
  pieces.clear();
  for (std::size_t end = word.size(); end > 0;) {
    const UnigramScratch::Step& step = scratch.steps[end];
    const auto begin = static_cast<std::size_t>(step.begin);
    const bool unknown = options_.unknown && step.id == *options_.unknown;
    if (unknown && !pieces.empty() && pieces.back().unknown) {
      pieces.back().begin = begin;
    } else {
      pieces.push_back({begin, end, unknown});
    }
    end = begin;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    CAUSEWAY_TRY(emit(word.substr(piece->begin, piece->end - piece->begin), ids));
  }
  return {};
}

}  // namespace causeway::text
