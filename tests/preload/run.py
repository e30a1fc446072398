#!/usr/bin/env python3
"""Runs unmodified CUDA programs without and with libcauseway-preload.so: with it they must be as right
as without. Every byte is checked by the programs themselves (program.h). Standard library only.

    tests/preload/run.py --programs build/release/bin [--library build/release/lib/libcauseway-preload.so]

Exit code 77: no GPU. Tests that need the library, the shared CUDA runtime or a second GPU are skipped with
the reason where it is missing. Every program is also run with the library under other settings: small
chunks and a low threshold, so that everything is cut up; each way with asynchronous copies; a kernel
instead of a wait as the stand-in; the first copies while the library is still opening.
"""

import argparse
import concurrent.futures
import os
import re
import sys
import tempfile
import threading
import unittest
from dataclasses import replace
from pathlib import Path

import programs
from programs import Setup

ALL_KINDS = ("shared", "alone", "exclusive")
# Of a library that is ready when the first copy begins.
READY = {"CAUSEWAY_OPEN": "wait"}
WAIT = {**READY, "CAUSEWAY_ASYNC": "wait"}
HOLD = {**READY, "CAUSEWAY_ASYNC": "hold"}
SMALL = {**WAIT, "CAUSEWAY_THRESHOLD": "256K", "CAUSEWAY_CHUNK": "512K"}
KERNEL = {**HOLD, "CAUSEWAY_ORDER": "kernel"}
# Cases whose words must be those of the bare program.
SAME_WORDS = ("errors_are_the_same", "oversized_copies_are_refused", "state_is_left_alone", "no_context")
# Judge what the library costs or bears, or take long: once bare, once with the library's defaults, once
# where it holds streams.
ONCE = ("copies_wait_long_for_their_start", "calls_wait_for_late_copies", "huge_copy",
        "copying_costs_little", "idle_costs_nothing", "relays_without_memory",
        "little_memory_of_other_gpus")
# Holes that docs/design/preload.md has under "Known holes": setup → case → what it says.
KNOWN = {"runtime_shared_legacy_kernel":
         {"host_function_waits_for_copy": "a copy waited for another stream's host function"}}
# Some of each kind: for quick runs.
QUICK_CASES = ("async_copies", "sync_copies", "both_directions", "kernel_before", "kernel_after",
               "events_behind_copies", "calls_return_at_once", "independent_streams_progress",
               "host_function_between_copies", "host_function_waits_for_copy", "legacy_stream",
               "pageable", "virtual_memory_sleeps_and_wakes", "batch_of_large_segments",
               "captured_copies", "capture_beside_copies", "threads_with_own_streams",
               "memory_is_freed_during_copies", "streams_are_destroyed_with_work",
               "directed_async", "unified_sync", "batch")


class Plan:
    """All setups, in pairs: (setup of the bare program, or None; setup with the library)."""

    def __init__(self, options):
        self.options = options
        self.setups = []
        self.bare_of = {}  # name of a setup with the library → that of the bare program
        self.quick = options.quick
        for runtime in ("shared", "static"):
            for stream in ("legacy", "ptds"):
                self.runtime_setups(runtime, stream)
        for way in ("dlsym", "dlsym-ptds", "proc", "proc-ptds", "linked"):
            self.driver_setups(way)
        self.stress_setups()

    def add(self, name, program, library=None, bare="", **more):
        """`library`: settings of the preload library, None for the bare program."""
        environment = {**more.pop("environment", {})}
        if library is not None:
            environment.update(library, **programs.preloading(self.options.library),
                               CAUSEWAY_STATISTICS=str(self.options.folder / name / "%p"))
            self.bare_of[name] = bare
        if self.quick:
            more["kinds"], more["only"] = ("shared",), QUICK_CASES
        self.setups.append(Setup(name, self.options.programs / program, environment,
                                 known=KNOWN.get(name, {}), **more))

    def runtime_setups(self, runtime, stream):
        # Exits, forks and the like do not depend on how stream 0 behaves.
        kinds = ALL_KINDS if stream == "legacy" else ("shared",)
        program, name = f"preload_runtime_{runtime}_{stream}", f"runtime_{runtime}_{stream}"
        if self.quick and name != "runtime_shared_legacy":
            return
        lazy = {"CUDA_MODULE_LOADING": "LAZY"} if runtime == "static" else {}
        with_all = name == "runtime_shared_legacy"
        self.add(f"{name}_bare", program, kinds=kinds, environment=lazy,
                 without=() if with_all else ONCE)
        settings = {"shared_legacy": {"preloaded": READY, "small_chunks": SMALL, "kernel": KERNEL,
                                      "wait": WAIT, "hold": HOLD, "opening": {}},
                    "static_legacy": {"preloaded": READY, "small_chunks": SMALL},
                    "shared_ptds": {"small_chunks": SMALL},
                    "static_ptds": {"preloaded": READY}}[f"{runtime}_{stream}"]
        for what, library in settings.items():
            # Processes of their own once for each runtime; where streams are held, once by each order.
            of_kind = kinds if what in ("preloaded", "hold", "kernel") else ("shared",)
            self.add(f"{name}_{what}", program, library, f"{name}_bare", kinds=of_kind,
                     environment=lazy,
                     without=() if with_all and what in ("preloaded", "hold") else ONCE)

    def driver_setups(self, way):
        if self.quick and way != "proc":
            return
        program = "preload_driver_linked" if way == "linked" else "preload_driver_found"
        name = f"driver_{way.replace('-', '_')}"
        # How a process ends does not depend on how stream 0 behaves.
        kinds = ("shared",) if way.endswith("-ptds") else ("shared", "alone")
        more = {"kinds": kinds, "environment": {"PROGRAM_DRIVER": way}}
        self.add(f"{name}_bare", program, **more)
        self.add(f"{name}_preloaded", program, READY, f"{name}_bare", **more)

    def stress_setups(self):
        if self.quick:
            return
        more = {"kinds": ("alone",), "only": ("stress",),
                "arguments": ("--seconds", str(self.options.seconds), "--seed",
                              str(self.options.seed))}
        self.add("stress_bare", "preload_runtime_shared_legacy", **more)
        for name, library in (("preloaded", READY), ("small_chunks", SMALL), ("hold", HOLD),
                              ("kernel", KERNEL)):
            self.add(f"stress_{name}", "preload_runtime_shared_legacy", library, "stress_bare", **more)
        self.add("stress_two_processes", "preload_runtime_static_ptds", SMALL, "stress_bare", copies=2,
                 **more)


