#!/usr/bin/env python3
"""The replay of a catalogue that gpu-check runs, here with tiny models."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("fleet_replay.py")
BASELINE = "--switching sleep --weights-memory-bytes 64mb --placement random"


class FleetReplay(unittest.TestCase):
    @unittest.skipIf((os.cpu_count() or 1) < 2, "two slices want two processors")
    def test_every_request_is_answered_by_one_slice_by_two_and_by_one_that_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            done = subprocess.run(
                [sys.executable, SCRIPT, "--models", "5", "--tiny", "--slices", "all", "2x1",
                 "--baseline", BASELINE, "--seconds", "2", "--rate", "10", "--kills", "2",
                 "--json", report],
                capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = {row["what"]: row for row in json.loads(report.read_text())["rows"]}
        for slices in ("all", "2x1"):
            self.assertEqual(rows[f"answered, {slices}"]["measured"], 100)
            self.assertGreater(rows[f"requests a second, {slices}"]["measured"], 0)
            self.assertGreater(rows[f"first token, p99, {slices}"]["measured"], 0)
        slept = rows[f"first token within 1 s, all {BASELINE}"]
        self.assertGreater(slept["measured"], 0)
        self.assertEqual(slept["wanted"], 0)
        self.assertEqual(rows["answered, 2 kills"]["measured"], 100)
        again = rows["killed: its slices are open again, median of 2"]
        self.assertEqual(again["met"], again["measured"] <= again["wanted"])
        self.assertGreater(again["measured"], 0)
        self.assertIn("killed: end of the old process, most of 2", rows)


    def test_a_worker_and_the_simulator_stand_beside_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            done = subprocess.run(
                [sys.executable, SCRIPT, "--models", "3", "--tiny", "--slices", "all",
                 "--simulated", "h100", "--baseline=--isolate", "--seconds", "2", "--rate", "10",
                 "--json", report],
                capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = {row["what"]: row for row in json.loads(report.read_text())["rows"]}
        self.assertEqual(rows["answered, all --isolate"]["measured"], 100)
        self.assertGreater(rows["first token, p99, all --isolate"]["measured"], 0)
        # Of tiny models a GPU has all at once, so that it is far sooner than this machine.
        self.assertLess(rows["simulated, first token, p50, all: beside measured"]["measured"], 0)


    def test_a_trace_may_ask_dense_models_and_mixtures_of_experts(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            trace = folder / "trace.csv"
            trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
                f"2023-11-16 18:15:{i % 60:02}.0000000,{20 + i},{3 + i % 4}\n" for i in range(40)))
            done = subprocess.run(
                [sys.executable, SCRIPT, "--models", "6", "--tiny", "--kind", "mixed", "--slices",
                 "7x1" if (os.cpu_count() or 1) >= 7 else "all", "--seconds", "4",
                 f"--list=--trace {trace} --zipf 1 --compress 10", "--keep", folder / "kept",
                 "--json", folder / "report.json"],
                capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = {row["what"]: row
                    for row in json.loads((folder / "report.json").read_text())["rows"]}
            kept = [json.loads(file.read_text()) for file in (folder / "kept").iterdir()]
        answered = next(row for what, row in rows.items() if what.startswith("answered, "))
        self.assertTrue(answered["what"].endswith(", mixed"))
        self.assertEqual(answered["measured"], 100)
        self.assertEqual([report["all"]["requests"] for report in kept], [40])
        asked = {model["model"].split("-")[1] for model in kept[0]["models"]}
        self.assertIn("qwen3moe", asked)
        self.assertGreater(len(asked), 1)


if __name__ == "__main__":
    unittest.main()
