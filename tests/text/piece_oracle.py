"""Compares the C++ tokenizers of ranks and of SentencePiece with PyPI's `tiktoken` and `sentencepiece`:
vocabularies made here, and those of CAUSEWAY_TEST_DATA where it is set; ids and what they decode to must
be equal.

  piece_oracle.py PATH/TO/tokenize [--seed N] [--texts N]
"""

import argparse
import base64
import io
import json
import os
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import sentencepiece
import tiktoken

import tokenizer_files as files

QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                r"\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN_PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
                  r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
WORDS = ("the of and a in to it is was that on he for you with his be at by not have are this but had they "
         "she from which or we an there her were one do been all their has would will what if can said").split()


class Comparison:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.texts = 0
        self.failures = 0

    def run(self, name, request, texts, encode, decode):
        """encode(text) -> ids and decode(ids) -> text are the library's."""
        self.process.stdin.write(json.dumps(dict(request, texts=texts)).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            return self.fail(name, "", "loads", answer["error"])
        for text, ours in zip(texts, answer["texts"]):
            self.texts += 1
            ids = encode(text)
            if ids != ours.get("ids"):
                self.fail(name, text, ids, ours)
            elif decode(ids) != ours["text"]:
                self.fail(name, text, decode(ids), ours["text"])

    def fail(self, name, text, wanted, got):
        self.failures += 1
        if self.failures <= 20:
            print(f"{name}: {ascii(text)[:300]}\n  wanted {ascii(wanted)[:300]}\n  got    {ascii(got)[:300]}")


def random_ranks(texts):
    """All bytes, and stretches of texts, which need not be characters."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    while len(ranks) < 900:
        text = (texts.text() + " " + texts.rng.choice(WORDS)).encode()
        begin = texts.rng.randrange(len(text))
        ranks.setdefault(text[begin:begin + texts.rng.choice([2, 2, 3, 4, 7])], len(ranks))
    return ranks


def compare_tiktoken(comparison, ranks, request, texts):
    special = {content: len(ranks) + i for i, content in enumerate(QWEN_SPECIAL)}
    encoding = tiktoken.Encoding("qwen", pat_str=QWEN_PATTERN, mergeable_ranks=ranks, special_tokens=special)

    def encode(text):
        return encoding.encode(unicodedata.normalize("NFC", text), allowed_special="all", disallowed_special=())
    comparison.run("tiktoken", request, texts, encode, encoding.decode)


def compare_tekken(comparison, ranks, texts):
    special = 25
    encoding = tiktoken.Encoding("tekken", pat_str=TEKKEN_PATTERN, mergeable_ranks=ranks, special_tokens={})
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
             for token, rank in ranks.items()]
    file = {"config": {"pattern": TEKKEN_PATTERN, "num_vocab_tokens": len(ranks), "version": "v3",
                       "default_vocab_size": len(ranks) + special, "default_num_special_tokens": special},
            "vocab": vocab + [{"rank": len(ranks), "token_bytes": "cXF6", "token_str": "unused"}]}
    comparison.run("tekken", {"tekken": file, "plain": True}, texts,
                   lambda text: [special + i for i in encoding.encode(text, disallowed_special=())],
                   lambda ids: encoding.decode([i - special for i in ids]))


def word(texts):
    """A word, two glued together, dots that can be cut equally well in several ways, or random."""
    kind = texts.rng.random()
    if kind < 0.1:
        return texts.text(3) + "." * texts.rng.randrange(1, 7)
    if kind < 0.3:
        return texts.text(8)
    return texts.rng.choice(WORDS) + (texts.rng.choice(WORDS)[:3] if kind < 0.6 else "")


def piece_models(texts):
    """Every normalisation that the trainer knows, both kinds of model, every flag both ways."""
    corpus = [" ".join(word(texts) for _ in range(12)).replace("\0", "") for _ in range(900)]
    rules = ("nmt_nfkc", "identity", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
    for i, rule in enumerate(rules + rules[:3]):
        for kind in ("unigram", "bpe"):
            flags = dict(normalization_rule_name=rule, model_type=kind, byte_fallback=i % 2 == 0,
                         add_dummy_prefix=i != 2, remove_extra_whitespaces=i != 3 and i != 6,
                         user_defined_symbols=["[X]", "\uff21\uff21", "of the"] if i % 3 == 0 else [])
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(corpus), model_writer=model, vocab_size=3000, hard_vocab_limit=False,
                character_coverage=0.99, max_sentence_length=100000, num_threads=1, minloglevel=3, **flags)
            yield f"{kind} {flags}", model.getvalue()


def compare_pieces(comparison, name, model, request, texts):
    reference = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = [text.replace("\0", "") for text in texts]
    comparison.run(name, dict(request, plain=True), texts, reference.encode, reference.decode)


def compare_published(comparison, data, texts):
    story = (data / "texts/war-and-peace.txt").read_text(encoding="utf-8")[:200_000]
    texts = texts + [story[i:i + 20_000] for i in range(0, len(story), 20_000)]
    ranks = {}
    for line in (data / "tokenizers/qwen1/qwen.tiktoken").read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    compare_tiktoken(comparison, ranks, {"directory": str(data / "tokenizers/qwen1")}, texts)
    for name in ("llama-2", "mistral-v1"):
        model = (data / "tokenizers" / name / "tokenizer.model").read_bytes()
        compare_pieces(comparison, name, model, {"directory": str(data / "tokenizers" / name)}, texts)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--texts", type=int, default=400)
    options = arguments.parse_args()
    comparison = Comparison(options.program)
    source = files.Texts(random.Random(options.seed))

    def texts():
        extra = ["", " ", "  a  b ", "\u2581", "a\u2581", "of the [X] of the\uff21\uff21", "\t\u3000x\n",
                 "<|im_end|>", "<|im_end|>\u0338", "<|im_start|>a<|extra_7|>e\u0301", "a" * 300, " " * 120,
                 "\ufdfa\u0001\u00ad", "<unk> <s>"]
        words = [" ".join(source.rng.choice([word(source), word(source), "", "[X]", "<|im_end|>"])
                          for _ in range(9)) for _ in range(options.texts // 2)]
        return extra + words + [source.text() for _ in range(options.texts // 2)]
    for _ in range(3):
        ranks = random_ranks(source)
        lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
        compare_tiktoken(comparison, ranks, {"tiktoken": lines}, texts())
        compare_tekken(comparison, ranks, texts())
    for name, model in piece_models(source):
        request = {"sentencepiece": base64.b64encode(model).decode()}
        compare_pieces(comparison, name, model, request, texts())
    data = os.environ.get("CAUSEWAY_TEST_DATA")
    if data:
        compare_published(comparison, Path(data), texts())
    else:
        print("CAUSEWAY_TEST_DATA is not set: no published vocabularies")
    comparison.process.stdin.close()
    print(f"seed {options.seed}: {comparison.texts} texts, {comparison.failures} differ")
    sys.exit(comparison.failures > 0 or comparison.process.wait() != 0)


if __name__ == "__main__":
    main()
