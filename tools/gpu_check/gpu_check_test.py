#!/usr/bin/env python3
"""Tests of how gpu_check runs parts: time-outs, missing things and failures, lanes, interrupts."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

import gpu_check
import machine
import needs
import parsers
from checks import Checks
from lanes import Gpu, Gpus
from part import Part, Progress, Row, run_part


def python_part(name, code, seconds=20, **more):
    return Part(name, [sys.executable, "-c", code], seconds, parsers.test_rows(name), **more)


class InFolder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def run_one(self, part, seconds=20):
        return run_part(part, seconds, self.folder, threading.Event())

    def run_all(self, parts, seconds=60, **more):
        return gpu_check.Run(self.folder, seconds, Progress(io.StringIO()), **more).all(parts)

    def gone(self, pid):
        """Whether the process ends within some seconds."""
        for _ in range(100):
            try:
                if re.search(r"^State:\s+Z", Path(f"/proc/{pid}/status").read_text(), re.M):
                    return True
            except (FileNotFoundError, ProcessLookupError):
                return True
            time.sleep(0.05)
        return False


class Choice(unittest.TestCase):
    def test_by_name_and_kind(self):
        parts = [python_part("a test", ""), python_part("a figure", "", is_test=False)]
        names = lambda *how: [part.name for part in gpu_check.choose(parts, *how)]
        self.assertEqual(names([]), ["a test", "a figure"])
        self.assertEqual(names([], "tests"), ["a test"])
        self.assertEqual(names([], "figures"), ["a figure"])
        self.assertEqual(names(["test"], "figures"), [])


class Parts(InFolder):
    def test_pass_and_log(self):
        rows = self.run_one(python_part("a", "print('PASSED: 7 checks, 0 wrong')"))
        self.assertEqual([(r.verdict, r.what) for r in rows], [("pass", "7 checks, 0 wrong")])
        self.assertIn("7 checks", (self.folder / "a.log").read_text())

    def test_failure_says_what(self):
        rows = self.run_one(python_part("a", "print('WRONG: case 3'); raise SystemExit(1)"))
        self.assertEqual([(r.verdict, r.what) for r in rows], [("fail", "WRONG: case 3")])

    def test_no_gpu_is_a_skip_with_the_reason(self):
        rows = self.run_one(python_part("a", "print('SKIPPED: no GPU'); raise SystemExit(77)"))
        self.assertEqual([(r.verdict, r.what) for r in rows], [("skip", "SKIPPED: no GPU")])

    def leaves_a_child(self, then):
        """A part whose program starts another in a session of its own; and where that one's id is."""
        pid = self.folder / "pid"
        code = ("import subprocess, sys, time\n"
                "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],\n"
                "                         start_new_session=True)\n"
                f"open({str(pid)!r}, 'w').write(str(child.pid))\n{then}")
        return python_part("a", code), pid

    def test_time_out_ends_all_processes(self):
        part, pid = self.leaves_a_child("time.sleep(60)")
        begin = time.monotonic()
        rows = self.run_one(part, seconds=4)
        self.assertEqual(rows[0].verdict, "fail")
        self.assertIn("timed out", rows[0].what)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertTrue(self.gone(pid.read_text()))

    def test_time_out_ends_what_ignores_a_request(self):
        part = python_part("a", "import signal, time; signal.signal(signal.SIGTERM, "
                           "signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)")
        begin = time.monotonic()
        self.assertIn("timed out", self.run_one(part, seconds=1)[0].what)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertIn("deaf", (self.folder / "a.log").read_text())

    def test_what_a_part_leaves_running_is_ended(self):
        part, pid = self.leaves_a_child("print('PASSED')")
        self.assertEqual(self.run_one(part)[0].verdict, "pass")
        self.assertTrue(self.gone(pid.read_text()))

    def test_output_that_is_not_understood_fails(self):
        part = python_part("a", "print('nothing')", files=("json",))
        part.rows = parsers.model_rows("a", {})
        self.assertEqual(self.run_one(part)[0].verdict, "fail")

    def test_a_crash_fails_even_when_rows_were_made(self):
        part = python_part("a", "raise SystemExit(3)")
        part.rows = lambda _: [Row("a", "a figure")]
        self.assertEqual([r.verdict for r in self.run_one(part)], ["measured", "fail"])

    def test_the_planners_way_has_a_bar_on_the_whole_gpu_from_the_host(self):
        line = {"home": "host", "sms": 132, "m": 4096, "note": "staged, 4 pieces", "ms": 2.6,
                "limit_ms": 2.5, "ratio": 1.04}
        verdicts = [parsers.planned_row("a", {**line, **change}, 132).verdict for change in
                    ({}, {"ratio": 1.06}, {"ratio": 1.06, "m": 10240}, {"sms": 32},
                     {"home": "peer"})]
        self.assertEqual(verdicts, ["pass", "miss", "pass", "measured", "measured"])

    def test_a_program_that_is_not_there_fails(self):
        part = Part("a", ["/no/such/program"], 5, parsers.test_rows("a"))
        self.assertEqual(self.run_one(part)[0].verdict, "fail")


