"""Runs the programs of this folder and reads what they print. Standard library only.

A program prints a line a case (program.h). One that ends early, by a crash or its watchdog, loses the
case it was in; the rest is run again without it.
"""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

NO_GPU = 77
TIMED_OUT = 4  # of the watchdog, which names the case
LINE = re.compile(r"^(ok|skip|WRONG|TIMED OUT) (\w+),? ?(.*)$", re.M)
# CUDA itself dies now and then of a thread that is in a copy while exit() runs: these cases only
# must say what they have to, and end.
MAY_DIE_AT_EXIT = ("exits_while_a_thread_copies",)
SLACK_SECONDS = 60  # beside the limits of the cases: start of the program, end of the process
STARTS_MOST = 5  # of one program that keeps ending early
# What cases take on two H200s, for the order; those that share a process take a part of a second each.
SHARED_CASE_SECONDS = 0.4
SECONDS = {"copies_wait_long_for_their_start": 13, "calls_wait_for_late_copies": 11, "stress": 6,
           "idle_costs_nothing": 4.7, "resets_the_device": 4.3, "huge_copy": 3.5,
           "copying_costs_little": 2.9, "fork_and_exec_cuda": 2.9}
OTHER_SECONDS = 1.5


@dataclass
class Case:
    name: str
    how: str  # shared, alone or exclusive
    gpus: int
    seconds: float


@dataclass
class Outcome:
    """Of one case. verdict: ok, skip, wrong, or known (wrong in a way that is a known hole)."""
    verdict: str
    words: str


@dataclass
class Setup:
    """A program, how it is run, and which of its cases."""
    name: str
    program: Path
    environment: dict = field(default_factory=dict)
    kinds: tuple = ("shared",)
    only: tuple = ()  # names of cases; all of `kinds` but stress if empty
    without: tuple = ()  # names of cases that other setups run
    known: dict = field(default_factory=dict)  # name of a case → its words where a hole is known
    arguments: tuple = ()
    copies: int = 1  # processes at once

    def cases(self):
        wanted = [case for case in list_cases(self.program)
                  if case.how in self.kinds and case.name not in self.without]
        return [case for case in wanted
                if (case.name in self.only if self.only else case.name != "stress")]


def typical_seconds(cases):
    """Of those that one process runs."""
    if cases[0].how == "shared":
        return SHARED_CASE_SECONDS * len(cases)
    return SECONDS.get(cases[0].name, OTHER_SECONDS)


def longest_first(work):
    """`work`: (setup, cases) each."""
    return sorted(work, key=lambda item: -typical_seconds(item[1]))


def turned(visible, index):
    """What process `index` sees of the GPUs that CUDA_VISIBLE_DEVICES names: all, another one first
    each time, as most of its work is the first one's. {} when none are named."""
    gpus = [gpu.strip() for gpu in (visible or "").split(",") if gpu.strip()]
    if not gpus:
        return {}
    first = index % len(gpus)
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus[first:] + gpus[:first])}


