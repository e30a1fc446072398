"""Compares the published tokenizers of CAUSEWAY_TEST_DATA with the libraries that they were made for:
`tokenizers`, `tiktoken` and `sentencepiece`. On the texts that are there (a book, vectors, templates,
conversations), on random texts, and in decoding random ids.

  published_oracle.py PATH/TO/tokenize [--seed N] [--texts N]

Without the data there is nothing to compare: exit code 77.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import references
from comparison import Comparison
from fuzz_texts import FuzzTexts


def stretches(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)]


def texts_of(data):
    """What was written by people, or by other programs, whole and in pieces."""
    texts = ["", " ", "\n"]
    book = (data / "texts/war-and-peace.txt").read_text(encoding="utf-8")
    texts += stretches(book, 20_000)
    for path in sorted(data.glob("vectors/*.inp")):
        texts += path.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    for path in sorted(data.glob("templates/*.jinja")):
        texts.append(path.read_text(encoding="utf-8"))
    for path in sorted(data.glob("**/*.md")):
        texts.append(path.read_text(encoding="utf-8"))
    return texts, book


def conversations(data, decode):
    """Texts of ShareGPT, from the ids in Llama 3's vocabulary."""
    path = data / "traces/sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl"
    texts = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            texts += [decode(request["input_tok_ids"]), decode(request["output_tok_ids"])]
    return texts


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--texts", type=int, default=1500)
    options = arguments.parse_args()
    if not os.environ.get("CAUSEWAY_TEST_DATA"):
        print("CAUSEWAY_TEST_DATA is not set: no published vocabularies")
        sys.exit(77)
    data = Path(os.environ["CAUSEWAY_TEST_DATA"])
    comparison = Comparison(options.program)
    texts, book = texts_of(data)
    source = FuzzTexts(options.seed, book)
    known = list(references.published(data))
    texts += conversations(data, known[0].decode)
    for reference in known:
        random_texts = [source.text(reference.marks) for _ in range(options.texts)]
        comparison.run(reference.name, reference.request, [reference.prepare(text) for text in texts + random_texts],
                       reference.encode, reference.decode)
        lists = [[source.rng.choice(reference.ids) for _ in range(source.rng.randrange(1, 20))]
                 for _ in range(options.texts)]
        comparison.run_decode(f"{reference.name}, decoding", reference.request, lists, reference.decode)
        print(f"{reference.name}: {comparison.texts} texts, {comparison.failures} differ", flush=True)
    sys.exit(comparison.finish(options.seed))


if __name__ == "__main__":
    main()