class Runs(InFolder):
    def test_goes_on_after_a_failure_in_order(self):
        rows = self.run_all([python_part("bad", "raise SystemExit(1)"),
                             python_part("figures", "print('PASSED')", alone=True, is_test=False),
                             python_part("missing", "", missing="no torch"),
                             python_part("good", "print('PASSED')")])
        self.assertEqual([(r.check, r.verdict) for r in rows],
                         [("bad", "fail"), ("figures", "pass"), ("missing", "skip"),
                          ("good", "pass")])
        self.assertEqual(rows[2].what, "no torch")

    def test_without_time_tests_fail_and_figures_are_skipped(self):
        rows = self.run_all([python_part("test", "print('PASSED')"),
                             python_part("figure", "", alone=True, is_test=False)], seconds=1)
        self.assertEqual([r.verdict for r in rows], ["fail", "skip"])

    def marking(self, name, **more):
        """A part that writes when it begins and ends."""
        code = (f"import time; f = open({str(self.folder / 'marks')!r}, 'a', buffering=1); "
                f"f.write('{name}+'); time.sleep(0.4); f.write('{name}-'); print('PASSED')")
        return python_part(name, code, **more)

    def meeting(self, name, other):
        """A part that passes when another runs meanwhile."""
        mine, its = str(self.folder / f"{name}.met"), str(self.folder / f"{other}.met")
        return python_part(name, f"import os, time; open({mine!r}, 'w'); end = time.time() + 20\n"
                           f"while not os.path.exists({its!r}) and time.time() < end: "
                           f"time.sleep(0.01)\nprint('PASSED' if os.path.exists({its!r}) else '')")

    def marks(self):
        return re.findall(r"\w[+-]", (self.folder / "marks").read_text())

    def test_lone_tests_then_lanes_then_figures_alone(self):
        rows = self.run_all([self.marking("x", alone=True, is_test=False), self.meeting("a", "b"),
                             self.marking("y", alone=True, is_test=False), self.meeting("b", "a"),
                             self.marking("t", alone=True), self.marking("u", alone=True)], lanes=2)
        self.assertEqual(self.marks(), ["t+", "t-", "u+", "u-", "x+", "x-", "y+", "y-"])
        self.assertEqual({r.verdict for r in rows}, {"pass"})
        begun = {r.check: r.values["began"] for r in rows}
        self.assertLess(begun["u"], min(begun["a"], begun["b"]))
        self.assertLess(max(begun["a"], begun["b"]), begun["x"])
        self.assertEqual([(r.check, r.values["phase"]) for r in rows],
                         [("x", "figures"), ("a", "lanes"), ("y", "figures"), ("b", "lanes"),
                          ("t", "alone"), ("u", "alone")])
        self.assertEqual({r.values["lane"] for r in rows if r.check in "ab"}, {0, 1})

    def test_one_lane_is_one_by_one_in_order(self):
        self.run_all([self.marking("a", typical=1), self.marking("b", typical=9)], lanes=1)
        self.assertEqual(self.marks(), ["a+", "a-", "b+", "b-"])

    def test_the_longest_begin_first(self):
        rows = self.run_all([self.marking(n, typical=t) for n, t in zip("abcd", (1, 9, 5, 7))],
                            lanes=2)
        begun = {r.check: r.values["began"] for r in rows}
        self.assertLess(max(begun["b"], begun["d"]), min(begun["a"], begun["c"]))
        self.assertEqual([r.check for r in rows], list("abcd"))

    def test_a_lane_that_fails_or_hangs_does_not_stop_the_others(self):
        def broken(_):
            raise RuntimeError("a fault of gpu-check")
        odd = python_part("odd", "pass")
        odd.rows = broken
        rows = self.run_all([odd, python_part("hangs", "import time; time.sleep(60)", 1),
                             python_part("crashes", "import os; os.abort()"),
                             *(python_part(f"good {i}", "print('PASSED')") for i in range(6))],
                            lanes=3)
        self.assertEqual([r.verdict for r in rows], ["fail"] * 3 + ["pass"] * 6)
        self.assertIn("a fault of gpu-check", rows[0].what)
        self.assertIn("timed out", rows[1].what)

    def test_parts_wait_for_room_on_the_gpu(self):
        gpus = Gpus([Gpu("0", 10)])
        self.run_all([self.marking("a", gpu_gib=8), self.marking("b", gpu_gib=8),
                      self.marking("c", gpu_gib=99)], lanes=3, gpus=gpus)
        begins_and_ends = [mark[1] for mark in self.marks()]
        self.assertEqual(begins_and_ends, list("+-+-+-"))  # what never fits runs when alone
        self.assertEqual((gpus.gpus[0].promised, gpus.gpus[0].parts), (0, 0))

    def test_lanes_spread_over_gpus(self):
        said = "import os; print('PASSED: ' + os.environ.get('CUDA_VISIBLE_DEVICES', 'all'))"
        def whats(*gpus):
            parts = [python_part("a", said + "; import time; time.sleep(0.5)"),
                     python_part("b", said + "; import time; time.sleep(0.5)"),
                     python_part("both", said, all_gpus=True)]
            rows = self.run_all(parts, lanes=3, gpus=Gpus(gpus))
            return [(row.what, row.values.get("gpus")) for row in rows]
        self.assertEqual(sorted(whats(Gpu("3", 50), Gpu("5", 50))),
                         [("3", ["3"]), ("5", ["5"]), ("all", None)])
        self.assertEqual(whats(Gpu("3", 50)), [("all", None)] * 3)

    def test_an_interrupt_ends_everything(self):
        pids = [self.folder / name for name in "ab"]
        code = "import os, time; open({!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        parts = [python_part(pid.name, code.format(str(pid))) for pid in pids]
        parts.append(python_part("later", "print('PASSED')"))
        def interrupt():
            while not all(pid.exists() and pid.read_text() for pid in pids):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        run = gpu_check.Run(self.folder, 60, Progress(io.StringIO()), lanes=2)
        before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            run.stop = gpu_check.stop_on_signals()
            rows = run.all(parts)
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)
        self.assertEqual([(r.verdict, r.what) for r in rows], [("fail", "interrupted")] * 3)
        for pid in pids:
            self.assertTrue(self.gone(pid.read_text()))


