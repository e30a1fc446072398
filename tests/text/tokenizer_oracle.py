"""Compares the C++ tokenizers with Hugging Face's `tokenizers`: random files of every kind, random texts;
ids and what they decode to must be equal, or both must fail. Before that, every character alone, and
UnicodeScripts on every code point.

  tokenizer_oracle.py PATH/TO/tokenize [--seed N] [--rounds N]
"""

import argparse
import json
import random
import sys

import tokenizers

import tokenizer_files as files
from comparison import Comparison, each

METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "WhitespaceSplit"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
WORD_PIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}


# The second is of a published model.
NESTED_CLASSES = (
    "[a-z&&[^aeiou]]+|[^a-z&&[^0-9]]", "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+|[\\p{Han}]+|\\s+", "[[a-e][t\\s]^\\d]+|[x[b]-z]",
    "[^[a-m][\\p{L}&&[^\\p{Ll}]]-]+", "[\\p{L}&&\\p{Lu}&&[^A-M]]|[\\w&&[^\\d_]]+")


def bert_normalizer(**fields):
    return dict({"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                 "strip_accents": None, "lowercase": True}, **fields)


def normalizers(texts):
    steps = [{"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase")]
    steps += [bert_normalizer(**{field: value}) for field in
              ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
              for value in (True, False)]
    steps += [{"type": "Strip", "strip_left": left, "strip_right": not left} for left in (True, False)]
    steps += [{"type": "Precompiled", "precompiled_charsmap": files.random_charsmap(texts)}]
    mixed = [texts.rng.choice(steps) for _ in range(3)]
    return steps + [files.sequence("normalizers", *mixed)]


def pre_tokenizers():
    behaviors = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
    steps = [{"type": kind} for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer",
                                         "UnicodeScripts")]
    steps += [{"type": "Digits", "individual_digits": each} for each in (True, False)]
    steps += [{"type": "Punctuation", "behavior": behavior} for behavior in behaviors]
    steps += [{"type": "CharDelimiterSplit", "delimiter": delimiter} for delimiter in ("e", "\u2581")]
    first = dict(METASPACE, prepend_scheme="first")
    steps += [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
              for regex in NESTED_CLASSES]
    return steps + [files.sequence("pretokenizers", *pair) for pair in (
        (SPLIT, METASPACE), (SPLIT, first), (steps[3], METASPACE), (steps[3], first), (steps[4], METASPACE),
        (steps[2], steps[5]))]


def unigram_files(texts):
    """As T5, XLM-RoBERTa and ALBERT are published."""
    tokens = [files.added(0, "<s>"), files.added(1, "</s>"), files.added(2, "<unk>")]
    template = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
                                                        {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                "pair": [], "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}
    charsmap = {"type": "Precompiled", "precompiled_charsmap": files.random_charsmap(texts)}
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    lower = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    for byte_fallback in (False, True):
        model = files.unigram(texts, byte_fallback)
        for normalizer in (None, charsmap, files.sequence("normalizers", charsmap, strip, spaces),
                           files.sequence("normalizers", *lower, charsmap)):
            for pre_tokenizer in (METASPACE, files.sequence("pretokenizers", SPLIT, METASPACE), None):
                yield "Unigram", files.tokenizer(model, normalizer, pre_tokenizer, template, METASPACE,
                                                 tokens)
        yield "Unigram without <unk>", files.tokenizer(dict(model, unk_id=None), charsmap)


def word_files(texts):
    pair = {"sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}
    processors = [dict({"type": "BertProcessing"}, **pair),
                  dict({"type": "RobertaProcessing"}, trim_offsets=True, add_prefix_space=False, **pair)]
    tokens = [files.added(0, "[UNK]"), files.added(1, "[CLS]"), files.added(2, "[SEP]")]
    for kind in ("WordLevel", "WordPiece"):
        model = files.words(texts, kind)
        for step in pre_tokenizers():
            decoder = texts.rng.choice([None, WORD_PIECE, dict(WORD_PIECE, cleanup=False)])
            name = step.get("type") + " + " + kind
            yield name, files.tokenizer(model, None, step, texts.rng.choice(processors), decoder, tokens)
        yield "BERT " + kind, files.tokenizer(model, bert_normalizer(), {"type": "BertPreTokenizer"},
                                              processors[0], WORD_PIECE, tokens)
        unknown = dict(model, unk_token="nothere")
        yield kind + " without [UNK]", files.tokenizer(unknown, None, SPLIT)


def bpe_files(texts):
    fuse = {"type": "Fuse"}
    fallback = files.sequence("decoders", {"type": "ByteFallback"}, fuse)
    for step in normalizers(texts):
        yield step["type"], files.tokenizer(files.bpe(files.BYTES, byte_fallback=True), step,
                                            decoder=fallback)
    spelt = {"type": "ByteLevel"}
    for step in (spelt, files.sequence("normalizers", {"type": "NFC"}, spelt)):
        for pre_tokenizer in (None, {"type": "Split", "pattern": {"String": "\u0120"}, "behavior": "MergedWithNext",
                                     "invert": False}):
            yield "ByteLevel normalizer", files.tokenizer(files.spelt_bpe(texts), step, pre_tokenizer, None, BYTE_LEVEL)
    for replaced in (("the", "THE"), ("aa", "b"), ("e\u0301", "\u00e9"), (" ", "  "), ("a b", "")):
        steps = [{"type": "ByteFallback"}, fuse, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
        steps += [{"type": "Replace", "pattern": {"String": one}, "content": other}
                  for one, other in (replaced, ("b", "ab"))]
        yield "Replace behind Fuse", files.tokenizer(files.bpe(files.BYTES, byte_fallback=True), None, None, None,
                                                     files.sequence("decoders", *steps))
    for prefix, suffix in (("", "</w>"), ("##", ""), ("##", "</w>")):
        for byte_fallback in (False, True):
            model = files.affixed_bpe(texts, prefix, suffix, byte_fallback)
            yield "affixes", files.tokenizer(model, None, SPLIT, None, fuse)
            if suffix:
                yield "BPEDecoder", files.tokenizer(model, None, SPLIT, None, {"type": "BPEDecoder", "suffix": suffix})
        yield "affixes and ByteLevel", files.tokenizer(files.affixed_bpe(texts, prefix, suffix, False),
                                                       None, BYTE_LEVEL, None, fuse)


def single_character_files():
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "BertNormalizer"):
        step = bert_normalizer() if kind == "BertNormalizer" else {"type": kind}
        yield kind, files.tokenizer(files.bpe(files.BYTES, byte_fallback=True), step), "{}"
    model = {"type": "WordLevel", "vocab": {"?": 0, "a": 1}, "unk_token": "?"}
    for step in pre_tokenizers()[:7]:
        yield step["type"], files.tokenizer(model, None, step, None, {"type": "Fuse"}), "a{}a"


def compare_scripts(comparison, rng):
    """UnicodeScripts on every code point, in order and in any order: a mark that starts no word tells where
    the words are."""
    mark = dict(METASPACE, replacement="\ue000", split=False)
    step = files.sequence("pretokenizers", {"type": "UnicodeScripts"}, mark)
    file = files.tokenizer(files.bpe(files.BYTES, byte_fallback=True), None, step)
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    shuffled = rng.sample(characters, len(characters))
    for order in (characters, shuffled):
        for begin in range(0, len(order), 1 << 17):
            part = "".join(order[begin:begin + (1 << 17)])
            compare(comparison, "scripts", file, [part[i:i + 64] for i in range(0, len(part), 64)], False)


def compare(comparison, name, file, texts, decode=True):
    reference = tokenizers.Tokenizer.from_str(json.dumps(file))
    comparison.run(name, {"file": file}, texts, each(lambda text: reference.encode(text).ids),
                   (lambda ids: reference.decode(ids, skip_special_tokens=False)) if decode else None)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=2)
    options = arguments.parse_args()
    comparison = Comparison(options.program)
    texts = files.Texts(random.Random(options.seed))
    for name, file, frame in single_character_files():
        compare(comparison, name, file, [frame.format(c) for c in texts.everything], decode=False)
    compare_scripts(comparison, texts.rng)
    for _ in range(options.rounds):
        for make in (unigram_files, word_files, bpe_files):
            for name, file in make(texts):
                compare(comparison, name, file, ["", " ", "a"] + [texts.text() for _ in range(150)])
    sys.exit(comparison.finish(options.seed))


if __name__ == "__main__":
    main()
