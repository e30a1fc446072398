#include "text/pretokenize.h"

#include <algorithm>

#include "text/unicode_scripts.h"

namespace causeway::text {
namespace {

using Behavior = PreTokenizer::Behavior;

struct Span {
  Range range;
  bool is_match = false;
};

// Matches and what lies between them, in order.
void spans_between(std::string_view text, const std::vector<Range>& matches, bool invert,
                   std::vector<Span>& spans) {
  spans.clear();
  std::size_t done = 0;
  for (const Range match : matches) {
    if (done < match.begin) spans.push_back({{done, match.begin}, invert});
    spans.push_back({match, !invert});
    done = match.end;
  }
  if (done < text.size()) spans.push_back({{done, text.size()}, invert});
}

// Joins each match to the span before it, unless that is a match too.
void merge_with_previous(std::vector<Span>& spans) {
  std::size_t kept = 0;
  bool after_match = false;
  for (const Span span : spans) {
    if (span.is_match && !after_match && kept > 0) {
      spans[kept - 1].range.end = span.range.end;
    } else {
      spans[kept++] = span;
    }
    after_match = span.is_match;
  }
  spans.resize(kept);
}

void merge_with_next(std::vector<Span>& spans) {
  std::size_t kept = spans.size();  // [kept, end) are done
  bool before_match = false;
  for (std::size_t i = spans.size(); i-- > 0;) {
    const Span span = spans[i];
    if (span.is_match && !before_match && kept < spans.size()) {
      spans[kept].range.begin = span.range.begin;
    } else {
      spans[--kept] = span;
    }
    before_match = span.is_match;
  }
  spans.erase(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(kept));
}

void merge_runs(std::vector<Span>& spans) {
  std::size_t kept = 0;
  for (const Span span : spans) {
    if (kept > 0 && spans[kept - 1].is_match == span.is_match) {
      spans[kept - 1].range.end = span.range.end;
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
}

void apply_behavior(Behavior behavior, std::vector<Span>& spans) {
  switch (behavior) {
    case Behavior::kIsolated: return;
    case Behavior::kRemoved:
      std::erase_if(spans, [](const Span& span) { return span.is_match; });
      return;
    case Behavior::kMergedWithPrevious: return merge_with_previous(spans);
    case Behavior::kMergedWithNext: return merge_with_next(spans);
    case Behavior::kContiguous: return merge_runs(spans);
  }
}

class Splitter {
 public:
  explicit Splitter(Words& words) : words_(words), begin_(words.pieces.front().data()) {}

  Status run(const PreTokenizer::Split& step) {
    for (const std::string_view piece : words_.pieces) {
      matches_.clear();
      CAUSEWAY_TRY(step.pattern.find_all(piece, matches_));
      if (step.behavior == Behavior::kIsolated) {
        isolate(piece);
        continue;
      }
      spans_between(piece, matches_, step.invert, spans_);
      apply_behavior(step.behavior, spans_);
      for (const Span& span : spans_) {
        if (span.range.begin < span.range.end) {
          next_.push_back(piece.substr(span.range.begin, span.range.end - span.range.begin));
        }
      }
    }
    words_.pieces.swap(next_);
    next_.clear();
    return {};
  }

  void run(PreTokenizer::PrefixSpace) {
    for (std::string_view& piece : words_.pieces) {
      if (!piece.starts_with(' ')) piece = words_.storage.emplace_back(" " + std::string(piece));
    }
  }

  void run(const PreTokenizer::Metaspace& step, bool first) {
    using Prepend = PreTokenizer::Metaspace::Prepend;
    // A step before may have taken white space off the start.
    if (words_.storage.empty() && !words_.pieces.empty()) {
      first = first && words_.pieces.front().data() == begin_;
    }
    for (const std::string_view piece : words_.pieces) {
      std::string& marked = words_.storage.emplace_back();
      for (const char c : piece) c == ' ' ? marked.append(step.mark) : marked.append(1, c);
      const bool prepend =
          step.prepend == Prepend::kAlways || (step.prepend == Prepend::kFirst && first);
      if (prepend && !marked.starts_with(step.mark)) marked.insert(0, step.mark);
      first = false;
      if (step.split) {
        split_before(marked, step.mark);
      } else {
        next_.push_back(marked);
      }
    }
    words_.pieces.swap(next_);
    next_.clear();
  }

  void run(PreTokenizer::UnicodeScripts) {
    for (const std::string_view piece : words_.pieces) split_by_script(piece, next_);
    words_.pieces.swap(next_);
    next_.clear();
  }

 private:
  // Matches and what lies between them alike: the common behaviour, without the detour of spans.
  void isolate(std::string_view piece) {
    std::size_t done = 0;
    for (const Range match : matches_) {
      if (done < match.begin) next_.push_back(piece.substr(done, match.begin - done));
      if (match.begin < match.end) {
        next_.push_back(piece.substr(match.begin, match.end - match.begin));
      }
      done = match.end;
    }
    if (done < piece.size()) next_.push_back(piece.substr(done));
  }

  // Each mark starts a word.
  void split_before(std::string_view text, std::string_view mark) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t skip = text.substr(begin).starts_with(mark) ? mark.size() : 0;
      const std::size_t end = std::min(text.find(mark, begin + skip), text.size());
      next_.push_back(text.substr(begin, end - begin));
      begin = end;
    }
  }

  Words& words_;
  const char* begin_;  // of the text
  std::vector<std::string_view> next_;
  std::vector<Range> matches_;
  std::vector<Span> spans_;
};

}  // namespace

bool PreTokenizer::keeps_all() const {
  return std::none_of(steps_.begin(), steps_.end(), [](const Step& step) {
    const auto* split = std::get_if<Split>(&step);
    return split != nullptr && split->behavior == Behavior::kRemoved;
  });
}

Status PreTokenizer::split(std::string_view text, bool first, Words& words) const {
  words.pieces.clear();
  words.storage.clear();
  if (text.empty()) return {};
  words.pieces.push_back(text);
  Splitter splitter(words);
  for (const Step& step : steps_) {
    if (const auto* split = std::get_if<Split>(&step)) {
      CAUSEWAY_TRY(splitter.run(*split));
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      splitter.run(*metaspace, first);
    } else if (const auto* scripts = std::get_if<UnicodeScripts>(&step)) {
      splitter.run(*scripts);
    } else {
      splitter.run(PrefixSpace{});
    }
  }
  return {};
}

}  // namespace causeway::text