class Results:
    """Runs everything, some at a time; name of a setup → {case: Outcome}."""

    def __init__(self, plan, options):
        self.options = options
        self.skipped = {}  # name of a setup → why
        self.outcomes = {}
        self.lock = threading.Lock()
        self.watch = programs.Stopwatch()
        self.run(plan)

    def why_not(self, setup):
        if not setup.program.exists():
            return f"{setup.program.name} was not built"
        if "LD_PRELOAD" in setup.environment and self.options.library_missing:
            return self.options.library_missing
        if "_shared_" in setup.program.name and self.options.runtime_missing:
            return self.options.runtime_missing
        return ""

    def run(self, plan):
        work, exclusive = [], []  # (setup, cases, how)
        for setup in plan.setups:
            self.outcomes[setup.name] = {}
            if self.options.only and not any(text in setup.name for text in self.options.only):
                self.skipped[setup.name] = "not asked for"
            elif reason := self.why_not(setup):
                self.skipped[setup.name] = reason
            else:
                (self.options.folder / setup.name).mkdir()
                cases = setup.cases()
                shared = [case for case in cases if case.how == "shared"]
                work += [(setup, shared)] if shared else []
                work += [(setup, [case]) for case in cases if case.how == "alone"]
                exclusive += [(setup, [case]) for case in cases if case.how == "exclusive"]
        work = programs.longest_first(work)
        for setup, cases in exclusive:
            self.one(setup, cases, 0)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(lambda indexed: self.one(*indexed[1], indexed[0]), enumerate(work)))

    def one(self, setup, cases, index):
        """`index`: of the process, to choose its first GPU."""
        watch = programs.Stopwatch()
        visible = programs.turned(os.environ.get("CUDA_VISIBLE_DEVICES"), index)
        setup = replace(setup, environment={**visible, **setup.environment})
        if self.watch.seconds() > self.options.limit:
            with self.lock:
                self.outcomes[setup.name].update(
                    {case.name: programs.Outcome("wrong", "no time was left for it") for case in cases})
            return
        if cases[0].how == "shared":
            made = programs.run_shared(setup, cases)
        else:
            made = {cases[0].name: programs.run_alone(setup, cases[0])}
        made = programs.judge_known(setup, made)
        with self.lock:
            self.outcomes[setup.name].update(made)
            wrong = [name for name, outcome in made.items() if outcome.verdict == "wrong"]
            what = cases[0].name if len(cases) == 1 else f"{len(cases)} cases"
            said = f"{len(wrong)} WRONG" if wrong else "right"
            print(f"[{self.watch}] {setup.name}: {what} {said} ({watch})", file=sys.stderr, flush=True)
            known = [name for name, outcome in made.items() if outcome.verdict == "known"]
            for name in known:
                print(f"    {name}: a known hole", file=sys.stderr, flush=True)
            for name in wrong or (made if len(made) == 1 else ()):
                print(f"    {name}: {made[name].words}", file=sys.stderr, flush=True)


