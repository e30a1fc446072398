#!/usr/bin/env python3
"""What neighbours on other slices of a GPU cost a slice: time between its tokens, and its prompts.

One slice answers one client: alone, and beside one to three others that decode, compute prompts, or
bring weights. The models are those of `make-catalogue`; each has a slice of its own, since a model
goes to the first slice where nothing runs (--placement shared).
CAUSEWAY_BINARY and CAUSEWAY_TEST_DEVICE as in running_server.py.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import random
import re
import statistics
import tempfile
import threading
import time
from pathlib import Path

from running_server import RunningServer, run_causeway

SKIPPED = 8  # tokens at the begin of an answer, of which some steps run without a graph
SETTLE_SECONDS = 0.3  # until neighbours are under way
READY_SECONDS = 100
ANSWER = 2600  # tokens of a neighbour that decodes
MEMORY = ("--pool-memory-bytes", "40gb", "--weights-memory-bytes", "16gb",
          "--kv-cache-memory-bytes", "8gb")
TINY_MEMORY = ("--pool-memory-bytes", "256mb", "--weights-memory-bytes", "128mb",
               "--kv-cache-memory-bytes", "32mb", "--kv-frame-bytes", "64kb")


def prompt_of(tokens, vocab):
    """Random, so that no two share a prefix."""
    return [random.randrange(5, vocab) for _ in range(tokens)]


class Client:
    """Requests of one connection, one after the other."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def begin(self, model, prompt, answer):
        body = {"model": model, "prompt": prompt, "max_tokens": answer, "min_tokens": answer,
                "stream": True, "temperature": 0}
        self.connection.request("POST", "/v1/completions", json.dumps(body),
                                {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        assert response.status == 200, response.read()
        return response

    def times(self, model, prompt, answer):
        """When each token came, after the time of asking."""
        seen = [time.monotonic()]
        for line in self.begin(model, prompt, answer):
            if line.startswith(b"data: {"):
                seen.append(time.monotonic())
        return seen

    def close(self):
        self.connection.close()


def ask_on(port, model, prompt, answer, vocab, ended, tokens):
    """Asks one model without end, and counts tokens."""
    client = Client(port)
    with contextlib.suppress(OSError, http.client.HTTPException):
        while not ended.is_set():
            response = client.begin(model, prompt_of(prompt, vocab), answer)
            while not ended.is_set() and (read := response.read1(65536)):
                with tokens.get_lock():
                    tokens.value += read.count(b"data: {")
    client.close()


def neighbour(port, work, vocab, begun, ended, tokens):
    """A process: some clients of one model; or one that asks models in turn."""
    if work["kind"] == "load":
        client = Client(port)
        begun.set()
        while not ended.is_set():
            for model in work["models"]:
                if ended.is_set():
                    break
                client.times(model, prompt_of(16, vocab), 1)
                with tokens.get_lock():
                    tokens.value += 1
        return
    threads = [threading.Thread(target=ask_on, daemon=True, args=(
        port, work["model"], work["prompt"], work["answer"], vocab, ended, tokens))
        for _ in range(work["clients"])]
    for thread in threads:
        thread.start()
    begun.set()
    for thread in threads:
        thread.join()


class Neighbours:
    """While this lasts the works are under way, each in a process of its own."""

    def __init__(self, port, works, vocab):
        self.begun = [multiprocessing.Event() for _ in works]
        self.ended = multiprocessing.Event()
        self.tokens = [multiprocessing.Value("l", 0) for _ in works]
        self.processes = [
            multiprocessing.Process(target=neighbour, daemon=True,
                                    args=(port, work, vocab, begun, self.ended, tokens))
            for work, begun, tokens in zip(works, self.begun, self.tokens)]

    def __enter__(self):
        for process in self.processes:
            process.start()
        for begun in self.begun:
            begun.wait(10)
        if self.processes:
            time.sleep(SETTLE_SECONDS)
        return self

    def __exit__(self, *_):
        self.ended.set()
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.terminate()

    def counts(self):
        return [tokens.value for tokens in self.tokens]


def metrics(server):
    """Seconds in which devices ran steps, and bytes of weights over links."""
    text = server.request("/metrics")[1]
    found = {"busy": r"^causeway:device_busy_seconds_total\S* (\S+)",
             "bytes": r'^causeway:link_bytes_total\{direction="in",purpose="weights"\} (\S+)'}
    return {name: sum(map(float, re.findall(of, text, re.M))) for name, of in found.items()}


def watch(server, plan, vocab):
    """The gaps between tokens, or the times of prompts, of the watched model, in ms."""
    client, seen, each = Client(server.port), [], []
    if plan["watch"] == "prompts":
        for _ in range(plan["rounds"]):
            times = client.times(plan["model"], prompt_of(plan["context"], vocab), 1)
            seen.append(1000 * (times[1] - times[0]))
    else:
        for _ in range(plan["rounds"]):
            times = client.times(plan["model"], prompt_of(plan["context"], vocab), plan["tokens"])
            steady = times[1 + SKIPPED:]
            seen += [1000 * (b - a) for a, b in zip(steady, steady[1:])]
            each.append(1000 * (times[-1] - times[1]) / (plan["tokens"] - 1))
    client.close()
    # A busy server may send two tokens as one event, so that `each` alone counts all of them.
    return seen, statistics.fmean(each or seen)


def cold(port, models, rounds, vocab, rows):
    """First tokens of models in turn, more than fit, so that most are brought first."""
    client = Client(port)
    for _ in range(rounds):
        for model in models:
            times = client.times(model, prompt_of(16, vocab), 1)
            rows.append([model, 1000 * (times[1] - times[0])])
    client.close()


def measure_cold(server, slices, models, clients, vocab, rounds=3):
    """The first round is not counted: kernels, addresses and graphs are new then."""
    for counted in (1, rounds):
        seen = [[] for _ in range(clients)]
        threads = [threading.Thread(target=cold, args=(
            server.port, models[i::clients], counted, vocab, seen[i])) for i in range(clients)]
        before, began = metrics(server), time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, after = time.monotonic() - began, metrics(server)
    return {"slices": slices, "watch": "cold", "clients": clients, "seconds": took,
            "gb": (after["bytes"] - before["bytes"]) * 1e-9,
            "first_tokens": [one for rows in seen for one in rows]}


def measure(server, plan, vocab):
    works = list(plan["beside"])
    # What makes up the watched slice's batch beside the one that is watched.
    if plan["batch"] > 1:
        works.append({"kind": "decode", "model": plan["model"], "prompt": plan["context"],
                      "answer": ANSWER // 2, "clients": plan["batch"] - 1})
    with Neighbours(server.port, works, vocab) as neighbours:
        before, counts, began = metrics(server), neighbours.counts(), time.monotonic()
        seen, each = watch(server, plan, vocab)
        took = time.monotonic() - began
        after, counts_after = metrics(server), neighbours.counts()
    seen = sorted(seen) or [0]
    at = lambda share: seen[min(len(seen) - 1, int(share * len(seen)))]
    return {**plan, "n": len(seen), "median": statistics.median(seen),
            "mean": statistics.fmean(seen), "each": each,
            "p10": at(0.1), "p90": at(0.9), "p99": at(0.99),
            "seconds": took, "busy": (after["busy"] - before["busy"]) / took,
            "gb_per_s": (after["bytes"] - before["bytes"]) / took * 1e-9,
            "neighbours": [(b - a) / took for a, b in zip(counts, counts_after)]}


def beside(kind, count, models):
    if kind == "load":
        return [{"kind": "load", "models": models}]  # more than fit
    name, _, size = kind.partition(" ")
    if name == "decode":
        return [{"kind": "decode", "model": model, "prompt": 800, "answer": ANSWER,
                 "clients": int(size)} for model in models[:count]]
    return [{"kind": "prompts", "model": model, "prompt": int(size), "answer": 1, "clients": 2}
            for model in models[:count]]


def plans(slices, names, arguments):
    """What is measured with such slices. `names`: models by shape."""
    parts = int(slices.partition("x")[0]) if "x" in slices else 1

    def plan(shape, context=800, batch=1, kind="", count=0, watched="tokens"):
        model = names[shape][0]
        others = [name for name in names["neighbours"] if name != model]
        return {"slices": slices, "shape": shape, "model": model, "context": context,
                "batch": batch, "watch": watched, "kind": kind, "count": count,
                "rounds": arguments.prompts if watched == "prompts" else arguments.rounds,
                "tokens": arguments.tokens, "beside": beside(kind, count, others)}

    alone = [plan(shape, context) for shape in arguments.shapes for context in (100, 800, 2400)]
    alone += [plan(shape, context, watched="prompts") for shape in arguments.shapes[:2]
              for context in (200, 800, 2400)]
    if parts == 1:
        batches = [plan(shape, batch=batch) for shape in arguments.shapes[:2] for batch in (2, 4)]
        return alone + batches
    rows = alone
    for kind in ("decode 1", "decode 4", "prompts 800", "prompts 3000"):
        for count in range(1, parts):
            shapes = arguments.shapes if count == parts - 1 else arguments.shapes[:2]
            rows += [plan(shape, kind=kind, count=count) for shape in shapes]
    rows += [plan(shape, kind="load", count=1) for shape in arguments.shapes]
    for kind, count in (("decode 1", parts - 1), ("prompts 800", 1), ("prompts 800", parts - 1),
                        ("load", 1)):
        rows.append(plan(arguments.shapes[0], kind=kind, count=count, watched="prompts"))
    return rows


def cold_text(row):
    by_model = {}
    for model, took in row["first_tokens"]:
        by_model.setdefault(model, []).append(took)
    times = ", ".join(f"{model} {statistics.median(took):.1f}" for model, took in by_model.items())
    return (f"{row['slices']}: {row['clients']} ask models in turn: {row['gb']:.1f} GB in "
            f"{row['seconds']:.2f} s; first tokens, ms: {times}")


def text_of(row):
    what = f"{row['watch']} of {row['shape']}, {row['context']} tokens, batch {row['batch']}"
    others = f"beside {row['count']} x {row['kind']}" if row["kind"] else "alone"
    text = (f"{row['slices']}: {what}, {others}: median {row['median']:.3f} mean {row['mean']:.3f} "
            f"each {row['each']:.3f} "
            f"p10 {row['p10']:.3f} p90 {row['p90']:.3f} p99 {row['p99']:.3f} ms, "
            f"busy {row['busy']:.2f}, {row['gb_per_s']:.1f} GB/s")
    if row["neighbours"]:
        text += ", neighbours " + " ".join(f"{rate:.0f}" for rate in row["neighbours"]) + " /s"
    return text


def ready(server):
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        models = server.request("/v1/models")[1]["data"]
        if all(model["status"] == "ready" for model in models):
            return [model["id"] for model in models]
        time.sleep(0.1)
    raise AssertionError("models are not in host memory in time")


def names_of(models, shapes):
    """By shape; others that have the first slices to themselves."""
    names = {shape: [name for name in models if name.endswith(shape)] for shape in shapes}
    watched = {found[0] for found in names.values() if found}
    assert len(watched) == len(shapes), (models, shapes)
    names["neighbours"] = [name for name in models if name not in watched]
    return names


def measure_all(arguments, folder):
    rows = []
    memory = TINY_MEMORY if arguments.tiny else MEMORY
    vocab = 256 if arguments.tiny else 8000
    for slices in arguments.slices:
        with RunningServer("--models-dir", folder, *memory, "--slices", slices,
                           "--placement", "shared", "--max-queue", 8192) as server:
            names = names_of(ready(server), arguments.shapes)
            client = Client(server.port)
            for model in {name for found in names.values() for name in found}:
                client.times(model, prompt_of(100, vocab), 24)
            client.close()
            every = sorted({name for found in names.values() for name in found})
            for clients in (1, 2):
                rows.append(measure_cold(server, slices, every, clients, vocab))
                print(cold_text(rows[-1]), flush=True)
            for plan in plans(slices, names, arguments):
                rows.append(measure(server, plan, vocab))
                print(text_of(rows[-1]), flush=True)
                arguments.json.write_text(json.dumps(rows), encoding="utf-8")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", nargs="*", default=["4x32", "1x32", "all"])
    parser.add_argument("--shapes", nargs="*", default=["qwen3-0.8gb", "llama-1.2gb",
                                                        "qwen3-1.6gb"])
    parser.add_argument("--models", type=int, default=18, help="in the catalogue")
    parser.add_argument("--models-dir", type=Path, help="a catalogue that is there")
    parser.add_argument("--tokens", type=int, default=500, help="of a watched answer")
    parser.add_argument("--rounds", type=int, default=2, help="watched answers of a row")
    parser.add_argument("--prompts", type=int, default=60, help="watched prompts of a row")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.models_dir or Path(name) / "models"
        if not arguments.models_dir:
            made = run_causeway("make-catalogue", folder, "--models", arguments.models,
                                *(["--tiny"] if arguments.tiny else []), timeout=180)
            assert made.returncode == 0, made.stderr
        measure_all(arguments, folder)


if __name__ == "__main__":
    main()
