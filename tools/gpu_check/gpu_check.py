#!/usr/bin/env python3
"""Checks a machine with a GPU: every GPU test, compute-sanitizer, logits against transformers, the
OpenAI suite, then the figures beside their limits. One table, one JSON file.

Runs from a bundle (scripts/bundle) or from a build in place (build/release). What cannot be run is a
row `skip` with the reason. Exit status: 0; 1 when a test failed or found no time, or nothing ran.
"""

import argparse
import datetime
import os
import random
import shlex
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import machine
import report
from checks import Checks
from lanes import Gpus, Lanes
from part import INTERRUPTED, Progress, Row, run_part

FULL_SECONDS = 20 * 60
QUICK_SECONDS = 3 * 60
STRESS_SECONDS = 10
QUICK_STRESS_SECONDS = 4
RESERVE_SECONDS = 5  # for the table and the file
TESTS_SHARE = 0.75  # of the time at most, so that figures get some
LANES_MAX = 6
# Processors and memory of the host that a lane keeps busy: reference sums, a model in f32.
LANE_PROCESSORS = 3
LANE_GIB = 12
PHASES = ("alone", "lanes", "figures")
KINDS = ("tests", "figures")


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="fewer cases, sanitizers and figures: under 3 minutes instead of 20")
    parser.add_argument("--build", metavar="DIR", help="build folder whose bin/ to check "
                        "(default: the bundle's, or build/release)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("gpu-check"),
                        help="folder for logs and gpu-check.json (default: %(default)s)")
    parser.add_argument("--only", metavar="TEXT", action="append", default=[],
                        help="only parts whose name has TEXT; may be repeated")
    parser.add_argument("--what", choices=KINDS, help="tests or figures only, each with all of the time "
                        "(default: both)")
    parser.add_argument("--seed", type=int, help="of the tests; random unless given, and printed")
    parser.add_argument("--seconds", type=float, help="for the whole (default: 1200, quick 180)")
    parser.add_argument("--stress-seconds", type=float, metavar="N",
                        help="of random transfers (default: 10, quick 4); what is more comes on top "
                        "of the whole's time")
    parser.add_argument("--lanes", type=int, metavar="N", help="tests and sanitizers at once "
                        "(default: by processors and memory, at most %d; 1: one by one)" % LANES_MAX)
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    options = parser.parse_args()
    if options.lanes is not None and options.lanes < 1:
        parser.error("--lanes: at least 1")
    return options