class Program(unittest.TestCase):
    """gpu_check.py itself, on a build folder without programs."""

    def run_it(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, Path(__file__).with_name("gpu_check.py"), "--build", folder, "--out",
                 Path(folder, "out"), *arguments], capture_output=True, text=True, timeout=60,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, check=False)
            file = Path(folder, "out/gpu-check.json")
            return done, json.loads(file.read_text()) if file.exists() else None

    def test_says_lanes_and_phases(self):
        done, document = self.run_it("--lanes", "2", "--only", "rope", "--only", "topology")
        self.assertEqual((done.returncode, document["lanes"]), (1, 2), done.stderr)
        self.assertEqual(list(document["phases"]), ["alone", "lanes", "figures"])
        self.assertTrue(all(row["verdict"] == "skip" for row in document["rows"]))

    def test_symbols_that_the_locale_lacks_lose_nothing(self):
        locale = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
        with unittest.mock.patch.dict(os.environ, locale):
            write = ("import sys; sys.path.insert(0, sys.argv[1]); import report\n"
                     "from pathlib import Path; from part import Row\n"
                     "report.write_json(Path(sys.argv[2]), [Row('a', '5 \\u00b5s')], {})")
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "gpu-check.json")
                subprocess.run([sys.executable, "-c", write, Path(__file__).parent, file],
                               check=True)
                self.assertIn("5 µs", file.read_text(encoding="utf-8"))
            done, document = self.run_it("--lanes", "2", "--only", "rope", "--only", "bench gemm")
        self.assertEqual((done.returncode, document["lanes"]), (1, 2), done.stderr)

    def test_refuses_no_lanes(self):
        done, _ = self.run_it("--lanes", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--lanes", done.stderr)


class Needs(unittest.TestCase):
    def test_usual_lanes(self):
        self.assertEqual(gpu_check.usual_lanes(16, 110), 5)
        self.assertEqual(gpu_check.usual_lanes(64, 500), gpu_check.LANES_MAX)
        self.assertEqual((gpu_check.usual_lanes(2, 4), gpu_check.usual_lanes(64, 13)), (1, 1))

    def test_are_of_parts_that_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            places = machine.Places(folder, Path(folder))
            places.bin.mkdir()
            for name in {*needs.SECONDS, *needs.GPU_GIB}:
                if name.endswith("_gpu_test"):
                    (places.bin / name).touch()
            parts = {part.name: part for part in Checks(places, {}, False, 1).parts()}
        self.assertEqual({*needs.SECONDS, *needs.GPU_GIB} - {*parts}, set())
        self.assertEqual(parts["moe_gpu_test"].typical, needs.SECONDS["moe_gpu_test"])
        self.assertEqual({parts[name].phase() for name in ("gpu faults", "preload programs")},
                         {"alone"})
        self.assertEqual(parts["bench gemm"].phase(), "figures")

    def test_the_preload_programs_see_two_gpus(self):
        for gpus, wanted in ((4, "0,1"), (1, "0"), (0, None)):
            named = [Gpu(str(i), 100) for i in range(gpus)]
            with tempfile.TemporaryDirectory() as folder, \
                    unittest.mock.patch.object(machine, "gpus", return_value=named):
                part = Checks(machine.Places(folder, Path(folder)), {}, False, 1).preload_programs()
            self.assertEqual(part.environment.get("CUDA_VISIBLE_DEVICES"), wanted)


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        unittest.main()