def preloading(library):
    """The environment in which programs load `library`, whatever its folder is called: the linker
    cuts LD_PRELOAD at spaces, and LD_LIBRARY_PATH at colons and semicolons alone."""
    folders = [str(library.parent), os.environ.get("LD_LIBRARY_PATH")]
    return {"LD_PRELOAD": library.name, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def judge_known(setup, made):
    """`made` with those wrong cases as known that said just what the setup names."""
    return {name: Outcome("known", outcome.words)
            if outcome.verdict == "wrong" and outcome.words == setup.known.get(name) else outcome
            for name, outcome in made.items()}


def list_cases(program):
    done = subprocess.run([str(program), "--list"], capture_output=True, text=True, timeout=60,
                          check=True)
    made = []
    for line in done.stdout.splitlines():
        name, how, gpus, seconds = line.split()
        made.append(Case(name, how, int(gpus), float(seconds)))
    return made


def run_process(command, environment, seconds):
    """(exit status, output); the status is None when time ran out, after ending the process group."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                               errors="replace", start_new_session=True,
                               env={**os.environ, **environment})
    try:
        text, _ = process.communicate(timeout=seconds)
        return process.returncode, text
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return None, text


def outcomes_in(text):
    """name → Outcome, of the lines of one process."""
    verdicts = {"ok": "ok", "skip": "skip", "WRONG": "wrong", "TIMED OUT": "wrong"}
    made = {}
    for word, name, rest in LINE.findall(text):
        outcome = Outcome(verdicts[word], f"timed out {rest}" if word == "TIMED OUT" else rest)
        if name not in made or made[name].verdict != "wrong":  # nothing makes up for a failure
            made[name] = outcome
    return made


def end_of(status, text):
    said = [line for line in text.splitlines() if line.strip() and not LINE.match(line)]
    last = f"; it last said: {said[-1][:160]}" if said else ""
    if status is None:
        return "the process did not end" + last
    return (f"signal {-status}" if status < 0 else f"exit status {status}") + last


def run_shared(setup, cases):
    """One process for all, started again behind a case that ends it."""
    made, left, starts = {}, list(cases), 0
    while left and starts < STARTS_MOST:
        starts += 1
        names = [word for case in left for word in ("--case", case.name)]
        limit = SLACK_SECONDS + sum(case.seconds for case in left)
        status, text = run_process([setup.program, *names, *setup.arguments], setup.environment,
                                   limit)
        if status == NO_GPU:
            return {case.name: Outcome("skip", "no GPU") for case in left}
        found = outcomes_in(text)
        made.update({case.name: found[case.name] for case in left if case.name in found})
        rest = [case for case in left if case.name not in found]
        named = any(outcome.verdict == "wrong" for outcome in found.values())
        if (status in (0, 1) and not rest) or (status == TIMED_OUT and named):
            left = rest  # all is said, or the watchdog has said whose fault it is
            continue
        blamed = (rest or left)[0 if rest else -1]  # or what comes behind the last case
        made[blamed.name] = Outcome("wrong", end_of(status, text))
        left = rest[1:]
    for case in cases:
        made.setdefault(case.name, Outcome("wrong", "not run: the program kept ending early"))
    return made


def run_alone(setup, case):
    """In a process of its own, or in several at once: it must say so and end with status 0."""
    arguments = [setup.program, "--case", case.name, *setup.arguments]
    limit = SLACK_SECONDS + case.seconds
    processes = []
    for _ in range(setup.copies - 1):
        processes.append(subprocess.Popen(
            [str(word) for word in arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, env={**os.environ, **setup.environment}))
    results = [run_process(arguments, setup.environment, limit)]
    for process in processes:
        try:
            text, _ = process.communicate(timeout=limit)
            results.append((process.returncode, text))
        except subprocess.TimeoutExpired:
            process.kill()
            results.append((None, process.communicate()[0]))
    judged = [judge_alone(case, status, text) for status, text in results]
    return next((one for one in judged if one.verdict == "wrong"), judged[0])


def judge_alone(case, status, text):
    if status == NO_GPU:
        return Outcome("skip", "no GPU")
    found = outcomes_in(text).get(case.name)
    if found is None:
        return Outcome("wrong", f"it said nothing of the case; {end_of(status, text)}")
    died = status is not None and status < 0
    if found.verdict != "wrong" and died and case.name in MAY_DIE_AT_EXIT:
        return Outcome(found.verdict, f"its exit ended by signal {-status}")
    if found.verdict != "wrong" and status != 0:
        # run_program() counts a skipped case as a success.
        return Outcome("wrong", f"it said {found.verdict}, then: {end_of(status, text)}")
    return found


def statistics_in(folder):
    """Sums over the files that the preload library left in `folder`: "copies multipath" → calls."""
    sums = {}
    for path in Path(folder).glob("*"):
        for name, count in re.findall(r"^([a-z][a-z -]*): (\d+)", path.read_text(errors="replace"),
                                      re.M):
            sums[name] = sums.get(name, 0) + int(count)
    return sums


class Stopwatch:
    def __init__(self):
        self.begin = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.begin

    def __str__(self):
        return f"{self.seconds():5.1f} s"
