"""Random texts that are hard on tokenizers, of many kinds."""

import functools
import random

import tokenizer_files as files

SPACES = [" "] * 6 + ["\n"] * 3 + ["\r\n", "\t", "\r", "\v", "\f", "\x85", "\xa0", "\u1680", "\u2003", "\u2028",
                                   "\u202f", "\u3000", "\u200b", "\ufeff", "\x1c", "\x1f", "\u180e"]
CONTRACTIONS = ["'s", "'S", "'\u017f", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'Ll", "'d", "\u2019s", "'K",
                "'\u212a", "n't", "''", "'\u0301s"]
NUMBERS = ["1", "12", "123", "1234", "1234567", "3.14", "-1e-9", "\u0661\u0662\u0663", "\uff11\uff12", "\u00b2",
           "\u00bd", "\u2167", "\u3007", "\u0967\u0968", "\U0001d7d8", "0x1F", "1,000,000"]
CLUSTERS = ["e\u0301", "\u1100\u1161\u11a8", "\u1112\u1161\u11ab", "a\u0323\u0307", "a\u0307\u0323", "\u212b",
            "\u0958", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
            "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "\u0e01\u0e33", "\u0ba8\u0bbf", "\u0931\u094d\u200d",
            "\ufb01", "\u1e9b\u0323", "\U0001d15e", "\u0130", "\u0390", "\u01c6", "\u03c3\u03c2"]
CODE = ["def f(x):\n", "\t\treturn ", "    ", "{}", "();", "\\n", "://", "www.", "</div>", "==", "!=", "->", "#",
        "/*", "*/", "\"\"\"", "$x", "@", "~/", "a_b", "camelCase", "HTTPServer", "%20", "&amp;", "...", "----"]
BYTES = ["<0x41>", "<0xC3>", "<0x0A>", "<0xc3>", "<0x", "\u2581", "\u2581\u2581", "\u0120", "\u010a", "##", "@@"]


@functools.cache
def allowed_characters():
    return frozenset(files.settled_characters())


class FuzzTexts:
    def __init__(self, seed, book):
        """`book`: a text to take stretches of, "" for none."""
        self.rng = random.Random(seed)
        self.texts = files.Texts(self.rng)
        self.allowed = allowed_characters()
        self.book = book
        self.kinds = [self.blocks, self.anywhere, self.spaced, self.pieces, self.bytes, self.runs]
        self.kinds += [self.edited, self.edited, self.edited] if book else []

    def some(self, choose, most):
        return "".join(choose() for _ in range(self.rng.randrange(1, most)))

    def blocks(self, marks):
        return self.texts.text()

    def anywhere(self, marks):
        return self.some(lambda: self.rng.choice(self.texts.everything), 24)

    def spaced(self, marks):
        """White space of all kinds with little between."""
        return self.some(lambda: self.rng.choice(SPACES) if self.rng.random() < 0.7 else self.texts.character(), 40)

    def pieces(self, marks):
        lists = [SPACES, CONTRACTIONS, NUMBERS, CLUSTERS, CODE, BYTES] + [marks] * bool(marks)

        def piece():
            if self.rng.random() < 0.2:
                return self.texts.character()
            found = self.rng.choice(self.rng.choice(lists))
            return found[:self.rng.randrange(1, len(found) + 1)] if self.rng.random() < 0.15 else found
        return self.some(piece, 16)

    def bytes(self, marks):
        """What is valid of random bytes, which is cut at any place."""
        data = bytearray(self.some(self.texts.character, 30).encode())
        for _ in range(self.rng.randrange(4)):
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return data.decode(errors="replace")

    def runs(self, marks):
        return self.some(lambda: self.texts.character() * self.rng.choice([1, 2, 3, 5, 17, 60]), 8)

    def edited(self, marks):
        """A stretch of the book, with a few characters changed."""
        begin = self.rng.randrange(len(self.book))
        text = self.book[begin:begin + self.rng.choice([5, 20, 60, 200])]
        for _ in range(self.rng.choice([0, 1, 3, 10])):
            at = self.rng.randrange(len(text) + 1)
            kind = self.rng.randrange(4)
            if kind == 0:
                text = text[:at] + self.pieces(marks) + text[at:]
            elif kind == 1:
                text = text[:at] + self.texts.character() + text[at + 1:]
            elif kind == 2:
                text = text[:at] + text[at + self.rng.randrange(1, 6):]
            else:
                text = text[:at] + text[at:at + 9].swapcase() + text[at + 9:]
        return text

    def text(self, marks=()):
        """Without characters that versions of Unicode differ in (tokenizer_files.py)."""
        text = self.rng.choice(self.kinds)(list(marks))
        return "".join(c for c in text if c in self.allowed)
