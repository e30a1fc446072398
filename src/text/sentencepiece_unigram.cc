#include "text/sentencepiece_unigram.h"

#include <algorithm>
#include <limits>

#include "text/bpe_model.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

using Type = SentencePieceModel::Type;

constexpr float kUnknownPiecePenalty = 10.0f;

// Scores as the search uses them: a user-defined piece beats every other way.
float score_of(const SentencePieceModel::Piece& piece, float most) {
  if (piece.type != Type::kUserDefined) return piece.score;
  return static_cast<float>(piece.content.size()) * most - 0.1f;
}

}  // namespace

Result<SentencePieceUnigram> SentencePieceUnigram::build(const SentencePieceModel& model) {
  float least = std::numeric_limits<float>::max();
  float most = std::numeric_limits<float>::min();  // the library's, which is above 0
  Vocabulary words;
  std::size_t bytes = 0;
  TokenId unknown = 0;
  std::vector<TokenId> byte_ids(model.byte_fallback ? 256 : 0, -1);
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (piece.type == Type::kUnknown) unknown = id;
    if (piece.type == Type::kByte && model.byte_fallback) {
      byte_ids[byte_of_fallback(piece.content).value_or(0)] = id;
    }
    if (piece.type == Type::kNormal) {
      least = std::min(least, piece.score);
      most = std::max(most, piece.score);
    }
    if (piece.type != Type::kNormal && piece.type != Type::kUserDefined) continue;
    words.add(id, piece.content);
    bytes += piece.content.size();
  }
  if (bytes > UnigramModel::kAllBytesMax) {
    return unsupported("unigram pieces of more than " + std::to_string(UnigramModel::kAllBytesMax) +
                       " bytes, all together");
  }
  std::vector<float> scores;
  for (const auto& piece : model.pieces) scores.push_back(score_of(piece, most));
  SentencePieceUnigram out(words, std::move(scores));
  out.byte_ids_ = std::move(byte_ids);
  out.unknown_ = unknown;
  out.unknown_score_ = least - kUnknownPiecePenalty;
  return out;
}

// Fills steps[0 .. size]; of ways that are equally good the first found stays.
void SentencePieceUnigram::find_best(std::string_view text, std::vector<Step>& steps) const {
  steps.assign(text.size() + 1, {});
  for (std::size_t at = 0; at < text.size();) {
    const float so_far = steps[at].score;
    const std::size_t character = utf8_length(static_cast<unsigned char>(text[at]));
    bool known = false;
    trie_.each_prefix(text.substr(at), [&](TokenId id, std::size_t size) {
      Step& step = steps[at + size];
      const float sum = scores_[static_cast<std::size_t>(id)] + so_far;
      if (step.begin < 0 || sum > step.score) step = {sum, id, static_cast<std::int64_t>(at)};
      known = known || size == character;
    });
    if (!known) {
      Step& step = steps[at + character];
      const float sum = unknown_score_ + so_far;
      if (step.begin < 0 || sum > step.score) {
        step = {sum, unknown_, static_cast<std::int64_t>(at)};
      }
    }
    at += character;
  }
}

void SentencePieceUnigram::encode(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<Step> steps;
  find_best(text, steps);
  std::vector<std::size_t> ends;
  for (std::size_t end = text.size(); end > 0;) {
    ends.push_back(end);
    end = static_cast<std::size_t>(steps[end].begin);
  }
  bool after_unknown = false;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Step& step = steps[*end];
    const bool unknown = step.id == unknown_;
    if (!unknown) {
      ids.push_back(step.id);
    } else if (!byte_ids_.empty()) {
      for (std::size_t at = static_cast<std::size_t>(step.begin); at < *end; ++at) {
        ids.push_back(byte_ids_[static_cast<unsigned char>(text[at])]);
      }
    } else if (!after_unknown) {
      ids.push_back(unknown_);
    }
    after_unknown = unknown;
  }
}

}  // namespace causeway::text