class Programs(unittest.TestCase):
    """A test for each setup; made in main()."""
    results = None
    plan = None
    options = None

    def outcomes(self, name):
        if name in self.results.skipped:
            self.skipTest(self.results.skipped[name])
        return self.results.outcomes[name]

    def check(self, name):
        outcomes = self.outcomes(name)
        if outcomes and all(one.verdict == "skip" for one in outcomes.values()):
            self.skipTest("; ".join(sorted({one.words for one in outcomes.values()})))
        wrong = [f"{case}: {one.words}" for case, one in outcomes.items() if one.verdict == "wrong"]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))
        self.assertTrue(outcomes, "no case was run")
        self.compare_words(name, outcomes)

    def compare_words(self, name, outcomes):
        bare = self.results.outcomes.get(self.plan.bare_of.get(name), {})
        for case in SAME_WORDS:
            if case in bare and case in outcomes:
                words = [re.sub(r" \([\d.]+ s\)$", "", one[case].words) for one in (bare, outcomes)]
                self.assertEqual(*words, f"{case}: without and with the library")

    def test_copies_were_taken_over(self):
        # Else all that was right would say nothing. The library's own account, by setup.
        ready = [setup for setup in self.plan.setups if "CAUSEWAY_OPEN" in setup.environment
                 and setup.name not in self.results.skipped]
        if not ready:
            self.skipTest("nothing was run with a library that opens before the first copy")
        if self.options.gpus < 2:
            self.skipTest("one GPU: there is no other link")
        for setup in ready:
            counts = programs.statistics_in(self.options.folder / setup.name)
            with self.subTest(setup.name):
                print(f"{setup.name}: {counts}", file=sys.stderr)
                self.assertGreater(counts.get("copies multipath", 0), 0, counts)
                self.assertEqual(counts.get("transfers lost", 0), 0, counts)


def runtime_folder(program):
    """(environment, why not) under which the shared CUDA runtime is found."""
    def found(environment):
        status, text = programs.run_process(["ldd", program], environment, 60)
        return status == 0 and not re.search(r"libcudart\S* => not found", text)
    if found({}):
        return {}, ""
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    candidates = [home / "lib64", home / "targets/x86_64-linux/lib"]
    candidates += [Path(folder, "nvidia/cu13/lib") for folder in sys.path if folder]
    for folder in candidates:
        path = ":".join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
        if (folder / "libcudart.so.13").exists() and found({"LD_LIBRARY_PATH": path}):
            return {"LD_LIBRARY_PATH": path}, ""
    return {}, "libcudart.so.13 is not on this machine"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, metavar="DIR",
                        help="folder of the programs preload_*")
    parser.add_argument("--library", type=Path, metavar="SO", help="libcauseway-preload.so; without it "
                        "the programs are only run bare")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="only setups whose name has TEXT; may be repeated")
    parser.add_argument("--quick", action="store_true", help="few setups and cases")
    parser.add_argument("--jobs", type=int, default=max(2, min(20, (os.cpu_count() or 2) // 3)),
                        help="processes at once (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=840, metavar="SECONDS",
                        help="begin nothing after that (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="of each stress run")
    parser.add_argument("--seed", type=int, default=1, help="of the stress runs")
    parser.add_argument("--list", action="store_true", help="name the setups and end")
    return parser.parse_args()


def complete(options, folder):
    options.folder = Path(folder)
    options.programs = options.programs.resolve()
    if options.library is not None:
        options.library = options.library.resolve()
    options.library_missing = ("" if options.library and options.library.exists()
                               else f"no {options.library or 'libcauseway-preload.so: see --library'}")
    shared = options.programs / "preload_runtime_shared_legacy"
    options.runtime_missing = ""
    if shared.exists():
        extra, options.runtime_missing = runtime_folder(shared)
        os.environ.update(extra)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    options.gpus = (len(list(Path("/dev").glob("nvidia[0-9]*"))) if visible is None
                    else len(list(filter(None, visible.split(",")))))


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        complete(options, folder)
        plan = Plan(options)
        if options.list:
            print("\n".join(setup.name for setup in plan.setups))
            return 0
        if not Path("/dev/nvidiactl").exists():
            print("SKIPPED: no GPU")
            return programs.NO_GPU
        Programs.plan, Programs.options = plan, options
        Programs.results = Results(plan, options)
        for setup in plan.setups:
            if Programs.results.skipped.get(setup.name) != "not asked for":
                setattr(Programs, f"test_{setup.name}",
                        lambda self, name=setup.name: self.check(name))
        ended = unittest.main(module=__name__, argv=[sys.argv[0], "-v"], exit=False)
        return 0 if ended.result.wasSuccessful() and ended.result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
