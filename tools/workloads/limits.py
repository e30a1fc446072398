#!/usr/bin/env python3
"""What the machine's links give: plain copies of GPUs to and from their own memory at the same time, by
PyTorch. The best set of links is the limit of any copy to one GPU through all of them.

Up to four GPUs every set is measured; with more, sets grow from every single link by the one that helps
most. Prints both directions; --json FILE writes them.
"""

import argparse
import itertools
import json
import statistics
import time

import torch

import gpu_memory

BYTES = 512 << 20  # of a GPU and round
PIECE = 32 << 20
ROUNDS = 3
EXHAUSTIVE_MOST = 4


class Links:
    def __init__(self, gpus, pool):
        self.host = [pool.take(BYTES) for _ in range(gpus)]
        self.device = [torch.empty(BYTES, dtype=torch.uint8, device=f"cuda:{i}") for i in range(gpus)]
        self.streams = [torch.cuda.Stream(device=i) for i in range(gpus)]

    def copy(self, gpu, up):
        target, source = ((self.device, self.host) if up else (self.host, self.device))
        with torch.cuda.stream(self.streams[gpu]):
            for at in range(0, BYTES, PIECE):
                target[gpu][at:at + PIECE].copy_(source[gpu][at:at + PIECE], non_blocking=True)

    def rate(self, links, up):
        """Bytes a second of all `links` together, median."""
        rates = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for gpu in links:
                self.copy(gpu, up)
            for gpu in links:
                self.streams[gpu].synchronize()
            rates.append(len(links) * BYTES / (time.perf_counter() - begin))
        return statistics.median(rates)


def every_set(gpus):
    return [links for size in range(1, gpus + 1) for links in itertools.combinations(range(gpus), size)]


def best_set(gpus, rate):
    """(links, rate) of the best set; `rate`: links → bytes a second."""
    if gpus <= EXHAUSTIVE_MOST:
        return max(((links, rate(links)) for links in every_set(gpus)), key=lambda one: one[1])
    known = {}

    def seen(links):
        if links not in known:
            known[links] = rate(links)
        return known[links]
    for first in range(gpus):
        links = (first,)
        while True:
            more = [tuple(sorted({*links, gpu})) for gpu in range(gpus) if gpu not in links]
            grown = max(more, key=seen, default=links)
            if seen(grown) <= seen(links):
                break
            links = grown
    return max(known.items(), key=lambda one: one[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    gpus = torch.cuda.device_count()
    pool = gpu_memory.PinnedPool(gpus * BYTES)
    links = Links(gpus, pool)
    found = {}
    for name, up in (("H2D", True), ("D2H", False)):
        links.rate(range(gpus), up)  # warms up
        best, rate = best_set(gpus, lambda some, up=up: links.rate(some, up))
        own = links.rate((0,), up)
        found[name] = {"links": list(best), "rate": rate, "own_link": own}
        print(f"{name}: GPUs {best} give {rate / 1e9:.1f} GB/s together, GPU 0 alone {own / 1e9:.1f}",
              flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"gpus": gpus, "name": torch.cuda.get_device_name(0), **found}, file)


if __name__ == "__main__":
    main()
