#!/usr/bin/env python3
"""A catalogue of many models, served by a whole GPU and by slices, and asked in Zipf's order.

Writes figures as `causeway bench` does: who kept the targets, and how long the slowest waited.
CAUSEWAY_BINARY and CAUSEWAY_TEST_DEVICE as in running_server.py.
"""

import argparse
import json
import tempfile
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, run_causeway

TTFT_MS, TPOT_MS = 1000, 100
WANTED = {"first token within 1 s": 99, "tokens within 100 ms": 95, "answered": 100}
MEMORY = ("--pool-memory-bytes", "96gb", "--weights-memory-bytes", "16gb",
          "--kv-cache-memory-bytes", "8gb")


def replay(arguments, folder, slices):
    """The report of `causeway replay` on a server with these slices."""
    memory = TINY_MEMORY if arguments.tiny else MEMORY
    report = folder / "replay.json"
    with RunningServer("--models-dir", folder / "models", *memory, "--slices", slices,
                       "--max-queue", 8192) as server:
        done = run_causeway(
            "replay", "--url", server.url, "--wait-ready", 100, "--rate", arguments.rate,
            "--seconds", arguments.seconds, "--zipf", 1, "--input-len", 256, "--output-len", 48,
            "--vocab-size", 256, "--slo-ttft-ms", TTFT_MS, "--slo-tpot-ms", TPOT_MS,
            "--request-timeout", 20, "--json", report, timeout=arguments.seconds + 140)
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text(encoding="utf-8"))


def figure(what, unit, measured, wanted=0):
    return {"what": what, "unit": unit, "measured": measured, "limit": 0, "limit_name": "",
            "wanted": wanted, "at_least": True, "met": measured >= wanted}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=87)
    parser.add_argument("--tiny", action="store_true", help="models of a few hundred KB")
    parser.add_argument("--slices", nargs="+", default=["all"])
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = run_causeway("make-catalogue", folder / "models", "--models", arguments.models,
                            *(["--tiny"] if arguments.tiny else []), timeout=120)
        assert made.returncode == 0, made.stderr
        for slices in arguments.slices:
            rows += figures(replay(arguments, folder, slices), slices)
    for row in rows:
        print(f"{row['what']}: {row['measured']:.2f} {row['unit']}")
    arguments.json.write_text(json.dumps({"bench": "fleet", "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
