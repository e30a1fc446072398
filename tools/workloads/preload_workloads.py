#!/usr/bin/env python3
"""MMA's two workloads in unmodified PyTorch programs, without and with libcauseway-preload.so: sleep and
wake of models (sleep_wake.py), fetching the KV of long prefixes (kv_fetch.py).

    tools/workloads/preload_workloads.py --library build/release/lib/libcauseway-preload.so

Each program runs bare and with the library in alternation, `--rounds` times; the programs repeat each
transfer and verify every byte. The table has medians of all repetitions, beside the limit: bytes over the
rate of the best set of links, measured by plain copies in the same run (limits.py). Needs torch. On a
machine of two GPUs `--rounds 1 --repeat 2` is to take less than two minutes with all models.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import shapes

HERE = Path(__file__).resolve().parent
CHILD_SECONDS = 300
DIRECTION = {"sleep": "D2H", "store": "D2H", "wake": "H2D", "fetch": "H2D"}
HEADINGS = ("workload", "what", "phase", "GB", "bare ms", "preloaded ms", "speed-up", "GB/s",
            "limit ms", "of limit")


class Failed(Exception):
    """A program failed; its words say how."""


def run_child(script, arguments, environment, out):
    """What a program wrote to its --json file. Its lines are shown."""
    command = [sys.executable, str(HERE / script), *map(str, arguments), "--json", str(out)]
    try:
        done = subprocess.run(command, env={**os.environ, **environment}, text=True,
                              timeout=CHILD_SECONDS, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{script} did not end within {CHILD_SECONDS} s: "
                     f"{(error.stdout or b'').decode(errors='replace')[-300:]}") from error
    for line in done.stdout.splitlines():
        print(f"    {line}", flush=True)
    if done.returncode != 0:
        raise Failed(f"{script} ended with exit status {done.returncode}")
    return json.loads(Path(out).read_text(encoding="utf-8"))


def preloaded_environment(options, folder, script, round_number):
    settings = dict(word.split("=", 1) for word in options.set)
    account = folder / f"statistics-{Path(script).stem}-{round_number}"
    # The linker cuts LD_PRELOAD at spaces, which LD_LIBRARY_PATH may have.
    folders = [str(options.library.parent), os.environ.get("LD_LIBRARY_PATH")]
    return {"LD_PRELOAD": options.library.name, "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
            "CAUSEWAY_STATISTICS": str(account), **settings}


def programs(options):
    """[(script, arguments)]"""
    common = ["--repeat", options.repeat]
    common += ["--models", *options.models] if options.models else []
    made = []
    for how in options.sleep_how if "sleep" in options.only else []:
        made.append(("sleep_wake.py", ["--how", how, *common]))
    for how in options.kv_how if "kv" in options.only else []:
        made.append(("kv_fetch.py", ["--how", how, "--tokens", *options.tokens, *common]))
    return made


def alternate(options, folder, child=run_child):
    """(workload, what, phase) → {"bytes", "bare": [s], "preloaded": [s]}. Rounds begin with the bare
    program and with the preloaded one in turn."""
    found, begin = {}, time.monotonic()
    for script, arguments in programs(options):
        for round_number in range(options.rounds):
            modes = ["bare"] + (["preloaded"] if options.library else [])
            for mode in modes if round_number % 2 == 0 else reversed(modes):
                spent = time.monotonic() - begin
                if spent > options.limit:
                    print(f"{script} {mode}, round {round_number}: no time was left for it")
                    continue
                print(f"[{spent:4.0f} s] {script} {mode}, round {round_number}", flush=True)
                environment = ({} if mode == "bare" else
                               preloaded_environment(options, folder, script, round_number))
                rows = child(script, arguments, environment, folder / "rows.json")
                for row in rows:
                    key = (row["workload"], row["what"], row["phase"])
                    kept = found.setdefault(key, {"bytes": row["bytes"], "bare": [], "preloaded": []})
                    kept[mode] += row["seconds"]
    return found


def table_rows(found, limits):
    """A dictionary for each line of the table; times in seconds."""
    made = []
    for (workload, what, phase), kept in found.items():
        if not kept["bare"]:
            continue
        row = {"workload": workload, "what": what, "phase": phase, "bytes": kept["bytes"],
               "samples": {mode: kept[mode] for mode in ("bare", "preloaded")}}
        for mode in ("bare", "preloaded"):
            row[mode] = statistics.median(kept[mode]) if kept[mode] else None
        best = row["preloaded"] or row["bare"]
        row["speed_up"] = row["bare"] / row["preloaded"] if row["preloaded"] else None
        row["rate"] = kept["bytes"] / best
        row["limit"] = kept["bytes"] / limits[DIRECTION[phase]]["rate"] if limits else None
        row["of_limit"] = row["limit"] / best if limits else None
        made.append(row)
    return made


def table(rows):
    def number(value, scale, form):
        return "" if value is None else format(value * scale, form)
    lines = [HEADINGS]
    for row in rows:
        lines.append((row["workload"], row["what"], row["phase"], number(row["bytes"], 1e-9, ".2f"),
                      number(row["bare"], 1e3, ".1f"), number(row["preloaded"], 1e3, ".1f"),
                      number(row["speed_up"], 1, ".2f"), number(row["rate"], 1e-9, ".1f"),
                      number(row["limit"], 1e3, ".1f"), number(row["of_limit"], 1, ".2f")))
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) if i < 3 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)


def accounts(folder):
    """What the library said it did, by program and round."""
    return {path.name.removeprefix("statistics-"): path.read_text(errors="replace").splitlines()
            for path in sorted(folder.glob("statistics-*"))}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, metavar="SO", help="libcauseway-preload.so; without it "
                        "only the bare programs run")
    parser.add_argument("--only", nargs="*", choices=("sleep", "kv"), default=["sleep", "kv"])
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME",
                        help=f"of {', '.join(shapes.MODELS)}; default: the paper's for each workload")
    parser.add_argument("--tokens", nargs="*", type=int, default=list(shapes.KV_TOKENS))
    parser.add_argument("--sleep-how", nargs="*", choices=("allocator", "tensors"),
                        default=["allocator"], help="see sleep_wake.py (default: %(default)s)")
    parser.add_argument("--kv-how", nargs="*", choices=("layers", "chunks"), default=["layers"],
                        help="see kv_fetch.py (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="of a transfer in a program")
    parser.add_argument("--rounds", type=int, default=2, help="of each program in both ways")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS",
                        help="begin no program after that; the table has what there is")
    parser.add_argument("--set", nargs="*", default=["CAUSEWAY_OPEN=wait", "CAUSEWAY_ASYNC=wait"],
                        metavar="NAME=VALUE",
                        help="variables of the preloaded programs (default: %(default)s)")
    parser.add_argument("--no-limits", action="store_true", help="do not measure the links")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all times, limits, statistics")
    options = parser.parse_args()
    if options.library is not None:
        options.library = options.library.resolve()
        if not options.library.exists():
            parser.error(f"no library {options.library}")
    if any("=" not in word for word in options.set):
        parser.error("--set takes NAME=VALUE")
    return options


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            limits = None if options.no_limits else run_child("limits.py", [], {},
                                                              folder / "limits.json")
            rows = table_rows(alternate(options, folder), limits)
        except Failed as error:
            print(f"error: {error}")
            return 1
        print(table(rows))
        for program, lines in accounts(folder).items():
            print(f"{program}: {'; '.join(lines)}")
        if options.json:
            options.json.write_text(json.dumps(
                {"command": sys.argv, "limits": limits, "rows": rows, "accounts": accounts(folder)},
                indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
