"""Compares the C++ tokenizers of ranks and of SentencePiece with PyPI's `tiktoken` and `sentencepiece`, on
vocabularies made here; ids and what they decode to must be equal.

  piece_oracle.py PATH/TO/tokenize [--seed N] [--texts N]
"""

import argparse
import base64
import io
import random
import sys

import sentencepiece

import references
import tokenizer_files as files
from comparison import Comparison

WORDS = ("the of and a in to it is was that on he for you with his be at by not have are this but had they "
         "she from which or we an there her were one do been all their has would will what if can said").split()


def random_ranks(texts):
    """All bytes, and stretches of texts, which need not be characters."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    while len(ranks) < 900:
        text = (texts.text() + " " + texts.rng.choice(WORDS)).encode()
        begin = texts.rng.randrange(len(text))
        ranks.setdefault(text[begin:begin + texts.rng.choice([2, 2, 3, 4, 7])], len(ranks))
    return ranks


def word(texts):
    """A word, two glued together, dots that can be cut equally well in several ways, or random."""
    kind = texts.rng.random()
    if kind < 0.1:
        return texts.text(3) + "." * texts.rng.randrange(1, 7)
    if kind < 0.3:
        return texts.text(8)
    return texts.rng.choice(WORDS) + (texts.rng.choice(WORDS)[:3] if kind < 0.6 else "")


RULES = ("nmt_nfkc", "identity", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
SYMBOLS = ["[X]", "\uff21\uff21", "of the"]


def piece_model(corpus, kind, flags):
    """Trained here; a name of it and its file."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, vocab_size=3000, hard_vocab_limit=False,
        character_coverage=0.99, max_sentence_length=100000, num_threads=1, minloglevel=3, model_type=kind,
        **flags)
    return f"{kind} {flags}", model.getvalue()


def corpus_of(texts, lines=900):
    return [" ".join(word(texts) for _ in range(12)).replace("\0", "") for _ in range(lines)]


def piece_models(texts):
    """Every normalisation that the trainer knows, both kinds of model, every flag both ways."""
    corpus = corpus_of(texts)
    for i, rule in enumerate(RULES + RULES[:3]):
        for kind in ("unigram", "bpe"):
            flags = dict(normalization_rule_name=rule, byte_fallback=i % 2 == 0, add_dummy_prefix=i != 2,
                         remove_extra_whitespaces=i != 3 and i != 6,
                         user_defined_symbols=SYMBOLS if i % 3 == 0 else [])
            yield piece_model(corpus, kind, flags)


def compare(comparison, reference, texts):
    comparison.run(reference.name, reference.request, [reference.prepare(text) for text in texts],
                   reference.encode, reference.decode)


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
        compare(comparison, references.of_qwen_ranks("tiktoken", {"tiktoken": lines}, ranks), texts())
        compare(comparison, references.of_tekken("tekken", ranks), texts())
    for name, model in piece_models(source):
        request = {"sentencepiece": base64.b64encode(model).decode()}
        compare(comparison, references.of_pieces(name, request, model), texts())
    sys.exit(comparison.finish(options.seed))


if __name__ == "__main__":
    main()
