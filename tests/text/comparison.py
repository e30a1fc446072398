"""The C++ tokenizers beside a library: ids, and what ids decode to, must be equal."""

import json
import subprocess

SHOWN = 20


class Comparison:
    """Runs `program` (tokenize.cc), counts what was compared and shows the first differences."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.texts = 0
        self.failures = 0

    def ask(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the program ended with status {self.process.wait()}")
        return json.loads(answer)

    def run(self, name, request, texts, encode, decode):
        """`encode` makes lists of ids, or None where the library fails, of a list of texts; `decode` makes
        a text of ids, None: not compared."""
        answer = self.ask(dict(request, texts=texts))
        if "error" in answer:
            return self.fail(name, "", "loads", answer["error"])
        for text, ids, ours in zip(texts, encode(texts), answer["texts"], strict=True):
            self.texts += 1
            if ids != ours.get("ids"):
                self.fail(name, text, ids, ours)
            elif ids is not None and decode is not None:
                decoded = decode(ids)
                if decoded != ours["text"]:
                    self.fail(name, text, decoded, ours["text"])

    def run_decode(self, name, request, lists, decode):
        answer = self.ask(dict(request, texts=[], ids=lists))
        if "error" in answer:
            return self.fail(name, "", "loads", answer["error"])
        for ids, ours in zip(lists, answer["decoded"], strict=True):
            self.texts += 1
            decoded = decode(ids)
            if decoded != ours:
                self.fail(name, ids, decoded, ours)

    def fail(self, name, source, wanted, got):
        self.failures += 1
        if self.failures <= SHOWN:
            print(f"{name}: {ascii(source)[:300]}\n  wanted {ascii(wanted)[:300]}\n"
                  f"  got    {ascii(got)[:300]}", flush=True)

    def finish(self, seed):
        """The exit status."""
        self.process.stdin.close()
        status = self.process.wait()
        print(f"seed {seed}: {self.texts} texts, {self.failures} differ")
        return self.failures > 0 or status != 0


def each(encode):
    """`encode` of one text as one of many; what it raises is a failure of the library."""
    def encode_all(texts):
        found = []
        for text in texts:
            try:
                found.append(encode(text))
            except Exception:  # `tokenizers` raises no narrower class
                found.append(None)
        return found
    return encode_all
