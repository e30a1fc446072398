#!/usr/bin/env python3
"""A catalogue of many models, served by a whole GPU and by slices, and asked in Zipf's order.

Writes figures as `causeway bench` does: who kept the targets, and how long the slowest waited. With
--kind the models are mixtures of experts, or some of them. With --list the requests are a trace's.
With --simulated also how far the simulator is from that. With --baseline also on the first of the
slices with other options, such as "--switching reload" or "--isolate". With --kills also from a
worker process that is killed (kill -9) so often meanwhile: how long it took to serve again, and each
part of that. With --keep the reports of `causeway replay` stay in a folder, and the log of the
server whose workers were killed as killed.log.
CAUSEWAY_BINARY and CAUSEWAY_TEST_DEVICE as in running_server.py.
"""

import argparse
import json
import os
import re
import shlex
import signal
import statistics
import tempfile
import threading
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, run_causeway

TTFT_MS, TPOT_MS = 1000, 100
WANTED = {"first token within 1 s": 99, "tokens within 100 ms": 95, "answered": 100}
KILLED = ("--isolate", "--scheduling-policy", "rotary", "--kv-host-memory-bytes")
KILLED_KV = ("8gb", "8mb")  # --tiny
# What the server's log says of a worker that is back; docs/design/worker.md.
AGAIN = re.compile(
    r"the worker of .* is open again (?P<all>\d+) ms.* after it was lost: "
    r"end of the old process (?P<end>\d+) ms, "
    r"beside it start (?P<start>\d+) ms and "
    r"preparing (?P<prepare>\d+) ms, waiting for that end (?P<wait>\d+) ms, "
    r"opening (?P<open>\d+) ms")
ATTACHED = re.compile(r"the worker of .* has its first model attached (?P<attached>\d+) ms after")
PARTS = {"all": "its slices are open again", "end": "end of the old process",
         "start": "start of the new one, beside it", "prepare": "preparing, beside it",
         "wait": "waiting for the old one's end", "open": "opening slices",
         "attached": "then, first model registered and attached"}
READY_SECONDS = 100  # until all models are in host memory
AGAIN_MS = 2000  # wanted, beside the first model's registration and arrival


class Killer:
    """Kills the server's only worker so often, while the replay of so many seconds runs."""

    def __init__(self, server, kills, seconds):
        self.server, self.kills, self.pause = server, kills, seconds / (kills + 1)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def run(self):
        while not self.ended.wait(0.2) and not self.ready():
            pass
        for _ in range(self.kills):
            if self.ended.wait(self.pause):
                return
            for worker in self.server.workers():
                os.kill(worker, signal.SIGKILL)

    def ready(self):
        models = self.server.request("/v1/models")[1]["data"]
        return all(model["status"] == "ready" for model in models)


def asked(arguments):
    """The list of requests, of a server and of the simulator."""
    targets = ("--seconds", arguments.seconds, "--slo-ttft-ms", TTFT_MS, "--slo-tpot-ms", TPOT_MS)
    if arguments.list:
        return (*shlex.split(arguments.list), *targets)
    return ("--rate", arguments.rate, "--zipf", 1, "--input-len", 256, "--output-len", 48, *targets)


def slice_memory(arguments):
    """Of a whole GPU."""
    return ("--weights-memory-bytes", arguments.weights, "--kv-cache-memory-bytes", arguments.kv)


def read_report(arguments, report, name):
    """The report, which --keep has stay under this name."""
    text = report.read_text(encoding="utf-8")
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        file = re.sub(r"[^\w.-]+", "_", f"{arguments.kind} {name}").strip("_")
        (arguments.keep / f"{file}.json").write_text(text, encoding="utf-8")
    return json.loads(text)


def simulated(arguments, folder, slices):
    """The report of the same replay in virtual time."""
    report = folder / "simulated.json"
    done = run_causeway("replay", "--simulate", "--hardware", arguments.simulated, "--models-dir",
                        folder / "models", "--slices", slices, *slice_memory(arguments),
                        *asked(arguments), "--json", report, timeout=100)
    assert done.returncode == 0, done.stderr
    return read_report(arguments, report, f"{slices} simulated")


def replay(arguments, folder, slices, more=(), kills=0):
    """The report of `causeway replay` on a server with these slices, and the server's log."""
    memory = TINY_MEMORY if arguments.tiny else (
        "--pool-memory-bytes", arguments.pool, *slice_memory(arguments))
    report = folder / "replay.json"
    with RunningServer("--models-dir", folder / "models", *memory, "--slices", slices,
                       "--max-queue", 8192, *more) as server:
        with Killer(server, kills, arguments.seconds):
            done = run_causeway(
                "replay", "--url", server.url, "--wait-ready", READY_SECONDS, *asked(arguments),
                "--vocab-size", 256, "--request-timeout", 20, "--json", report,
                timeout=arguments.seconds + READY_SECONDS + 40)
    assert done.returncode == 0, done.stderr
    return read_report(arguments, report, " ".join((slices, *map(str, more)))), server.log


