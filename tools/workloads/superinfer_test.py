#!/usr/bin/env python3
"""Tests of what superinfer_tables.py makes of reports, and of its workloads; no simulation is run."""

import sys
import tempfile
import unittest
from pathlib import Path

import superinfer_runs as runs
import superinfer_tables as tables


class Workloads(unittest.TestCase):
    def test_random_numbers_are_those_of_the_project(self):
        # From base/random.h: xoshiro256++ seeded by splitmix64.
        random = runs.Random(0)
        self.assertEqual(random.bits(), RANDOM_OF_0)
        draws = [runs.Random(7).uniform() for _ in range(2)]
        self.assertEqual(draws[0], draws[1])
        self.assertTrue(0 <= draws[0] < 1)

    def test_chats_have_the_lengths_and_the_rate(self):
        arrivals = runs.chats(100, 50)
        self.assertEqual(arrivals[0][0], 0)
        self.assertAlmostEqual(len(arrivals) / 5000, 1, delta=0.05)
        count = len(arrivals)
        self.assertAlmostEqual(sum(a[1] for a in arrivals) / count, 216, delta=15)
        self.assertAlmostEqual(sum(a[2] for a in arrivals) / count, 340, delta=15)
        self.assertTrue(all(2 <= a[1] <= 2000 and 2 <= a[2] <= 1500 for a in arrivals))
        self.assertEqual(arrivals, runs.chats(100, 50))

    def test_traces_keep_arrivals(self):
        text = runs.as_trace([(0, 3, 4), (61.25, 5, 6)])
        self.assertEqual(text.splitlines()[1:], ["2026-01-01 00:00:00.0000000,3,4",
                                                 "2026-01-01 00:01:01.2500000,5,6"])


class Runs(unittest.TestCase):
    def setUp(self):
        self.run = runs.Run(runs.SETTINGS["qwen"], 7, "paper's lags", ("--rotary-alpha", "1"))

    def test_words(self):
        words = " ".join(self.run.words())
        self.assertIn("--scheduling-policy rotary --rotary-displaces-early all", words)
        self.assertTrue(words.endswith("--rotary-alpha 1"))

    def test_every_setting_has_its_report(self):
        setting = self.run.setting
        others = [runs.Run(setting, 8, self.run.policy, self.run.options),
                  runs.Run(setting, 7, "rotary", self.run.options),
                  runs.Run(setting, 7, self.run.policy),
                  runs.Run(setting, 7, self.run.policy, self.run.options, (5.1, 5.1)),
                  runs.Run(setting.shortened(), 7, self.run.policy, self.run.options)]
        self.assertEqual(len({run.key() for run in [self.run, *others]}), 6)

    def test_a_program_that_fails_is_an_error_and_leaves_no_report(self):
        with tempfile.TemporaryDirectory() as name:
            simulator = runs.Simulator(Path("false"), Path("data"), Path(name))
            with self.assertRaises(runs.Failed):
                simulator.report(self.run)
            self.assertEqual(list(Path(name).iterdir()), [])


class Sustained(unittest.TestCase):
    def test_the_rate_lies_between_measured_ones(self):
        self.assertEqual(tables.crossing([(8, 50), (6, 100), (7, 100)]), (7.2, True))
        self.assertEqual(tables.crossing([(6, 100), (7, 90)]), (7, False))
        self.assertEqual(tables.crossing([(6, 89), (7, 100)]), (0.0, True))

    def test_ratios_say_what_they_do_not_know(self):
        self.assertEqual(tables.ratio_text((9, True), (6, True)), "1.50")
        self.assertEqual(tables.ratio_text((9, False), (6, True)), "≥ 1.50")
        self.assertEqual(tables.ratio_text((9, True), (6, False)), "–")
        self.assertEqual(tables.rate_text((9, False)), "≥ 9")


class FromReports(unittest.TestCase):
    """Tables of a simulator whose attainment falls with the rate."""

    def report(self, run):
        kept = {"fcfs": 90 - 10 * run.rate}.get(run.policy, 100)
        total = {f"slo_{key}": kept for key in
                 ("ttft_percent", "both_percent", "ttft_and_pauses_percent")}
        total |= {"slo_tpot_percent": 100, "slo_tbt_percent_of_gaps": 99.96,
                  "output_tokens_per_second": 1234.5, "ttft": {"p50_ms": 1500, "p99_ms": 2000},
                  "tbt": {"p50_ms": 10, "p99_ms": 1010}}
        return {"total": total, "rotation": {"bytes_in": 2.5e12}}

    def test_every_table_and_chart_can_be_made(self):
        made = tables.Tables(self, quick=True)
        for name in tables.NAMES:
            lines = getattr(made, name)().split("\n")
            self.assertGreater(len(lines), 3, name)
            for line in filter(None, lines):
                self.assertTrue(line.startswith("|") and line.endswith("|"), line)
        self.assertEqual(len(list(made.charts())), 2)

    def test_cells(self):
        made = tables.Tables(self, quick=False)
        row = next(line for line in made.attainment().split("\n") if line.startswith("| rotary |"))
        self.assertIn("100/100/100/100", row)
        self.assertIn("1,234; 1.50/2.00; 10/1,010", made.latency())

    def test_percent(self):
        self.assertEqual([tables.percent(value) for value in (99.94, 99.96, 12.6, 0)],
                         ["99.9", "100", "13", "0"])
        self.assertEqual(tables.of_gaps({"slo_tbt_percent_of_gaps": 97.52}), "97.5")


RANDOM_OF_0 = 6409272458699751175

if __name__ == "__main__":
    unittest.main()
