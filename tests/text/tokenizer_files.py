"""Random tokenizer.json files, one kind for each way that models are published, and texts for them."""

import base64
import functools
import struct
import unicodedata

# Characters whose properties differ between Unicode 14 and the older tables that parts of `tokenizers`
# are built with (normal forms: 9; marks and punctuation of BERT: 8). All came later than the tables.
NEWER = """61D 7FD 890-89F 8CA-8E2 9FD-9FE A76 AFA-AFF B55 C04 C3C C77 C84 D00 D3B-D3C D81 EBA 166D 1715
1734 180F 1885-1886 1ABF-1ACE 1B7D-1B7E 1CF2-1CF3 1CF7 1DF6-1DFB 2E43-2E4F 2E52-2E5D 32FF A7F2-A7F4
A82C A8C5 A8FF A9BD AB69 10781-10785 10787-107B0 107B2-107BA 10D24-10D27 10EAB-10EAD 10F46-10F59
10F82-10F89 11070 11073-11074 110C2 110CD 11145-11146 111C9 111CE-111CF 1123E 1133B 11438-1143F
11442-11446 1144B-1144F 1145A-1145E 11660-1166C 116B9 1182C-1183B 11930-11935 11937-1193E 11940
11942-11946 119D1-119D7 119DA-119E0 119E2 119E4 11A01-11A0A 11A33-11A39 11A3B-11A47 11A51-11A5B
11A8A-11A9C 11A9E-11AA2 11C30-11C36 11C38-11C3D 11C3F 11C41-11C45 11C70-11C71 11C92-11CA7 11CAA-11CB6
11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D8A-11D8E 11D90-11D91 11D93-11D97 11EF3-11EF8 11FFF
12FF1-12FF2 13430-13438 16E97-16E9A 16F4F 16F7F-16F87 16FE2 16FE4 16FF0-16FF1 1CF00-1CF2D 1CF30-1CF46
1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E130-1E136 1E2AE 1E2EC-1E2EF 1E944-1E94A
1E95E-1E95F 1F16C 1FBF0-1FBF9"""


def newer_characters():
    found = set()
    for span in NEWER.split():
        first, _, last = span.partition("-")
        found.update(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    return found


@functools.cache
def settled_characters():
    """What Unicode 14 assigns, without private use and what the library has older tables for."""
    newer = newer_characters()
    return [chr(code) for code in range(0x110000)
            if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs") and chr(code) not in newer]


BLOCKS = [(0x61, 0x7A)] * 4 + [(0x20, 0x20)] * 4 + [
    (0x41, 0x5A), (0x30, 0x39), (0x09, 0x0D), (0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x17F), (0x300, 0x36F),
    (0x370, 0x4FF), (0x5D0, 0x6FF), (0x900, 0x97F), (0xE00, 0xE5B), (0x1100, 0x11FF), (0x1E00, 0x1FFE),
    (0x2000, 0x206F), (0x2460, 0x24FF), (0x2581, 0x2581), (0x3000, 0x30FF), (0x4E00, 0x4EFF),
    (0xAC00, 0xACFF), (0xFB00, 0xFDFB), (0xFF00, 0xFF9F), (0x1F1E6, 0x1F1FF), (0x1F300, 0x1F6FF),
    (0x1D15E, 0x1D1C0)]


@functools.cache
def blocks_of_characters():
    allowed = set(settled_characters())
    return [[chr(c) for c in range(first, last + 1) if chr(c) in allowed] for first, last in BLOCKS]


class Texts:
    def __init__(self, rng):
        self.rng = rng
        self.everything = settled_characters()
        self.blocks = blocks_of_characters()

    def character(self):
        if self.rng.random() < 0.02:
            return self.rng.choice(self.everything)
        return self.rng.choice(self.rng.choice(self.blocks))

    def text(self, most=40):
        pieces = ["don't", " the", "\r\n", "  ", "...", "<s>", "\u2581", "123", "e\u0301", "[SEP]", "a", "b"]
        return "".join(self.rng.choice(pieces) if self.rng.random() < 0.2 else self.character()
                       for _ in range(self.rng.randrange(most)))


def charsmap(mapping):
    """SentencePiece's precompiled_charsmap of a dict of non-empty strings: darts-clone's double array
    and the texts, in base64."""
    texts = b""
    root = {}
    for key, value in mapping.items():
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node["value"] = len(texts)
        texts += value.encode() + b"\0"
    units = {0: 0}
    used = {0}
    todo = [(0, root)]
    free = 1
    while todo:
        place, node = todo.pop()
        labels = [byte for byte in node if byte != "value"]
        wanted = labels + ([0] if "value" in node else [])
        while free in used:
            free += 1
        base = free
        while any(base ^ label in used for label in wanted):
            base += 1
        used.update(base ^ label for label in wanted)
        assert place ^ base < 1 << 21
        units[place] |= (place ^ base) << 10 | ("value" in node) << 8
        if "value" in node:
            units[base] = node["value"] | 1 << 31
        for label in labels:
            units[base ^ label] = label
            todo.append((base ^ label, node[label]))
    # The reader looks at any label of a block.
    size = (max(used) | 0xFF) + 1
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()


def random_charsmap(texts):
    mapping = {"\t": " ", "\r": " ", "\n": " ", "\u200b": "", "e\u0301": "\u00e9", "\uff21": "A", "\ufb01": "fi"}
    for _ in range(300):
        key = "".join(texts.character() for _ in range(texts.rng.choice([1, 1, 2])))
        if "\0" not in key:
            mapping[key] = unicodedata.normalize("NFKC", key) if texts.rng.random() < 0.5 else texts.character()
    return charsmap({key: value for key, value in mapping.items() if "\0" not in value})


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def pieces(texts, count, mark="\u2581"):
    """Random strings that texts have: characters, and stretches of texts."""
    found = dict.fromkeys([mark, "a", "e", "the", mark + "the", "t", "h", " "])
    while len(found) < count:
        text = texts.text().replace(" ", mark)
        if text:
            begin = texts.rng.randrange(len(text))
            found.setdefault(text[begin:begin + texts.rng.choice([1, 1, 2, 3])])
    return list(found)


def added(index, content, normalized=False, special=True):
    return {"id": index, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special}


def tokenizer(model, normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None, tokens=()):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens),
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor,
            "decoder": decoder, "model": model}


