#!/usr/bin/env python3
"""Tests of how run.py judges programs, on programs that need no GPU."""

import re
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import programs
import run
from programs import Setup

# A program of the kind that program.h makes: a case does what its name says.
FAKE = r"""#!/bin/sh
if [ "$1" = --list ]; then
  for name in good also_good bad crash hang watched silent late; do echo "$name shared 1 1"; done
  for name in exits fails_after unsaid huge_copy; do echo "$name alone 1 1"; done
  exit 0
fi
wrong=0
while [ $# -gt 0 ]; do
  [ "$1" = --case ] && shift
  case $1 in
    good|also_good) echo "ok $1 all right (0.10 s)" ;;
    bad) echo "WRONG bad 3 bytes differ"; wrong=1 ;;
    crash) echo "about to"; kill -SEGV $$ ;;
    hang) sleep 600 ;;
    watched) echo "TIMED OUT watched"; exit 4 ;;
    silent) exit 0 ;;
    late) echo "ok late fine"; echo "TIMED OUT late, after its end"; exit 4 ;;
    exits) echo "ok exits"; exit 0 ;;
    fails_after) echo "ok fails_after"; exit 3 ;;
    unsaid) exit 0 ;;
    no_gpu) exit 77 ;;
  esac
  shift
done
exit $wrong
"""


class Judging(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "program"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)
        self.cases = {case.name: case for case in programs.list_cases(self.program)}
        slack = programs.SLACK_SECONDS
        programs.SLACK_SECONDS = 1
        self.addCleanup(lambda: setattr(programs, "SLACK_SECONDS", slack))

    def shared(self, *names):
        setup = Setup("fake", self.program, only=names)
        made = programs.run_shared(setup, [self.cases[name] for name in names])
        self.assertEqual(set(made), set(names))
        return {name: (outcome.verdict, outcome.words) for name, outcome in made.items()}

    def alone(self, name, copies=1):
        setup = Setup("fake", self.program, copies=copies)
        return programs.run_alone(setup, self.cases[name])

    def test_right_and_wrong(self):
        made = self.shared("good", "bad", "also_good")
        self.assertEqual(made["good"], ("ok", "all right (0.10 s)"))
        self.assertEqual(made["bad"], ("wrong", "3 bytes differ"))
        self.assertEqual(made["also_good"][0], "ok")

    def test_a_crash_costs_one_case(self):
        made = self.shared("good", "crash", "also_good")
        self.assertEqual([made[name][0] for name in ("good", "crash", "also_good")],
                         ["ok", "wrong", "ok"])
        self.assertIn("signal 11", made["crash"][1])
        self.assertIn("about to", made["crash"][1])

    def test_a_time_out_costs_one_case(self):
        for name in ("hang", "watched", "late"):
            made = self.shared("good", name, "also_good")
            self.assertEqual([made[n][0] for n in ("good", name, "also_good")],
                             ["ok", "wrong", "ok"], name)
        self.assertIn("did not end", self.shared("hang")["hang"][1])
        self.assertIn("after its end", self.shared("late")["late"][1])

    def test_silence_is_wrong(self):
        made = self.shared("silent", "good")
        self.assertEqual((made["silent"][0], made["good"][0]), ("wrong", "ok"))

    def test_alone(self):
        self.assertEqual(self.alone("exits").verdict, "ok")
        self.assertEqual(self.alone("exits", copies=3).verdict, "ok")
        self.assertIn("exit status 3", self.alone("fails_after").words)
        self.assertEqual(self.alone("fails_after", copies=2).verdict, "wrong")
        self.assertIn("said nothing", self.alone("unsaid").words)

    def test_who_dies_at_exit(self):
        case = programs.Case("exits_while_a_thread_copies", "alone", 1, 1)
        said = f"ok {case.name},\n"
        self.assertEqual(programs.judge_alone(case, -11, said).verdict, "ok")
        self.assertEqual(programs.judge_alone(case, 3, said).verdict, "wrong")
        self.assertEqual(programs.judge_alone(case, None, said).verdict, "wrong")
        self.assertEqual(programs.judge_alone(case, -11, "").verdict, "wrong")
        self.assertEqual(programs.judge_alone(self.cases["exits"], -11, "ok exits,\n").verdict, "wrong")

    def test_which_cases_a_setup_has(self):
        alone = Setup("fake", self.program, kinds=("alone",))
        self.assertEqual([case.name for case in alone.cases()], ["exits", "fails_after", "unsaid", "huge_copy"])
        less = Setup("fake", self.program, kinds=("alone",), without=("huge_copy", "exits"))
        self.assertEqual([case.name for case in less.cases()], ["fails_after", "unsaid"])
        some = Setup("fake", self.program, kinds=("shared", "alone"), only=("bad", "exits"))
        self.assertEqual([case.name for case in some.cases()], ["bad", "exits"])

    def test_a_known_hole_is_no_other_fault(self):
        setup = Setup("fake", self.program, known={"bad": "3 bytes differ"})
        made = programs.judge_known(setup, programs.run_shared(
            setup, [self.cases[name] for name in ("bad", "good", "crash")]))
        self.assertEqual([made[name].verdict for name in ("bad", "good", "crash")],
                         ["known", "ok", "wrong"])
        setup.known = {"bad": "4 bytes differ", "good": "all right (0.10 s)"}
        made = programs.judge_known(setup, programs.run_shared(
            setup, [self.cases[name] for name in ("bad", "good")]))
        self.assertEqual([made[name].verdict for name in ("bad", "good")], ["wrong", "ok"])

    def test_the_longest_are_first(self):
        shared = [self.cases[name] for name in ("good", "bad", "hang", "late")]
        work = [("a", [self.cases["exits"]]), ("b", shared[:1]), ("c", [self.cases["huge_copy"]]),
                ("d", shared)]
        self.assertEqual([setup for setup, _ in programs.longest_first(work)], ["c", "d", "a", "b"])

    def test_the_first_gpu_changes(self):
        seen = [programs.turned("4, 7", index) for index in range(3)]
        self.assertEqual([one["CUDA_VISIBLE_DEVICES"] for one in seen], ["4,7", "7,4", "4,7"])
        self.assertEqual(programs.turned("GPU-a", 5), {"CUDA_VISIBLE_DEVICES": "GPU-a"})
        self.assertEqual([programs.turned(None, 1), programs.turned("", 1)], [{}, {}])

    def test_statistics_are_summed(self):
        (self.folder / "statistics").mkdir()
        for i, text in enumerate(("copies multipath: 3, 90 bytes\ncopies small: 1, 8 bytes\n",
                                  "copies multipath: 4, 10 bytes\ntransfers lost: 1\n")):
            (self.folder / "statistics" / str(i)).write_text(text)
        self.assertEqual(programs.statistics_in(self.folder / "statistics"),
                         {"copies multipath": 7, "copies small": 1, "transfers lost": 1})


