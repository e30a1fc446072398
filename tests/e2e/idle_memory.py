#!/usr/bin/env python3
"""What an idle server takes of memory: `idle_memory.py NAME=PROGRAM… [--turns N] [--json FILE]`.

Each program serves the same tiny model, in turns, with all of those options of OPTIONS that its
`serve --help` knows, and once without them; five seconds after the start its resident memory is
read (VmRSS, and of it what is no file's). A program of before such options is measured by itself.
CAUSEWAY_BINARY makes the model.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import running_server
from running_server import TINY_MEMORY, RunningServer, make_model

# Nothing listens at the collector's port: it costs an attempt a second, as an absent one does.
OPTIONS = (("--api-key", "key"), ("--admin-port", "0"), ("--admin-key", "key"),
           ("--allow-keep-alive",), ("--otlp-endpoint", "http://127.0.0.1:9"),
           ("--metrics-aliases", "vllm"), ("--trust-request-chat-template",),
           ("--response-store-bytes", "64mb"))
IDLE_SECONDS = 5


def known_options(program):
    text = subprocess.run([program, "serve", "--help"], capture_output=True, text=True,
                          check=True).stdout
    return [option for option in OPTIONS if re.search(rf"{option[0]}\b", text)]


def measure(program, model, options):
    """{"rss", "anonymous"} in MiB."""
    running_server.BINARY = program
    with RunningServer(model, *TINY_MEMORY, *options) as server:
        time.sleep(IDLE_SECONDS)
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        fields = {name: int(value) / 1024
                  for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.M)}
        return {"rss": fields["VmRSS"], "anonymous": fields["RssAnon"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "tiny")
        for _ in range(settings.turns):
            for name, program in (text.split("=", 1) for text in settings.programs):
                every = [part for option in known_options(program) for part in option]
                for what, options in (("all on", every), ("none on", [])):
                    taken = measure(os.path.abspath(program), model, options)
                    seen.setdefault(f"{name}, {what}", []).append(taken)
    figures = {}
    for name, all_taken in seen.items():
        figures[name] = {kind: {"median": statistics.median(one[kind] for one in all_taken),
                                "least": min(one[kind] for one in all_taken),
                                "most": max(one[kind] for one in all_taken)}
                         for kind in ("rss", "anonymous")}
        rss, own = figures[name]["rss"], figures[name]["anonymous"]
        print(f"{name}: VmRSS {rss['median']:.1f} MiB ({rss['least']:.1f} to {rss['most']:.1f}), "
              f"no file's {own['median']:.1f} ({own['least']:.1f} to {own['most']:.1f})")
    if settings.json:
        settings.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
