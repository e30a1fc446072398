#!/usr/bin/env python3
"""`causeway bench transfer` as a program, on modelled GPUs: its parts, its JSON, a second process,
and charts of it.

    bench_transfer_test.py CAUSEWAY"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PLOT = Path(__file__).resolve().parents[2] / "tools/plot/plot.py"
PROGRAM = ""


def bench(*arguments):
    return subprocess.run([PROGRAM, "bench", "transfer", "--modelled", "3", "--quick", *arguments],
                          capture_output=True, text=True, timeout=240, check=False)


class BenchTransfer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name) / "rows.json"

    def test_parts_rows_and_charts(self):
        run = bench("--what", "sizes,sets,gpus,processes,cpu,memory", "--sizes", "64KB,4MB",
                    "--json", str(self.file))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"\d+ bars met, \d+ missed")
        document = json.loads(self.file.read_text())
        self.assertTrue(document["modelled"])
        self.assertEqual(document["link_map"]["links"], 3)
        parts = {row["part"] for row in document["rows"]}
        self.assertEqual(parts, {"sizes", "duplex", "sets", "of best set", "gpus", "processes", "cpu",
                                 "cpu idle", "memory"})
        for row in document["rows"]:
            for value in row["figures"].values():
                self.assertGreaterEqual(value, 0, row)
        two = [row for row in document["rows"] if row["part"] == "processes"]
        self.assertEqual(len(two), 4)
        for row in two:
            self.assertGreater(row["figures"]["second GB/s"], 0)
        drawn = subprocess.run([sys.executable, PLOT, self.file, self.folder.name + "/chart"],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertIn("chart-sizes-in.svg", drawn.stdout)

    def test_what_is_wrong_is_said(self):
        run = bench("--what", "nonsense")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--what", run.stderr)
        run = bench("--what", "memory", "--target", "7")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("there are 3 GPUs", run.stderr)

    def test_a_kept_map_is_used(self):
        first = bench("--what", "memory", "--json", str(self.file))
        self.assertEqual(first.returncode, 0, first.stderr)
        kept = Path(self.folder.name) / "map.json"
        kept.write_text(json.dumps(json.loads(self.file.read_text())["link_map"]))
        second = bench("--what", "memory", "--link-map", str(kept))
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertNotIn("measuring", second.stderr)
        kept.write_text("{")
        self.assertNotEqual(bench("--what", "memory", "--link-map", str(kept)).returncode, 0)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