def bpe(vocab, merges=(), **fields):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False, "vocab": {piece: i for i, piece in enumerate(vocab)},
             "merges": list(merges)}
    return dict(model, **fields)


def unigram(texts, byte_fallback=False):
    vocab = list(dict.fromkeys(["<s>", "</s>", "<unk>"] + (BYTES if byte_fallback else []) +
                               pieces(texts, 1500)))
    scores = [0.0] * 3 + [texts.rng.choice([-1.5, -3.25, -round(texts.rng.uniform(1, 14), 4)])
                          for _ in vocab[3:]]
    return {"type": "Unigram", "unk_id": 2, "vocab": [list(pair) for pair in zip(vocab, scores)],
            "byte_fallback": byte_fallback}


def words(texts, kind):
    found = dict.fromkeys(["[UNK]", "[CLS]", "[SEP]", "the", "a", "b", "##a", "##b", "##the", "don"])
    for piece in pieces(texts, 1500, " "):
        for part in (piece.split() or [piece]):
            found.setdefault(part)
            if kind == "WordPiece":
                found.setdefault("##" + part)
    model = {"type": kind, "vocab": {word: i for i, word in enumerate(found)}, "unk_token": "[UNK]"}
    if kind == "WordPiece":
        model.update(continuing_subword_prefix="##", max_input_chars_per_word=texts.rng.choice([5, 100]))
    return model


def affixed_bpe(texts, prefix, suffix, byte_fallback):
    """Merges of pairs as they follow from the affixes: the last piece of a word has the suffix, all but
    the first have the prefix."""
    letters = [chr(c) for c in range(0x61, 0x67)]
    vocab = dict.fromkeys(BYTES if byte_fallback else [])
    for letter in letters:
        for form in (letter, letter + suffix, prefix + letter, prefix + letter + suffix):
            vocab.setdefault(form)
    merges = {}
    for _ in range(60):
        left = texts.rng.choice([piece for piece in vocab if not (suffix and piece.endswith(suffix))
                                 and not piece.startswith("<0x")])
        right = texts.rng.choice([piece for piece in vocab if piece.startswith(prefix)
                                  and not piece.startswith("<0x")])
        vocab.setdefault(left + right[len(prefix):])
        merges.setdefault((left, right))
    return bpe(vocab, [list(pair) for pair in merges], byte_fallback=byte_fallback,
               continuing_subword_prefix=prefix or None, end_of_word_suffix=suffix or None)


def spelt_bpe(texts):
    """Merges of characters that spell bytes, as they stand in texts."""
    letters = spelling_of_bytes()
    vocab = dict.fromkeys(letters)
    merges = {}
    for piece in pieces(texts, 300, " "):
        spelt = [letters[byte] for byte in piece.encode()]
        while len(spelt) > 1 and spelt[0] + spelt[1] not in vocab:
            merges.setdefault((spelt[0], spelt[1]))
            vocab.setdefault(spelt[0] + spelt[1])
            spelt[:2] = [spelt[0] + spelt[1]]
    return bpe(vocab, [list(pair) for pair in merges])


def spelling_of_bytes():
    """The character that spells each byte: printable ones themselves, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}
