#!/usr/bin/env python3
"""What traces cost: `tracing_cost.py [--requests N] [--turns N] [--json FILE]`.

A server with `--otlp-endpoint` at a collector here, and one without, answer the same requests of
one token each in turns, over one connection. The collector is a process of its own that reads
nothing of what it is sent, and the model is tiny, so that little is told that is not the server's.
Told are requests a second and the server's processor time of each, which other work on the machine
changes less. CAUSEWAY_BINARY is the program.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, make_model
from tracing_test import Collector

# Threads of the model that spin for work would count as the server's.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
BODY = json.dumps({"model": "tiny", "prompt": "Once", "max_tokens": 1, "ignore_eos": True})


def processor_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class DeafCollector(Collector):
    def take(self, batch):
        pass


def exported(server):
    text = server.request("/metrics")[1]
    return int(float(re.search(r"^causeway:trace_spans_exported_total (\S+)$", text, re.M)[1]))


def ask(server, requests):
    """(requests a second, µs of the server's processor time for each)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    begin, used = time.monotonic(), processor_seconds(server.process)
    for _ in range(requests):
        connection.request("POST", "/v1/completions", BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
    took = time.monotonic() - begin
    connection.close()
    return requests / took, (processor_seconds(server.process) - used) / requests * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    seen = {"without": [], "traced": []}
    collector = DeafCollector()
    serving = multiprocessing.get_context("fork").Process(
        target=collector.server.serve_forever, daemon=True)
    serving.start()
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "tiny", layers=1)
        with RunningServer(model, *TINY_MEMORY, environment=ENVIRONMENT) as without, \
                RunningServer(model, *TINY_MEMORY, "--otlp-endpoint", collector.url,
                              environment=ENVIRONMENT) as traced:
            servers = {"without": without, "traced": traced}
            for server in servers.values():
                ask(server, settings.requests // 10)  # warm
            for turn in range(settings.turns):
                # Each is first as often as the other.
                for name in sorted(servers, reverse=turn % 2 == 1):
                    seen[name].append(ask(servers[name], settings.requests))
            time.sleep(2)  # what is queued is sent once a second
            told = settings.requests * settings.turns
            assert exported(traced) >= told, "spans are missing"
    serving.terminate()
    figures = {}
    for name, runs in seen.items():
        rate, used = zip(*runs)
        figures[name] = {"requests_per_second": statistics.median(rate),
                         "processor_us": statistics.median(used)}
        print(f"{name}: {statistics.median(rate):.0f} requests/s ({min(rate):.0f} to "
              f"{max(rate):.0f}), {statistics.median(used):.0f} µs of processor time each "
              f"({min(used):.0f} to {max(used):.0f})")
    if settings.json:
        settings.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