class Preloading(unittest.TestCase):
    def test_any_folder(self):
        # A library that is loaded says so: the C library's own for mathematics, under another name.
        source = next(Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines()
                      if re.search(r"/libc\.so\.6$|/libc-[\d.]+\.so$", line)).parent / "libm.so.6"
        for folder in ("plain", "with a space", "it's $HOME \"so\""):
            with self.subTest(folder), tempfile.TemporaryDirectory() as root:
                library = Path(root, folder, "libseen.so")
                library.parent.mkdir()
                library.write_bytes(source.read_bytes())
                _, text = programs.run_process(["cat", "/proc/self/maps"],
                                               programs.preloading(library), 60)
                self.assertIn(str(library), text)
                self.assertNotIn("ERROR", text)


class Plans(unittest.TestCase):
    """What is run where: every kind of case somewhere bare, and with the library as it is by default."""

    def plan(self, quick=False):
        options = SimpleNamespace(quick=quick, library=Path("l.so"), folder=Path("f"),
                                  programs=Path("p"), seconds=5, seed=1)
        made = run.Plan(options)
        names = [setup.name for setup in made.setups]
        self.assertEqual(len(names), len({*names}))
        for name, bare in made.bare_of.items():
            self.assertLess(names.index(bare), names.index(name))
        return {setup.name: setup for setup in made.setups}

    def test_costly_cases_run_bare_preloaded_and_held(self):
        setups = self.plan()
        for name in run.ONCE:
            having = [one.name for one in setups.values() if not one.only
                      and "exclusive" in one.kinds and name not in one.without]
            self.assertEqual(having, [f"runtime_shared_legacy_{what}"
                                      for what in ("bare", "preloaded", "hold")])

    def test_processes_of_their_own(self):
        having = {name for name, one in self.plan().items() if "alone" in one.kinds and not one.only}
        self.assertEqual(having, {
            *(f"runtime_shared_legacy_{what}" for what in ("bare", "preloaded", "hold", "kernel")),
            *(f"{way}_{what}" for what in ("bare", "preloaded") for way in
              ("runtime_static_legacy", "driver_dlsym", "driver_proc", "driver_linked"))})

    def test_a_quick_run_has_no_processes_of_their_own(self):
        self.assertEqual({one.kinds for one in self.plan(quick=True).values()}, {("shared",)})

    def test_a_hole_is_known_of_one_setup_only(self):
        having = [name for name, one in self.plan().items() if one.known]
        self.assertEqual(having, ["runtime_shared_legacy_kernel"])


if __name__ == "__main__":
    unittest.main()
