"""A part of the check: one command with a time-out, run beside others or alone, and its rows."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import needs

# pass, fail: of tests. pass, miss: of figures with a bar; "measured": without one. skip: not run.
VERDICTS = ("pass", "fail", "miss", "measured", "skip")
TIMED_OUT = "timed out"
INTERRUPTED = "interrupted"
MARK = "CAUSEWAY_GPU_CHECK_PART"  # in the environment of all processes of a part
NO_GPU = 77  # exit status of our test programs where there is nothing to test on


@dataclass
class Row:
    check: str
    what: str
    measured: str = ""
    limit: str = ""
    wanted: str = ""
    verdict: str = "measured"
    values: dict = field(default_factory=dict)  # the figures as numbers, for the JSON file

    def __post_init__(self):
        assert self.verdict in VERDICTS, self.verdict


@dataclass
class Outcome:
    """What a finished command left: exit status (None: it ran out of time), output, seconds."""
    status: object
    text: str
    seconds: float
    files: dict = field(default_factory=dict)  # name → path of a file that the command may write

    def last_line(self):
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


@dataclass
class Part:
    name: str
    command: list  # [str]; "{NAME}" of `files` is replaced by a path in the output folder
    seconds: float  # its own time-out
    rows: object  # Outcome → [Row]
    alone: bool = False  # nothing else runs meanwhile: figures, and what takes all memory
    is_test: bool = True  # one that cannot be run counts as a failure of the whole
    missing: str = ""  # why it cannot be run here: a skip
    environment: dict = field(default_factory=dict)
    files: tuple = ()
    all_gpus: bool = False  # it uses all GPUs it sees; others run on one
    gpu_gib: float = needs.OTHER_GPU_GIB  # that it takes at most, of each GPU it uses
    typical: float = needs.OTHER_SECONDS  # that it takes on one H200

    def phase(self):
        """Tests that must be alone, those side by side, figures."""
        return "figures" if not self.is_test else "alone" if self.alone else "lanes"


def run_part(part, seconds, folder, stop, environment=None):
    """The outcome of the part's command, and its rows. `stop`: an Event that ends it early."""
    paths = {name: folder / f"{part.name}.{name}" for name in part.files}
    command = [str(word).format(**paths) if paths else str(word) for word in part.command]
    log = folder / f"{part.name}.log"
    begin = time.monotonic()
    mark = f"{part.name} {os.getpid()} {time.monotonic_ns()}"
    with open(log, "wb") as out:
        out.write(("$ " + " ".join(command) + "\n").encode(errors="replace"))
        out.flush()
        try:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, start_new_session=True,
                                       env={**os.environ, **part.environment,
                                            **(environment or {}), MARK: mark})
        except OSError as error:
            return [Row(part.name, str(error), verdict="fail")]
        try:
            status = _wait(process, begin + seconds, stop, mark)
        finally:
            end_marked(mark)
    if status is None and stop.is_set():
        return [Row(part.name, INTERRUPTED, verdict="fail")]
    text = log.read_text(encoding="utf-8", errors="replace").split("\n", 1)[1]
    outcome = Outcome(status, text, time.monotonic() - begin, paths)
    return _rows_of(part, outcome, seconds)


def _wait(process, end, stop, mark):
    """The exit status; None when time ran out or `stop` was set, after ending all its processes."""
    while time.monotonic() < end and not stop.is_set():
        try:
            return process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
    for sign, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        if sign == signal.SIGKILL:
            end_marked(mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
    return None


def end_marked(mark):
    """Kills every process that inherited the mark, in whatever session: programs that tests start in
    sessions of their own outlive the group of the one that started them."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _rows_of(part, outcome, seconds):
    if outcome.status is None:
        return [Row(part.name, f"{TIMED_OUT} after {outcome.seconds:.0f} s", wanted=f"{seconds:.0f} s",
                    verdict="fail", values={"seconds": outcome.seconds})]
    if outcome.status == NO_GPU:
        return [Row(part.name, outcome.last_line() or "nothing to run on", verdict="skip")]
    try:
        rows = part.rows(outcome)
    except (ValueError, KeyError, IndexError, TypeError, OSError) as error:
        rows = [Row(part.name, f"its output was not understood: {error!r}", verdict="fail")]
    if not rows:
        rows = [Row(part.name, "it reported nothing", verdict="fail")]
    accepted = any(row.values.get("exit_status") == outcome.status for row in rows)
    if outcome.status != 0 and not accepted and not any(row.verdict == "fail" for row in rows):
        rows.append(Row(part.name, f"exit status {outcome.status}: {outcome.last_line()[:120]}",
                        verdict="fail"))
    for row in rows:
        row.values.setdefault("seconds", round(outcome.seconds, 2))
    return rows


def first_match(pattern, text, otherwise=""):
    found = re.search(pattern, text, re.M)
    return found.group(1) if found else otherwise


class Progress:
    """One line a finished part, from any thread."""

    def __init__(self, out):
        self.out = out
        self.begin = time.monotonic()
        self.lock = threading.Lock()

    def say(self, text):
        with self.lock:
            print(f"[{time.monotonic() - self.begin:5.0f} s] {text}", file=self.out, flush=True)
