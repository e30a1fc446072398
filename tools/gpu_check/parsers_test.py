#!/usr/bin/env python3
"""Tests of what gpu_check makes of outputs: rows, the table, the exit status."""

import contextlib
import json
import sys
import tempfile
import unittest
from pathlib import Path

import gpu_check
import machine
import parsers
import report
from part import Outcome, Row


def outcome(text, status=0, files=None):
    return Outcome(status, text, 1.5, files or {})


class Parsers(unittest.TestCase):
    def test_sanitizer(self):
        clean = "PASSED: 3 checks\n========= ERROR SUMMARY: 0 errors\n"
        self.assertEqual(parsers.sanitizer_rows("m")(outcome(clean))[0].verdict, "pass")
        found = "========= RACECHECK SUMMARY: 2 hazards displayed (1 errors, 1 warnings)\n"
        row = parsers.sanitizer_rows("m")(outcome(found))[0]
        self.assertEqual((row.verdict, row.measured), ("fail", "2"))
        self.assertEqual(parsers.sanitizer_rows("m")(outcome("refused"))[0].verdict, "fail")
        self.assertEqual(parsers.sanitizer_rows("m")(outcome(clean, 9))[0].verdict, "fail")

    def test_races_of_libraries_do_not_count(self):
        theirs = "========= Error: Race reported between Write access at cutlass::f<int>()+0x10\n"
        ours = "========= Error: Race reported between Write access at causeway::kernels::f()+0x1\n"
        text = "{}========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
        rows = parsers.sanitizer_rows("m", own_only=True)
        self.assertEqual(rows(outcome(text.format(theirs), 9))[0].verdict, "pass")
        self.assertEqual(rows(outcome(text.format(ours), 9))[0].verdict, "fail")
        self.assertEqual(rows(outcome(text.format(theirs), 1))[0].verdict, "fail")
        broken = "========= Internal Sanitizer Error: a hardware exception\n" + text.format("")
        self.assertEqual(rows(outcome(broken, 9))[0].verdict, "fail")

    def test_unittest(self):
        text = ("test_a (x.Y.test_a) ... ok\ntest_key (x.Y.test_key) ... skipped 'no key'\n"
                "FAIL: test_b (x.Y.test_b)\nRan 3 tests in 1.2s\nFAILED (failures=1, skipped=1)\n")
        rows = parsers.unittest_rows("u")(outcome(text, 1))
        self.assertEqual([r.verdict for r in rows], ["fail", "skip"])
        self.assertIn("test_b", rows[0].what)
        self.assertEqual(rows[1].what, "test_key: no key")
        self.assertEqual(parsers.unittest_rows("u")(outcome(""))[0].verdict, "fail")

    def test_model_bars(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([{"name": "decode", "shape": f"batch {b}, context 1024", "measured": m,
                        "limit": 4400.0, "unit": "GB/s", "limit_name": "hbm_read",
                        **({"chain_read": 3500.0, "bulk_read": 4700.0} if b == 8 else {})}
                       for b, m in ((1, 4000.0), (8, 3000.0), (2, 1.0))], file)
            file.flush()
            rows = parsers.model_rows("m", {("decode", "batch 1"): 1.2, ("decode", "batch 8"): 1.15})(
                outcome("", files={"json": Path(file.name)}))
        self.assertEqual([r.verdict for r in rows], ["pass", "miss", "measured"])
        self.assertTrue(rows[0].measured.startswith("1.10 × floor"))
        self.assertEqual([r.limit for r in rows[:2]],
                         ["4400 GB/s (hbm_read)", "4400 GB/s (hbm_read); chain_read 3500; bulk_read 4700"])

    def test_gemm_lines(self):
        lines = [{"what": "read", "gb_per_s": 4400.0},
                 {"what": "weights", "way": "as they lie", "together": 2, "gb_per_s": 4700.0},
                 {"what": "peak", "tflop_per_s": 750.0},
                 {"what": "chain", "way": "chosen", "m": 8, "us": 3600.0, "floor_us": 3000.0,
                  "ratio": 1.2},
                 {"what": "chain", "way": "rows", "m": 8}]
        rows = parsers.gemm_rows("g")(outcome("\n".join(map(json.dumps, lines))))
        self.assertEqual([(r.what, r.measured, r.limit) for r in rows], [
            ("HBM read", "4400 GB/s", ""),
            ("weights by the copy engine, as they lie, 2 at once", "4700 GB/s", "4400 GB/s"),
            ("cuBLASLt bf16 8192³", "750 TFLOP/s", ""),
            ("decode step's products, M 8, chosen", "1.20 × floor (3600 µs)", "3000 µs")])

    def test_attention_table(self):
        text = ("HBM read 4628 GB/s\n\ndecode            batch  context  us/layer    MB  floor us\n"
                "Llama-3.1-8B          1     1024      6.96    4.2      0.91     7.68  equal\n\n"
                "prefill           kernel      tokens  us/layer  TFLOP/s  of cuBLAS\n"
                "Llama-3.1-8B     FlashInfer     8192    1547.0      355       0.45\n")
        rows = parsers.attention_rows("a")(outcome(text))
        self.assertEqual(rows[0].what, "decode, Llama-3.1-8B, 1 × 1024, equal lengths")
        self.assertIn("7.68 × floor", rows[0].measured)
        self.assertIn("355 TFLOP/s", rows[1].measured)
        with self.assertRaises(ValueError):
            parsers.attention_rows("a")(outcome("nothing"))

    def test_sampling_table(self):
        text = ("what                 rows       us  floor us\n"
                "top-k, top-p           32   167.69      3.61\n")
        rows = parsers.sampling_rows("s")(outcome(text))
        self.assertEqual((rows[0].what, rows[0].measured), ("top-k, top-p, 32 rows", "167.69 µs"))

    def test_moe_table(self):
        text = ("HBM read 4525 GB/s, cuBLAS 8192³ 791 TFLOP/s\n\n"
                "model        tokens         experts  us/layer  floor us  x floor  TFLOP/s  of peak\n"
                "Qwen3-30B         1 front       8.0      27.4      16.7     1.64        3     0.00\n"
                "Qwen3-30B         1             8.0      29.6      16.7     1.77        3     0.00\n"
                "Qwen3-30B      8192           128.0    1844.1     266.9     6.91      335     0.42\n"
                "Mixtral-8x7B      1 front       2.0     191.3     155.7     1.23        4     0.00\n"
                "Mixtral-8x7B   8192             8.0   15352.2     622.9    24.65      376     0.48\n")
        rows = parsers.moe_rows("m")(outcome(text))
        self.assertEqual([(row.what, row.measured, row.limit) for row in rows[:2]],
                         [("Qwen3-30B's experts, 1 tokens, norm and router with them",
                           "1.64 × floor (27.4 µs a layer)", "16.7 µs (HBM read)"),
                          ("Qwen3-30B's experts, 1 tokens", "1.77 × floor (29.6 µs a layer)",
                           "16.7 µs (HBM read)")])
        self.assertEqual([row.values["share"] for row in rows], ["0.00", "0.00", "0.42", "0.00", "0.48"])
        self.assertEqual((rows[4].values["model"], rows[4].values["tokens"]), ("Mixtral-8x7B", "8192"))
        with self.assertRaises(ValueError):  # a column too few, or a table without rows
            parsers.moe_rows("m")(outcome(text.replace("     0.48", "")))
        with self.assertRaises(ValueError):
            parsers.moe_rows("m")(outcome(text.replace("1.23        4     0.00", "1.23        4")))
        with self.assertRaises(ValueError):
            parsers.moe_rows("m")(outcome(text.split("Qwen3")[0]))

    def test_engine(self):
        document = {"runs": [{"requests": 300, "ratio": r, "total_s": 9.0, "floor_s": 7.0}
                             for r in (1.5, 1.3, 1.2)],
                    "decode": [{"batch": 8, "in_engine_ms": 5.0, "not_overlapped_share": 0.04}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            rows = parsers.engine_rows("e", 1.35, 0.03)(
                outcome("", files={"json": Path(file.name)}))
        self.assertEqual([r.verdict for r in rows], ["pass", "miss"])
        self.assertTrue(rows[0].measured.startswith("1.30 ×"))

    def test_figures(self):
        first = {"what": "first token", "unit": "ms", "measured": 280.0, "limit": 270.0,
                 "limit_name": "link", "wanted": 290.0, "met": True}
        bytes_crossed = {"what": "bytes", "unit": "GB", "measured": 15.2, "limit": 15.0,
                         "limit_name": "once", "wanted": 15.1, "met": False}
        alone = {"what": "cached", "unit": "ms", "measured": 12.0, "limit": 0, "limit_name": "",
                 "wanted": 0, "met": True}
        rate = {"what": "ours", "unit": "GB/s", "measured": 95.0, "limit": 97.0, "limit_name": "raw",
                "wanted": 94.0, "at_least": True, "met": True}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"rows": [first, bytes_crossed, alone, rate]}, file)
            file.flush()
            rows = parsers.figure_rows("s")(outcome("", files={"json": Path(file.name)}))
        self.assertEqual([r.verdict for r in rows], ["pass", "miss", "measured", "pass"])
        self.assertEqual(rows[3].wanted, "≥ 94.00 GB/s")
        self.assertEqual((rows[0].limit, rows[0].wanted), ("270.00 ms (link)", "≤ 290.00 ms"))
        self.assertEqual((rows[2].limit, rows[2].wanted), ("", ""))

    def test_slo(self):
        def row(policy, both, tokens, again=0):
            return {"policy": policy, "rate": 9, "both_attained": both, "failed": 0,
                    "output_tokens_per_second": tokens, "recomputed_tokens": again}

        def verdicts(*rows):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump({"rows": rows}, file)
                file.flush()
                made = parsers.slo_rows("s")(outcome("", files={"json": Path(file.name)}))
            return [one.verdict for one in made], made[-1].wanted
        fcfs = row("fcfs:recompute", 0.5, 4000, 900)
        self.assertEqual(verdicts(fcfs, row("rotary:rotate", 0.5, 3950)),
                         (["measured", "pass"], "≥ 50.0 %, 3920 tokens/s, 0 computed again"))
        for worse in (row("rotary:rotate", 0.49, 4000), row("rotary:rotate", 1, 3900),
                      row("rotary:rotate", 1, 4000, 1)):
            self.assertEqual(verdicts(fcfs, worse)[0], ["measured", "miss"])

    def test_workloads(self):
        row = {"workload": "sleep mode", "what": "m", "phase": "wake", "preloaded": 0.5,
               "speed_up": 1.5, "limit": 0.4}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"rows": [row]}, file)
            file.flush()
            rows = parsers.workload_rows("w")(outcome("", files={"json": Path(file.name)}))
        self.assertEqual((rows[0].what, rows[0].measured, rows[0].limit),
                         ("sleep mode: m, wake", "500.0 ms, 1.50 × bare",
                          "400.0 ms (best set of links)"))

    def test_home(self):
        lines = [{"sms": 132, "m": 0, "way": "floor", "alpha": 0, "ms": 2.6},
                 {"sms": 132, "m": 16, "way": "ring", "alpha": 0, "ms": 2.8},
                 {"sms": 132, "m": 16, "way": "symmetric", "alpha": 1, "ms": 2.7},
                 {"sms": 132, "m": 16, "way": "resident", "alpha": 0, "ms": 0.04},
                 {"sms": 132, "m": 16, "way": "chunked", "alpha": 0, "ms": 2.5}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(lines, file)
            file.flush()
            rows = parsers.home_rows("h")(outcome("", files={"json": Path(file.name)}))
        self.assertEqual(rows[0].measured, "2.700 ms (symmetric, α 1)")
        self.assertIn("2.500 ms (chunked)", rows[0].limit)

    def test_transfer(self):
        rows = [{"part": "sizes", "what": "in 1 GiB", "bar": {"wanted": "≤ 2 %", "met": False},
                 "figures": {"ours GB/s": 99.5, "native GB/s": 55.1}},
                {"part": "sizes", "what": "in 64 KiB", "figures": {"ours GB/s": 5.0}},
                {"part": "gpus", "what": "in 2, best 0,1", "figures": {"best GB/s": 100.0}},
                {"part": "cpu", "what": "idle", "bar": {"wanted": "≤ 2 %", "met": True},
                 "figures": {"processor %": 0.5}}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"rows": rows}, file)
            file.flush()
            made = parsers.transfer_rows("t")(outcome("", files={"json": Path(file.name)}))
        self.assertEqual([row.verdict for row in made], ["miss", "measured", "pass"])
        self.assertEqual((made[0].measured, made[0].limit), ("99.50 GB/s", "55.10 GB/s (native)"))
        self.assertEqual(made[2].measured, "0.50 %")


