#!/usr/bin/env python3
"""Tables from each form of row; sections replaced; the pages of this tree are what their files say."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import report

ROOT = Path(__file__).resolve().parents[2]
SWITCH = {"what": "first token, beside", "unit": "ms", "measured": 313.3, "least": 302.0, "most": 313.4,
          "limit": 272.7, "limit_name": "bytes over the link", "wanted": 310.0, "met": False}
BYTES = {"what": "bytes out of HBM", "unit": "B", "measured": 0, "least": 0, "most": 0, "limit": 0,
         "limit_name": "", "wanted": 0, "met": True}
MODEL = {"name": "decode", "shape": "batch 8", "measured": 4000.4, "limit": 4400.0, "unit": "GB/s",
         "ratio_wanted": 0.87, "spread": 0.012, "runs": 5, "limit_name": "hbm_read"}
CHECK = {"check": "memcheck gemm", "what": "ERROR SUMMARY: 2 errors", "measured": "2", "limit": "",
         "wanted": "0", "verdict": "fail", "values": {}}
SERVER = {"first_byte_us_p50": 200.0, "first_byte_us_p99": 573.4, "first_byte_failed": 0,
          "streams_complete": 2000, "streams_failed": 0, "streams_memory_bytes": 26308608}
PAGE = "# A page\n\n<!-- report: a.json{} -->\nold\n<!-- end of report -->\nbehind\n"


def drawn(*arguments):
    return report.drawn(report.table(*arguments))


class ReportTest(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([report.number(x) for x in (0, 5.614, 313.31, 15010.4, 576977.02, -0.5)],
                         ["0.00", "5.61", "313.3", "15,010", "576,977", "-0.50"])

    def test_rows_of_switch(self):
        self.assertEqual(drawn({"rows": [SWITCH, BYTES]}), [
            "|what|limit|wanted|measured|ratio|runs|", "|---|---|---|---|---|---|",
            "|first token, beside|272.7 ms, bytes over the link|≤ 310.0 ms|**313.3 ms**, missed|"
            "1.149|302.0–313.4|",
            "|bytes out of HBM|||0.00 B||0.00–0.00|"])

    def test_rows_of_model_and_of_gpu_check(self):
        self.assertEqual(drawn({"rows": [MODEL]})[-1],
                         "|decode, batch 8|4,400 GB/s, hbm_read|≤ 1.15 ×|4,000 GB/s|1.100|"
                         "5, spread 1 %|")
        self.assertIn("**4,000 GB/s**, missed", drawn({"rows": [{**MODEL, "ratio_wanted": 0.95}]})[-1])
        self.assertEqual(drawn({"rows": [CHECK]}), [
            "|what|wanted|measured|", "|---|---|---|", "|ERROR SUMMARY: 2 errors|0|**2**, missed|"])

    def test_choice_of_rows(self):
        rows = [CHECK, {**CHECK, "check": "memcheck moe", "verdict": "pass"}]
        rows = {"rows": rows}
        self.assertEqual(drawn(rows, "memcheck")[::2], [
            "|check|what|wanted|measured|", "|memcheck gemm|ERROR SUMMARY: 2 errors|0|**2**, missed|"])
        self.assertEqual(len(report.table(rows, "fail")), 2)
        with self.assertRaises(ValueError):
            report.table(rows, "racecheck")
        free = {**MODEL, "name": "copy", "ratio_wanted": 0.0}
        self.assertEqual([line[0] for line in report.table({"rows": [free, MODEL]}, "demanded")],
                         ["what", "decode, batch 8"])

    def test_source(self):
        self.assertEqual(
            report.source({"machine": {"gpus": ["NVIDIA H200, 143771 MiB"], "cpus": 16},
                           "begun": "2026-11-23T00:38:59+00:00", "commit": "eaf4ae4772b4",
                           "command": "gpu_check.py"}),
            "1 × NVIDIA H200, 16 CPUs, 2026-11-23, commit eaf4ae4, `gpu_check.py`")
        self.assertEqual(report.source({"rows": []}), "")

    def run_on(self, folder, *arguments):
        return subprocess.run([sys.executable, report.__file__, *arguments], cwd=folder,
                              capture_output=True, text=True)

    def test_sections_are_replaced_and_checked(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "page.md").write_text(PAGE.format(" beside"), encoding="utf-8")
            (folder / "a.json").write_text(json.dumps({"rows": [SWITCH, BYTES]}), encoding="utf-8")
            self.assertEqual(self.run_on(folder, "--check", "page.md").returncode, 1)
            self.assertEqual(self.run_on(folder, "--stamp", "a.json", "--machine", "one H200", "--date",
                                         "2026-11-23", "--commit", "fd05fe2", "page.md").returncode, 0)
            text = (folder / "page.md").read_text(encoding="utf-8")
            self.assertTrue(text.startswith("# A page\n") and text.endswith("report -->\nbehind\n"))
            self.assertIn("\none H200, 2026-11-23, commit fd05fe2:\n", text)
            self.assertIn("|first token, beside|", text)
            self.assertNotIn("bytes out of HBM", text)
            self.assertNotIn("old", text)
            self.assertEqual(self.run_on(folder, "--check", "page.md").returncode, 0)
            (folder / "page.md").write_text("<!-- report: a.json -->\nno end\n", encoding="utf-8")
            self.assertNotEqual(self.run_on(folder, "page.md").returncode, 0)

    def test_grids_on_a_page(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            section = "<!-- report: {} by first-bytes -->\n<!-- end of report -->\n"
            (folder / "page.md").write_text(2 * section.format("a.jsonl"), encoding="utf-8")
            (folder / "a.jsonl").write_text(2 * (json.dumps(SERVER) + "\n"), encoding="utf-8")
            for commit in ("b571dca", "f67619a"):
                stamped = self.run_on(folder, "--stamp", "a.jsonl", "--commit", commit, "page.md")
                self.assertEqual(stamped.returncode, 0, stamped.stderr)
            self.assertEqual(len((folder / "a.jsonl").read_text(encoding="utf-8").splitlines()), 3)
            text = (folder / "page.md").read_text(encoding="utf-8")
            self.assertEqual(text.count("commit f67619a:"), 1)  # the second section has the same
            self.assertEqual(text.count("|what|measured, 2 runs|"), 2)
            self.assertEqual(self.run_on(folder, "--check", "page.md").returncode, 0)
            for spec in ("a.jsonl by nothing", "a.jsonl by chain", "b.jsonl by first-bytes"):
                (folder / "page.md").write_text(
                    f"<!-- report: {spec} -->\n<!-- end of report -->\n", encoding="utf-8")
                refused = self.run_on(folder, "page.md")
                self.assertNotEqual(refused.returncode, 0, spec)
                self.assertIn(f"page.md: the section of {spec}", refused.stderr)

    def test_pages_of_this_tree_are_what_their_files_say(self):
        pages = sorted((ROOT / "docs" / "measurements").glob("*.md"))
        self.assertTrue(pages)
        checked = self.run_on(ROOT, "--check", *map(str, pages))
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