def figure(what, unit, measured, wanted=0, at_least=True):
    met = measured >= wanted if at_least or not wanted else measured <= wanted
    return {"what": what, "unit": unit, "measured": measured, "limit": 0, "limit_name": "",
            "wanted": wanted, "at_least": at_least, "met": met}


def figures(report, slices):
    seen = report["all"]
    shares = {"first token within 1 s": seen["ttft_attained"],
              "tokens within 100 ms": seen["tpot_attained"],
              "answered": 1 - seen["failed"] / seen["requests"]}
    rows = [figure(f"{what}, {slices}", "%", 100 * share, WANTED[what])
            for what, share in shares.items()]
    for name, times in (("first token", seen["ttft_ms"]), ("time per token", seen["tpot_ms"])):
        rows.append(figure(f"{name}, p99, {slices}", "ms", times["p99"]))
    rows.append(figure(f"requests a second, {slices}", "/s", seen["requests"] / report["duration_s"]))
    return rows


def simulation(measured, foreseen, slices):
    """How much more, or less, the simulator says."""
    def row(what, more, less):
        return figure(f"simulated, {what}, {slices}: beside measured", "%",
                      100 * (more / less - 1) if less else 0)
    times = [(f"first token, {share}", foreseen["all"]["ttft_ms"][share],
              measured["all"]["ttft_ms"][share]) for share in ("p50", "p99")]
    switches = [report["counters"].get("switches", 0) for report in (foreseen, measured)]
    return [row(*one) for one in (*times, ("switches", *switches))]


def of_kind(arguments, what):
    return what if arguments.kind == "dense" else f"{what}, {arguments.kind}"


def baseline(rows):
    """What others do has no bar to keep."""
    return [{**row, "wanted": 0, "met": True} for row in rows]


def restarts(arguments, folder):
    """Of a worker that is killed: what its log lines say, the median and the worst."""
    kv_host = KILLED_KV[1 if arguments.tiny else 0]
    report, log = replay(arguments, folder, "all", (*KILLED, kv_host), arguments.kills)
    if arguments.keep:
        (arguments.keep / "killed.log").write_text("".join(log), encoding="utf-8")
    seen = report["all"]
    if seen["failed"]:
        print(f"{seen['failed']} failed: {report['errors']}; the first: {seen['first_error']}")
    rows = [figure(f"answered, {arguments.kills} kills", "%",
                   100 * (1 - seen["failed"] / seen["requests"]), 100)]
    times = {part: [] for part in PARTS}
    for line in log:
        found = AGAIN.search(line) or ATTACHED.search(line)
        for part, milliseconds in (found.groupdict() if found else {}).items():
            times[part].append(float(milliseconds))
    assert times["all"], "no worker came back:\n" + "".join(log[-20:])
    for part, what in PARTS.items():
        wanted = AGAIN_MS if part == "all" else 0
        for name, of in (("median", statistics.median), ("most", max)):
            measured = of(times[part]) if times[part] else 0
            rows.append(figure(f"killed: {what}, {name} of {len(times[part])}", "ms", measured,
                               wanted if name == "median" else 0, at_least=False))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=87)
    parser.add_argument("--kind", choices=("dense", "moe", "mixed"), default="dense")
    parser.add_argument("--pool", default="96gb", help="host memory for all models")
    parser.add_argument("--weights", default="16gb", help="HBM for weights, of all slices")
    parser.add_argument("--kv", default="8gb", help="HBM for KV, of all slices")
    parser.add_argument("--list", metavar="OPTIONS", help="of causeway replay, which say what is "
                        "asked, instead of --rate and Zipf's order")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="for the reports of the replays")
    parser.add_argument("--tiny", action="store_true", help="models of a few hundred KB")
    parser.add_argument("--slices", nargs="*", default=["all"])
    parser.add_argument("--simulated", metavar="HARDWARE", help="the simulator's profile")
    parser.add_argument("--baseline", metavar="OPTIONS", action="append", default=[],
                        help="of the server, with the first of the slices; may be repeated")
    parser.add_argument("--kills", type=int, default=0, help="of a worker, in a replay of its own")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = run_causeway("make-catalogue", folder / "models", "--models", arguments.models,
                            "--kind", arguments.kind, *(["--tiny"] if arguments.tiny else []),
                            timeout=180)
        assert made.returncode == 0, made.stderr
        for slices in arguments.slices:
            report = replay(arguments, folder, slices)[0]
            rows += figures(report, of_kind(arguments, slices))
            if arguments.simulated:
                foreseen = simulated(arguments, folder, slices)
                rows += simulation(report, foreseen, of_kind(arguments, slices))
        for options in arguments.baseline:
            report = replay(arguments, folder, arguments.slices[0], options.split())[0]
            of = of_kind(arguments, f"{arguments.slices[0]} {options}")
            rows += baseline(figures(report, of))
        if arguments.kills:
            rows += restarts(arguments, folder)
    for row in rows:
        print(f"{row['what']}: {row['measured']:.2f} {row['unit']}")
    arguments.json.write_text(json.dumps({"bench": "fleet", "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