def usual_lanes(processors, gib):
    """As many as the host keeps busy; at least one."""
    return max(1, min(LANES_MAX, processors // LANE_PROCESSORS, int(gib // LANE_GIB)))


def why_not(part, left, stopped):
    """The row of a part that is not run, or None."""
    if part.missing:
        return Row(part.name, part.missing, verdict="skip")
    if stopped:
        return Row(part.name, INTERRUPTED, verdict="fail" if part.is_test else "skip")
    if left < 2:
        return Row(part.name, "no time was left for it", verdict="fail" if part.is_test else "skip")
    return None


class Run:
    """One run of some parts. `lane_environment`: of parts that run beside others."""

    def __init__(self, folder, seconds, progress, lanes=1, gpus=None, lane_environment=None,
                 tests_share=TESTS_SHARE):
        self.folder = folder
        self.begin = time.monotonic()
        self.end = self.begin + seconds - RESERVE_SECONDS
        self.tests_end = min(self.end, self.begin + seconds * tests_share)
        self.progress = progress
        self.lanes = lanes
        self.gpus = gpus or Gpus()
        self.lane_environment = lane_environment or {}
        self.stop = threading.Event()
        self.phases = {}  # name → seconds

    def one(self, part, place):
        begin = time.monotonic()
        left = (self.tests_end if part.is_test else self.end) - begin
        row = why_not(part, left, self.stop.is_set())
        if row is not None:
            self.progress.say(f"{part.name}: {row.verdict}, {row.what}")
            return [row]
        rows = self.run(part, place, min(part.seconds, left))
        verdicts = {row.verdict for row in rows}
        worst = next(v for v in ("fail", "miss", "pass", "measured", "skip") if v in verdicts)
        self.progress.say(f"{part.name}: {worst} in {time.monotonic() - begin:.1f} s")
        for row in rows:
            row.values |= {"phase": place.phase, "lane": place.lane,
                           "began": round(begin - self.begin, 3)}
            if place.gpus:
                row.values["gpus"] = [gpu.name for gpu in place.gpus]
        return rows

    def run(self, part, place, seconds):
        environment = place.environment()
        if place.phase == "lanes":
            environment |= self.lane_environment
        try:
            return run_part(part, seconds, self.folder, self.stop, environment)
        except Exception as error:  # a part's fault must not end its lane, nor the others
            return [Row(part.name, f"gpu-check itself failed: {error!r}", verdict="fail")]

    def all(self, parts):
        """Tests that must be alone, the others in lanes, then figures; rows in the parts' order."""
        rows = {}
        for phase in PHASES:
            begin = time.monotonic()
            lanes = Lanes(phase, [part for part in parts if part.phase() == phase],
                          self.lanes if phase == "lanes" else 1, self.one,
                          self.gpus if phase == "lanes" else Gpus())
            rows |= lanes.run()
            self.phases[phase] = round(time.monotonic() - begin, 1)
        return [row for part in parts for row in rows[part.name]]


def choose(parts, only, what=None):
    """Parts named by some text of `only` and of the kind `what`, where these are given."""
    return [part for part in parts if (not only or any(text in part.name for text in only))
            and (what is None or part.is_test == (what == "tests"))]


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def stop_on_signals():
    """Set by them. What runs looks at it; an exception would come wherever the main thread happens
    to be."""
    stop = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda *_: stop.set())
    return stop


def check(options, folder, stop):
    places = machine.Places(options.build, folder)
    environment = places.environment()
    processors = machine.processors()
    lanes = options.lanes or usual_lanes(processors, machine.host_gib())
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    usual = QUICK_STRESS_SECONDS if options.quick else STRESS_SECONDS
    stress = options.stress_seconds or usual
    parts = choose(Checks(places, environment, options.quick, seed, stress).parts(), options.only,
                   options.what)
    if options.list:
        print("\n".join(f"{part.name} ({part.phase()})" for part in parts))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else FULL_SECONDS)
    seconds += max(0, stress - usual)
    facts = {"commit": places.commit(), "machine": machine.facts(places, environment),
             "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]), "seed": seed,
             "lanes": lanes, "begun": now()}
    progress = Progress(sys.stderr)
    progress.say(f"commit {facts['commit']}, {', '.join(facts['machine']['gpus']) or 'no GPU'}, "
                 f"--seed {seed}, {len(parts)} parts, {lanes} lanes, at most {seconds:g} s; "
                 f"logs in {options.out}/")
    # A test's threads share the processors with those of the other lanes.
    run = Run(options.out, seconds, progress, lanes, Gpus(machine.gpus()),
              {"OMP_NUM_THREADS": str(max(1, processors // lanes))},
              tests_share=TESTS_SHARE if options.what is None else 1)
    run.stop = stop
    rows = run.all(parts)
    facts |= {"ended": now(), "seconds": round(time.monotonic() - run.begin, 1), "phases": run.phases}
    report.write_json(options.out / "gpu-check.json", rows, facts)
    print(report.table(rows))
    spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in run.phases.items())
    print(f"\n{report.tally(rows)}; {facts['seconds']:.0f} s ({spent}); "
          f"{options.out / 'gpu-check.json'}")
    return 130 if run.stop.is_set() else exit_status(rows)


def exit_status(rows):
    """0 only when nothing failed and something passed."""
    verdicts = {row.verdict for row in rows}
    return 1 if "fail" in verdicts or not verdicts & {"pass", "measured", "miss"} else 0


def main():
    options = arguments()
    for stream in (sys.stdout, sys.stderr):  # "µs" must not end a run where the locale lacks it
        stream.reconfigure(errors="replace")
    stop = stop_on_signals()  # before bundles are unpacked and sanitizers tried, which takes a while
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        return check(options, Path(folder), stop)


if __name__ == "__main__":
    sys.exit(main())
