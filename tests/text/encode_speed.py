"""How long our tokenizers and other libraries take to encode a book, on one core, in turns: a table in
Markdown.

  CAUSEWAY_TEST_DATA=... encode_speed.py PATH/TO/encode_time [--turns N] [--core N]

`tokenizers` is called twice a turn: as `encode`, and as `encode_batch_fast`, which makes ids only.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the library is loaded
os.environ["RAYON_NUM_THREADS"] = "1"

import sentencepiece  # noqa: E402
import tiktoken  # noqa: E402
import tokenizers  # noqa: E402

import references  # noqa: E402


class Ours:
    def __init__(self, program, folder, book):
        self.process = subprocess.Popen([program, folder, book], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def __call__(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        nanoseconds, tokens = self.process.stdout.readline().split()
        return int(nanoseconds) / 1e9, int(tokens)


def timed(encode):
    """`encode` gives ids."""
    def run():
        start = time.perf_counter()
        ids = encode()
        return time.perf_counter() - start, len(ids)
    return run


def others(data, name, text):
    """What else encodes with this tokenizer: names and calls."""
    folder = data / "tokenizers" / name
    if (folder / "tokenizer.json").exists():
        library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        version = f"`tokenizers` {tokenizers.__version__}"
        return {f"{version}, `encode`": timed(lambda: library.encode(text).ids),
                f"{version}, `encode_batch_fast`": timed(lambda: library.encode_batch_fast([text])[0].ids)}
    if (folder / "tokenizer.model").exists():
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        return {f"`sentencepiece` {sentencepiece.__version__}": timed(lambda: pieces.encode(text, add_bos=True))}
    ranks = references.read_ranks(folder / "qwen.tiktoken")
    encoding = tiktoken.Encoding("qwen", pat_str=references.QWEN_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return {f"`tiktoken` {tiktoken.__version__}": timed(lambda: encoding.encode_ordinary(text))}


def spread(values):
    return f"{min(values) * 1e3:.0f} – {max(values) * 1e3:.0f}"


def compare(program, data, name, options):
    book = data / "texts/war-and-peace.txt"
    text = book.read_bytes().decode()
    calls = {"ours": Ours(program, str(data / "tokenizers" / name), str(book)), **others(data, name, text)}
    times = {call: [] for call in calls}
    tokens = set()
    for turn in range(options.turns + 1):
        for call, run in calls.items():
            seconds, count = run()
            tokens.add(count)
            if turn > 0:  # the first warms up
                times[call].append(seconds)
        print(f"{name}: turn {turn} of {options.turns}", file=sys.stderr, flush=True)
    if len(tokens) != 1:
        raise SystemExit(f"{name}: the numbers of tokens differ: {sorted(tokens)}")
    ours = statistics.median(times["ours"])
    rate = len(text.encode()) / ours / 1e6
    for call, values in times.items():
        if call != "ours":
            yield (f"| {name} | {ours * 1e3:.0f} ({spread(times['ours'])}) ms, {rate:.1f} MB/s | {call} | "
                   f"{statistics.median(values) * 1e3:.0f} ({spread(values)}) ms | "
                   f"{statistics.median(values) / ours:.1f} |")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("--turns", type=int, default=7)
    arguments.add_argument("--core", type=int, default=0)
    options = arguments.parse_args()
    if not os.environ.get("CAUSEWAY_TEST_DATA"):
        raise SystemExit("CAUSEWAY_TEST_DATA is not set: there is no book")
    os.sched_setaffinity(0, {options.core})
    data = Path(os.environ["CAUSEWAY_TEST_DATA"])
    print("| tokenizer | ours | library | its | ratio |\n|---|---|---|---|---|")
    for name in ("llama-3", "qwen2.5", "qwen3", "qwen1", "llama-2", "mistral-v1"):
        for row in compare(options.program, data, name, options):
            print(row, flush=True)


if __name__ == "__main__":
    main()
