"""A differential fuzz: random texts of many kinds through the C++ tokenizers and through `tokenizers`,
`tiktoken` and `sentencepiece`. Ids, and what they decode to, must be equal. Takes the published tokenizers of
CAUSEWAY_TEST_DATA in turn with files made here of every kind, new ones each time.

  tokenizer_fuzz.py PATH/TO/tokenize [--count N] [--seed N] [--first N] [--batch N]

A batch depends on the seed and its number alone: `--first N --count 1` runs the batch N again.
"""

import argparse
import base64
import collections
import itertools
import os
import random
import sys
import time
from pathlib import Path

import piece_oracle
import references
import tokenizer_files as files
import tokenizer_oracle
from comparison import Comparison
from fuzz_texts import FuzzTexts

PROGRESS_S = 10


def made_json(texts):
    made = texts.rng.choice([tokenizer_oracle.unigram_files, tokenizer_oracle.word_files,
                             tokenizer_oracle.bpe_files])
    return references.of_file(*texts.rng.choice(list(made(texts))))


def made_ranks(texts):
    ranks = piece_oracle.random_ranks(texts)
    if texts.rng.random() < 0.5:
        return references.of_tekken("tekken", ranks)
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    return references.of_qwen_ranks("tiktoken", {"tiktoken": lines}, ranks)


def made_pieces(texts):
    def either():
        return texts.rng.random() < 0.5
    flags = dict(normalization_rule_name=texts.rng.choice(piece_oracle.RULES), byte_fallback=either(),
                 add_dummy_prefix=either(), remove_extra_whitespaces=either(),
                 user_defined_symbols=piece_oracle.SYMBOLS if either() else [])
    kind = texts.rng.choice(["unigram", "bpe"])
    name, model = piece_oracle.piece_model(piece_oracle.corpus_of(texts, 300), kind, flags)
    return references.of_pieces(name, {"sentencepiece": base64.b64encode(model).decode()}, model)


class Batches:
    """One after the other: each published tokenizer, then one of each kind made here."""

    def __init__(self, data):
        self.book = ""
        self.published = []
        if data:
            self.book = (Path(data) / "texts/war-and-peace.txt").read_text(encoding="utf-8")
            self.published = list(references.published(data))
        else:
            print("CAUSEWAY_TEST_DATA is not set: no published vocabularies")
        self.made = [made_json, made_ranks, made_json, made_pieces]

    def batch(self, seed, number, size):
        source = FuzzTexts(f"{seed}/{number}", self.book)
        place = number % (len(self.published) + len(self.made))
        if place < len(self.published):
            reference = self.published[place]
        else:
            reference = self.made[place - len(self.published)](files.Texts(random.Random(f"{seed}/{number}/file")))
        return reference, [reference.prepare(source.text(reference.marks)) for _ in range(size)]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--count", type=int, default=6000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--batch", type=int, default=500)
    options = arguments.parse_args()
    comparison = Comparison(options.program)
    batches = Batches(os.environ.get("CAUSEWAY_TEST_DATA"))
    counts = collections.Counter()
    start = told = time.monotonic()
    for number in itertools.count(options.first):
        if comparison.texts >= options.count:
            break
        reference, texts = batches.batch(options.seed, number, options.batch)
        failures = comparison.failures
        comparison.run(reference.name, reference.request, texts, reference.encode, reference.decode)
        counts["published" if reference in batches.published else "made here", reference.name.split(" {")[0]] += len(texts)
        if comparison.failures > failures:
            print(f"batch {number} of seed {options.seed}: {comparison.failures - failures} differ", flush=True)
        now = time.monotonic()
        if now - told > PROGRESS_S:
            told = now
            print(f"{comparison.texts} of {options.count} texts, {comparison.failures} differ, "
                  f"{comparison.texts / (now - start):.0f} a second", flush=True)
    for (kind, name), count in sorted(counts.items()):
        print(f"{kind}: {name}: {count} texts")
    sys.exit(comparison.finish(options.seed))


if __name__ == "__main__":
    main()