class Sanitizer(unittest.TestCase):
    def reason(self, script):
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder, "tool")
            tool.write_text("#!/bin/sh\n" + script)
            tool.chmod(0o755)
            return machine.why_no_sanitizer(str(tool), "memcheck", tool, {})

    def test_is_used_only_when_it_finds_the_planted_error(self):
        self.assertEqual(self.reason("echo '========= ERROR SUMMARY: 1 error'"), "")
        blind = self.reason("echo '========= ERROR SUMMARY: 0 errors'")
        self.assertIn("does not find a planted error", blind)
        self.assertIn("Device not supported", self.reason("echo 'Device not supported'"))
        self.assertIn("not here", machine.why_no_sanitizer(None, "memcheck", Path("x"), {}))


class Report(unittest.TestCase):
    def test_table_tally_and_file(self):
        rows = [Row("a", "x", "1 ×", "2", "≤ 1", "pass"), Row("b", "no GPU", verdict="skip")]
        lines = report.table(rows).splitlines()
        self.assertEqual(lines[0].split(), list(report.HEADINGS))
        self.assertTrue(lines[2].endswith("pass"))
        self.assertEqual(report.tally(rows), "1 pass, 1 skip")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.json")
            report.write_json(path, rows, {"commit": "c"})
            document = json.loads(path.read_text())
        self.assertEqual((document["commit"], len(document["rows"])), ("c", 2))

    def test_exit_status(self):
        def status(*verdicts):
            return gpu_check.exit_status([Row("a", "b", verdict=v) for v in verdicts])
        self.assertEqual([status("pass", "skip"), status("measured", "miss")], [0, 0])
        self.assertEqual([status("pass", "fail"), status("skip"), status()], [1, 1, 1])

    def test_a_verdict_must_be_known(self):
        with self.assertRaises(AssertionError):
            Row("a", "b", verdict="maybe")


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        unittest.main()
