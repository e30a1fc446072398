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


class FleetReplay(unittest.TestCase):
    @unittest.skipIf((os.cpu_count() or 1) < 2, "two slices want two processors")
    def test_every_request_is_answered_by_one_slice_and_by_two(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            done = subprocess.run(
                [sys.executable, SCRIPT, "--models", "5", "--tiny", "--slices", "all", "2x1",
                 "--seconds", "2", "--rate", "10", "--json", report],
                capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = {row["what"]: row for row in json.loads(report.read_text())["rows"]}
        for slices in ("all", "2x1"):
            self.assertEqual(rows[f"answered, {slices}"]["measured"], 100)
            self.assertGreater(rows[f"requests a second, {slices}"]["measured"], 0)
            self.assertGreater(rows[f"first token, p99, {slices}"]["measured"], 0)


if __name__ == "__main__":
    unittest.main()
