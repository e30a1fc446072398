"""Tokenizers as other libraries have them: `tokenizers`, `tiktoken` and `sentencepiece`, around files made by
the oracles and the published ones of the test data."""

import base64
import json
import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import sentencepiece
import tiktoken
import tokenizers

from comparison import each

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a test is one of many on its machine

QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                r"\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN_PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
                  r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]


@dataclass
class Reference:
    name: str
    request: dict  # what tokenize.cc is asked with
    encode: Callable  # texts to lists of ids
    decode: Callable  # ids to a text
    prepare: Callable = staticmethod(lambda text: text)  # a text without what the library cannot take
    ids: list = field(default_factory=list)  # that may be decoded in any order
    marks: list = field(default_factory=list)  # texts of special tokens


def of_tokenizer_json(name, request, text):
    library = tokenizers.Tokenizer.from_str(text)

    def encode(texts):
        return [found.ids for found in library.encode_batch_fast(texts)]
    return Reference(name, request, encode, lambda ids: library.decode(ids, skip_special_tokens=False),
                     ids=sorted(library.get_vocab(with_added_tokens=True).values()),
                     marks=[token.content for token in library.get_added_tokens_decoder().values()])


def of_file(name, file):
    """Of a tokenizer.json that some texts may have no ids in."""
    reference = of_tokenizer_json(name, {"file": file}, json.dumps(file))
    library = tokenizers.Tokenizer.from_str(json.dumps(file))
    reference.encode = each(lambda text: library.encode(text).ids)
    return reference


def of_qwen_ranks(name, request, ranks):
    special = {content: len(ranks) + i for i, content in enumerate(QWEN_SPECIAL)}
    library = tiktoken.Encoding("qwen", pat_str=QWEN_PATTERN, mergeable_ranks=ranks, special_tokens=special)

    def encode(text):
        return library.encode(unicodedata.normalize("NFC", text), allowed_special="all", disallowed_special=())
    return Reference(name, request, each(encode), library.decode, ids=list(range(len(ranks) + len(special))),
                     marks=QWEN_SPECIAL[:5])


def of_tekken(name, ranks):
    special = 25
    library = tiktoken.Encoding("tekken", pat_str=TEKKEN_PATTERN, mergeable_ranks=ranks, special_tokens={})
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
             for token, rank in ranks.items()]
    file = {"config": {"pattern": TEKKEN_PATTERN, "num_vocab_tokens": len(ranks), "version": "v3",
                       "default_vocab_size": len(ranks) + special, "default_num_special_tokens": special},
            "vocab": vocab + [{"rank": len(ranks), "token_bytes": "cXF6", "token_str": "unused"}]}
    return Reference(name, {"tekken": file, "plain": True},
                     each(lambda text: [special + i for i in library.encode(text, disallowed_special=())]),
                     lambda ids: library.decode([i - special for i in ids]),
                     ids=list(range(special, special + len(ranks))))


def of_pieces(name, request, model):
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    whole = [i for i in range(library.vocab_size()) if not library.is_control(i)]
    return Reference(name, dict(request, plain=True), each(library.encode), library.decode,
                     prepare=lambda text: text.replace("\0", ""), ids=whole, marks=["<s>", "</s>", "<unk>"])


def read_ranks(path):
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return ranks


def published(data):
    """Those of the folder that CAUSEWAY_TEST_DATA names."""
    root = Path(data)
    for name in ("llama-3", "qwen2.5", "qwen3"):
        folder = root / "tokenizers" / name
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        yield of_tokenizer_json(name, {"directory": str(folder)}, text)
    folder = root / "tokenizers/qwen1"
    yield of_qwen_ranks("qwen1", {"directory": str(folder)}, read_ranks(folder / "qwen.tiktoken"))
    for name in ("tokenizers/llama-2", "tokenizers/mistral-v1", "models/stories260K"):
        folder = root / name
        yield of_pieces(folder.name, {"directory": str(folder)}, (folder / "tokenizer.model").read_bytes())
