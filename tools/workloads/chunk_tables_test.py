#!/usr/bin/env python3
"""Tests of what chunk_tables.py makes of reports, and of its workload; no simulation is run."""

import unittest
from pathlib import Path

import chunk_tables as chunks


class Mix(unittest.TestCase):
    def test_half_are_documents(self):
        arrivals = chunks.mix(20, 100)
        self.assertEqual(arrivals, chunks.mix(20, 100))
        self.assertAlmostEqual(len(arrivals) / 2000, 1, delta=0.1)
        documents = [a for a in arrivals if a[1] >= 2000]
        self.assertAlmostEqual(len(documents) / len(arrivals), 0.5, delta=0.05)
        self.assertTrue(all(a[1] < 8000 for a in documents))
        self.assertTrue(all(50 <= a[1] < 400 for a in arrivals if a not in documents))
        self.assertTrue(all(a[2] >= 2 for a in arrivals))


class Tables(unittest.TestCase):
    TOTAL = {"slo_ttft_percent": 100, "slo_tpot_percent": 99.5, "slo_both_percent": 98.7,
             "slo_ttft_and_pauses_percent": 50, "output_tokens_per_second": 2345.6}

    def test_a_row_for_each_chunk(self):
        asked = []

        def simulate(setting, rate, chunk):
            asked.append((rate, chunk))
            return self.TOTAL

        lines = next(chunks.tables(simulate)).splitlines()
        self.assertEqual(lines[0], "| h200, 1 s, 50 ms | 9/s | 12/s | 14/s |")
        self.assertEqual(len(lines), 2 + len(chunks.CHUNKS))
        self.assertIn("| `auto` | 100/99.5/99/50; 2,346 |", lines[-1])
        self.assertEqual(len(asked), 12)

    def test_the_command_says_chunk_and_targets(self):
        words = chunks.command("causeway", Path("data"), chunks.SETTINGS[0], "auto", "t", "r")
        text = " ".join(words)
        for part in ("--chunk auto", "--slo-ttft-ms 1000", "--slo-tpot-ms 50"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
