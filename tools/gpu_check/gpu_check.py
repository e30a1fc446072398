#!/usr/bin/env python3
"""Checks a machine with a GPU: every GPU test, compute-sanitizer, logits against transformers, the
OpenAI suite, then the figures beside their limits. One table, one JSON file.

Runs from a bundle (scripts/bundle) or from a build in place (build/release). What cannot be run is a
row `skip` with the reason. Exit status: 0; 1 when a test failed or found no time, or nothing ran.
"""

import argparse
import concurrent.futures
import datetime
import os
import random
import shlex
import sys
import tempfile
import threading
import time
from pathlib import Path

import machine
import report
from checks import Checks
from part import Progress, Row, run_part

FULL_SECONDS = 9 * 60
QUICK_SECONDS = 3 * 60
STRESS_SECONDS = 10
QUICK_STRESS_SECONDS = 4
RESERVE_SECONDS = 5  # for the table and the file
TESTS_SHARE = 0.75  # of the time at most, so that figures get some
TESTS_AT_ONCE = 4


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="fewer cases, sanitizers and figures: under 3 minutes instead of 9")
    parser.add_argument("--build", metavar="DIR", help="build folder whose bin/ to check "
                        "(default: the bundle's, or build/release)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("gpu-check"),
                        help="folder for logs and gpu-check.json (default: %(default)s)")
    parser.add_argument("--only", metavar="TEXT", action="append", default=[],
                        help="only parts whose name has TEXT; may be repeated")
    parser.add_argument("--seed", type=int, help="of the tests; random unless given, and printed")
    parser.add_argument("--seconds", type=float, help="for the whole (default: 540, quick 180)")
    parser.add_argument("--stress-seconds", type=float, metavar="N",
                        help="of random transfers (default: 10, quick 4); what is more comes on top "
                        "of the whole's time")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    return parser.parse_args()


def why_not(part, left):
    """The row of a part that is not run, or None."""
    if part.missing:
        return Row(part.name, part.missing, verdict="skip")
    if left < 2:
        return Row(part.name, "no time was left for it", verdict="fail" if part.is_test else "skip")
    return None


class Run:
    def __init__(self, folder, seconds, progress):
        self.folder = folder
        self.end = time.monotonic() + seconds - RESERVE_SECONDS
        self.tests_end = time.monotonic() + seconds * TESTS_SHARE
        self.progress = progress
        self.stop = threading.Event()

    def one(self, part):
        left = (self.tests_end if part.is_test else self.end) - time.monotonic()
        row = why_not(part, left)
        if row is not None:
            self.progress.say(f"{part.name}: {row.verdict}, {row.what}")
            return [row]
        begin = time.monotonic()
        rows = run_part(part, min(part.seconds, left), self.folder, self.stop)
        verdicts = {row.verdict for row in rows}
        worst = next(v for v in ("fail", "miss", "pass", "measured", "skip") if v in verdicts)
        self.progress.say(f"{part.name}: {worst} in {time.monotonic() - begin:.1f} s")
        return rows

    def all(self, parts):
        """Tests that must be alone, the others some at a time, then figures; rows in the parts'
        order."""
        rows = {part.name: self.one(part) for part in parts if part.alone and part.is_test}
        with concurrent.futures.ThreadPoolExecutor(TESTS_AT_ONCE) as pool:
            futures = {pool.submit(self.one, p): p.name for p in parts if not p.alone}
            try:
                for future in concurrent.futures.as_completed(futures):
                    rows[futures[future]] = future.result()
            except KeyboardInterrupt:
                self.stop.set()
                raise
        for part in parts:
            if part.name not in rows:
                rows[part.name] = self.one(part)
        return [row for part in parts for row in rows[part.name]]


def choose(parts, only):
    return [part for part in parts if not only or any(text in part.name for text in only)]


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def check(options, folder):
    places = machine.Places(options.build, folder)
    environment = places.environment()
    environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // TESTS_AT_ONCE))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    usual = QUICK_STRESS_SECONDS if options.quick else STRESS_SECONDS
    stress = options.stress_seconds or usual
    parts = choose(Checks(places, environment, options.quick, seed, stress).parts(), options.only)
    if options.list:
        print("\n".join(part.name for part in parts))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else FULL_SECONDS)
    seconds += max(0, stress - usual)
    facts = {"commit": places.commit(), "machine": machine.facts(places, environment),
             "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]), "seed": seed,
             "begun": now()}
    progress = Progress(sys.stderr)
    progress.say(f"commit {facts['commit']}, {', '.join(facts['machine']['gpus']) or 'no GPU'}, "
                 f"--seed {seed}, {len(parts)} parts, at most {seconds:g} s; logs in {options.out}/")
    begin = time.monotonic()
    rows = Run(options.out, seconds, progress).all(parts)
    facts |= {"ended": now(), "seconds": round(time.monotonic() - begin, 1)}
    report.write_json(options.out / "gpu-check.json", rows, facts)
    print(report.table(rows))
    print(f"\n{report.tally(rows)}; {facts['seconds']:.0f} s; {options.out / 'gpu-check.json'}")
    return exit_status(rows)


def exit_status(rows):
    """0 only when nothing failed and something passed."""
    verdicts = {row.verdict for row in rows}
    return 1 if "fail" in verdicts or not verdicts & {"pass", "measured", "miss"} else 0


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        return check(options, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
