#!/usr/bin/env python3
"""Stores the KV of a prefix in pinned memory and fetches it back: an unmodified PyTorch program.

    --how layers    one copy a layer, [2, tokens, width], on a stream of its own (vLLM's connectors,
                    layer by layer)
    --how chunks    one copy a chunk of 256 tokens, [2, layers, 256, width], into a buffer on the GPU,
                    and from there to the layers, in stream order (LMCache)

Every byte is verified: each store has new contents, the KV is zeroed before it is fetched. Prints a line
a phase; --json FILE writes all times.
"""

import argparse
import json

import torch

import gpu_memory
import shapes

CHUNK_TOKENS = 256  # LMCache's


class Layers:
    def __init__(self, model, tokens, pool):
        shape = (2, tokens, model.kv_width())
        self.kv = [torch.empty(shape, dtype=torch.bfloat16, device="cuda") for _ in range(model.layers)]
        self.home = [pool.take(one.nbytes).view(torch.bfloat16).view(shape) for one in self.kv]
        self.stream = torch.cuda.Stream()

    def store(self):
        with torch.cuda.stream(self.stream):
            for layer, home in zip(self.kv, self.home):
                home.copy_(layer, non_blocking=True)
        self.stream.synchronize()

    def fetch(self):
        with torch.cuda.stream(self.stream):
            for layer, home in zip(self.kv, self.home):
                layer.copy_(home, non_blocking=True)
        self.stream.synchronize()


class Chunks:
    def __init__(self, model, tokens, pool):
        self.tokens = tokens
        whole = (model.layers, 2, tokens, model.kv_width())
        self.all = torch.empty(whole, dtype=torch.bfloat16, device="cuda")
        self.kv = list(self.all)
        chunk = (2, model.layers, CHUNK_TOKENS, model.kv_width())
        # Two buffers: one is being scattered while the other is filled.
        self.buffers = [torch.empty(chunk, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
        size = self.buffers[0].nbytes
        self.home = [pool.take(size).view(torch.bfloat16).view(chunk)
                     for _ in range(tokens // CHUNK_TOKENS)]
        self.stream = torch.cuda.Stream()

    def place(self, i):
        """Chunk i's part of all layers, as [2, layers, 256, width]."""
        return self.all[:, :, i * CHUNK_TOKENS:(i + 1) * CHUNK_TOKENS].transpose(0, 1)

    def store(self):
        with torch.cuda.stream(self.stream):
            for i, home in enumerate(self.home):
                buffer = self.buffers[i % 2]
                buffer.copy_(self.place(i))
                home.copy_(buffer, non_blocking=True)
        self.stream.synchronize()

    def fetch(self):
        with torch.cuda.stream(self.stream):
            for i, home in enumerate(self.home):
                buffer = self.buffers[i % 2]
                buffer.copy_(home, non_blocking=True)
                self.place(i).copy_(buffer)
        self.stream.synchronize()


HOW = {"layers": Layers, "chunks": Chunks}


def measure(prefix, repeat, what, first_seed):
    def lose():
        for layer in prefix.kv:
            layer.zero_()

    return gpu_memory.timed_rounds(prefix.kv, {"store": prefix.store, "fetch": prefix.fetch}, lose,
                                   repeat, what, first_seed)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], help="default: " +
                        " ".join(shapes.KV_MODELS))
    parser.add_argument("--tokens", nargs="*", type=int, default=list(shapes.KV_TOKENS),
                        help=f"multiples of {CHUNK_TOKENS} (default: %(default)s)")
    parser.add_argument("--how", choices=HOW, default="layers")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if any(tokens <= 0 or tokens % CHUNK_TOKENS for tokens in options.tokens):
        parser.error(f"--tokens takes multiples of {CHUNK_TOKENS}")
    return options


def measure_one(model, tokens, options, pool, seed):
    """Rows of one model and length."""
    pool.reset()
    what = f"{model.name}, {tokens // 1024}K tokens"
    size = model.kv_bytes(tokens)
    prefix = HOW[options.how](model, tokens, pool)
    rows = []
    for phase, seconds in measure(prefix, options.repeat, what, seed).items():
        best = min(seconds)
        print(f"{what} {phase}: {size / 1e9:.2f} GB, best {1e3 * best:.1f} ms, "
              f"{size / best / 1e9:.1f} GB/s, verified", flush=True)
        rows.append({"workload": f"KV prefix, {options.how}", "what": what, "phase": phase,
                     "bytes": size, "seconds": seconds})
    del prefix
    torch.cuda.empty_cache()
    return rows


def main():
    options = arguments()
    sizes = [(model, tokens) for model in shapes.chosen(options.models, shapes.KV_MODELS)
             for tokens in options.tokens]
    fitting = [one for one in sizes if gpu_memory.room_for(one[0].kv_bytes(one[1]))]
    for model, tokens in sizes:
        if (model, tokens) not in fitting:
            print(f"skip {model.name}, {tokens} tokens: the GPU has no "
                  f"{model.kv_bytes(tokens) / 1e9:.1f} GB free")
    if not fitting:
        raise SystemExit("error: no prefix fits the GPU")
    largest = max(model.kv_bytes(tokens) for model, tokens in fitting)
    pool = gpu_memory.PinnedPool(largest + (1 << 20))
    rows = []
    for model, tokens in fitting:
        rows += measure_one(model, tokens, options, pool, 1 + len(rows))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
