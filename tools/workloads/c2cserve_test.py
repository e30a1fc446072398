#!/usr/bin/env python3
"""Tests of what c2cserve_tables.py asks for and makes of reports; no simulation is run."""

import json
import tempfile
import unittest
from pathlib import Path

import c2cserve_runs as runs
import c2cserve_tables as tables


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "data/configs").mkdir(parents=True)
        (self.root / "data/configs/a.json").write_text("{}", encoding="utf-8")
        # A program that writes its words as its report.
        self.program = self.root / "program"
        self.program.write_text(
            "#!/usr/bin/env python3\n"
            "import json, sys\n"
            "json.dump({'words': sys.argv[1:]}, open(sys.argv[-1], 'w'))\n", encoding="utf-8")
        self.program.chmod(0o755)
        self.said = []

    def tearDown(self):
        self.folder.cleanup()

    def simulator(self, program=None):
        return runs.Simulator(program or self.program, self.root / "data", self.root / "kept",
                              self.said.append)

    def test_files_are_those_of_the_data(self):
        words = self.simulator().report(
            ["simulate", "--trace", "TRACES/x/y.csv", "CONFIGS/a.json", "CONFIGS/a.json#2"])["words"]
        self.assertEqual(words[:3], ["simulate", "--trace", f"{self.root}/data/traces/x/y.csv"])
        self.assertEqual(words[3], f"{self.root}/data/configs/a.json")
        self.assertEqual(Path(words[4]).name, "a-2.json")

    def test_what_has_been_run_is_read_again(self):
        simulator = self.simulator()
        first = simulator.report(["simulate", "--seed", "1"])
        self.assertEqual(first, simulator.report(["simulate", "--seed", "1"]))
        simulator.report(["simulate", "--seed", "2"])
        self.assertEqual(len(self.said), 2)
        self.assertTrue(self.said[0].endswith("causeway simulate --seed 1"))

    def test_a_program_that_fails_is_an_error_and_leaves_no_report(self):
        with self.assertRaises(runs.Failed):
            self.simulator(Path("false")).report(["simulate"])
        self.assertEqual(list((self.root / "kept").iterdir()), [])


class FromReports(unittest.TestCase):
    """Tables of a simulator that keeps what it is asked for."""

    def setUp(self):
        self.asked = []
        self.tables = tables.Tables(self, seeds=2)

    def report(self, words):
        self.asked.append(words)
        json.dumps(words)
        if words[0] == "replay":
            seed = float(words[words.index("--seed") + 1])
            slow = "--hybrid-gemm" not in words
            times = {"p50": 10 * seed, "p95": 20.0, "p99": 400.0 if slow else 100.0}
            return {"all": {"requests": 7, "ttft_attained": 0.9 + seed / 100, "tpot_attained": 1.0,
                            "ttft_ms": times, "tpot_ms": times},
                    "counters": {"busy_share": 0.5, "switches": 3}}
        alone = "0" in words
        times = {"p50_ms": 38.21, "p95_ms": 150.4, "p99_ms": 1580.0}
        return {"virtual_seconds": 2.0 if alone else 2.5, "link_bytes": 2e12, "alpha_mean": 0.25,
                "weights_out_bytes": 3e12,
                "total": {"ttft": times, "tpot": times, "slo_both_percent": 97.94}}

    def test_every_name_is_a_table(self):
        for name in tables.NAMES:
            lines = getattr(self.tables, name)().splitlines()
            columns = {line.count("|") for line in lines}
            self.assertEqual(len(columns), 1, (name, columns))
            self.assertGreater(len(lines), 3, name)
        for words in self.asked:
            self.assertTrue(all(isinstance(word, str) for word in words), words)

    def test_contention_is_what_two_lose_of_twice_one(self):
        self.assertIn("| 8B | 20 | 20 | 20 |", self.tables.contention())

    def test_replays_are_means_over_seeds(self):
        got = self.tables.replay(tables.WHOLE, ())
        self.assertAlmostEqual(got["ttft"], 91.5)
        self.assertAlmostEqual(got["p50"], 15)
        self.assertEqual(got["busy"], 50)

    def test_each_baseline_is_there_with_hybrid_gemm(self):
        rows = self.tables.baselines().splitlines()
        self.assertIn("| full reload | 15.0 | 91.5 / 0.40 | 91.5 / 0.40 | 91.5 / 0.40 |", rows)
        self.assertIn("| full reload, HybridGEMM | 15.0 | 91.5 / 0.100 | 91.5 / 0.100 | 91.5 / 0.100 |", rows)
        for words in self.asked:
            self.assertFalse("--hybrid-gemm" in words and "all-cached" in words, words)
        for of in ("shared", "locality"):
            self.assertTrue(any(of in words and "--hybrid-gemm" in words for words in self.asked), of)

    def test_what_does_not_fit_says_so(self):
        def refuse(words):
            raise runs.Failed("a model that is streamed takes 9 GB at least, and may have 4")
        self.tables.simulator = type("Refuses", (), {"report": staticmethod(refuse)})
        self.assertIn("does not fit", self.tables.hardware())


if __name__ == "__main__":
    unittest.main()
