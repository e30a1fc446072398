#!/usr/bin/env python3
"""The benches that run a slice in their process, on the CPU with tiny models: their parts, their JSON,
charts of it. What they measure here means nothing; that they measure does."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from running_server import make_model, run_causeway

PLOT = Path(__file__).resolve().parents[2] / "tools/plot/plot.py"
# A link on which the models below take some milliseconds.
PLACE = ("--device", "cpu", "--kv-frame-bytes", "16kb", "--modelled-link", "2e9")
MEMORY = ("--kv-cache-memory-bytes", "64mb")
# KV's bench has no slice. Slow enough that copies of memory do not count.
KV_PLACE = ("--device", "cpu", "--modelled-link", "4e8")


class Benches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        # Layers of 6 MB, more than the two extents that the cache has to spare: a switch moves all.
        sizes = {"hidden": 512, "intermediate": 512, "vocab": 512}
        cls.small = make_model(cls.root / "small", layers=2, **sizes) / "config.json"
        cls.large = make_model(cls.root / "large", layers=3, **sizes) / "config.json"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def bench(self, name, *arguments):
        """The JSON of a run, and what it printed."""
        file, temporary = self.root / f"{name}.json", self.root / "temporary"
        temporary.mkdir(exist_ok=True)
        done = run_causeway("bench", name, *PLACE, "--json", file, *arguments, timeout=200,
                            environment={"TMPDIR": str(temporary)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(temporary.iterdir()), [], "files stay behind")
        return json.loads(file.read_text()), done.stdout

    def rows(self, document):
        rows = {row["what"]: row for row in document["rows"]}
        self.assertEqual(len(rows), len(document["rows"]), "two figures of one name")
        for row in rows.values():
            self.assertGreater(row["samples"], 0, row)
            self.assertLessEqual(row["least"], row["most"], row)
        return rows

    def charts(self, name):
        drawn = subprocess.run([sys.executable, PLOT, self.root / f"{name}.json", self.root / "chart"],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        return [Path(line).name for line in drawn.stdout.splitlines()]

    def test_model(self):
        file = self.root / "model.json"
        done = run_causeway("bench", "model", "--device", "cpu", "--model-config", self.small,
                            "--batch", "1,3", "--context", "20", "--prefill", "16", "--runs", "5",
                            "--json", file, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(file.read_text())
        self.assertEqual([(row["name"], row["shape"]) for row in rows],
                         [("decode", "batch 1, context 20"), ("decode", "batch 3, context 20"),
                          ("prefill", "16 tokens")])
        one, three, prefill = (row["tokens_per_s"] for row in rows)
        # Three tokens of a step read the weights once, which are most of what it reads.
        self.assertAlmostEqual(rows[0]["measured"] / one * 0.4, rows[1]["measured"] / three,
                               delta=rows[0]["measured"] / one * 0.1)
        self.assertGreater(prefill, 0)

    def test_switch(self):
        document, printed = self.bench(
            "switch", "--model-config", self.small, "--rounds", 2, "--prompt", 8, "--output", 4,
            "--neighbour-batch", 2, "--neighbour-context", 8, "--neighbour-output", 3000,
            "--baselines", "--from-disk", *MEMORY)
        rows = self.rows(document)
        self.assertIn("first token, from home", printed)
        for way in ("", ", beside a neighbour"):
            for start in ("", ", all cached", ", at once"):
                self.assertGreater(rows[f"first token, from home{way}{start}"]["limit"], 0)
            self.assertIn(f"first token, Zipf order{way}", rows)
            self.assertIn(f"second token after a switch{way}", rows)
        slept = rows["first token, another copied out before, all cached"]
        self.assertGreater(slept["measured"], slept["limit"] / 2)
        for baseline in ("full reload", "sleep and wake"):
            self.assertGreater(rows[f"first token from home ÷ {baseline}"]["wanted"], 0)
        self.assertEqual(rows["bytes that switches moved out"]["measured"], 0)
        crossed = rows["link bytes of a switch"]
        self.assertGreaterEqual(crossed["measured"], crossed["limit"])
        self.assertGreater(crossed["limit"], 0)
        for files in ("files in the page cache", "the disk"):
            self.assertGreater(rows[f"first token, from {files}"]["limit"], 0)
        self.assertEqual(self.charts("switch"), ["chart-first-token.svg"])

    def test_switch_between_two_shapes(self):
        document, _ = self.bench("switch", "--model-config", self.large, "--model-config", self.small,
                                 "--models", 4, "--rounds", 1, "--prompt", 8, "--output", 4,
                                 "--neighbour-batch", 0, *MEMORY)
        rows = self.rows(document)
        for model in ("small", "large"):
            self.assertIn(f"first token, model cached, {model}", rows)
            self.assertIn(f"first token, A→B→A, both cached, {model}", rows)
        self.assertNotIn("its longest gap", rows)

    def test_catalogue(self):
        document, printed = self.bench(
            "catalogue", "--model-config", self.large, "--models", 5, "--weights-memory-bytes", "48mb",
            "--rate", 20, "--seconds", 2, "--prompt", 8, "--output", 4, *MEMORY)
        self.assertEqual(document["failed"], 0, document["first_error"])
        self.assertGreater(document["requests"], 5)
        self.assertGreater(document["link_bytes"], 0)
        by_percent = document["first_token_ms"]["by_percent"]
        self.assertEqual(by_percent, sorted(by_percent))
        self.assertEqual(len(by_percent), 101)
        self.assertIn("first token: median", printed)
        self.assertEqual(self.charts("catalogue"), ["chart-catalogue.svg"])

    def test_slo(self):
        document, printed = self.bench(
            "slo", "--model-config", self.small, "--rate", "20,60", "--seconds", 1, "--input-len", 24,
            "--output-len", 24, "--scheduling-policy", "fcfs,rotary", "--kv-cache-memory-bytes", "512kb",
            "--kv-host-memory-bytes", "16mb")
        self.assertEqual([(row["rate"], row["policy"]) for row in document["rows"]],
                         [(20, "fcfs:recompute"), (20, "rotary:rotate"),
                          (60, "fcfs:recompute"), (60, "rotary:rotate")])
        for row in document["rows"]:
            self.assertEqual(row["failed"], 0, row)
            self.assertGreater(row["requests"], 5)
            self.assertGreater(row["output_tokens_per_second"], 0)
            self.assertLessEqual(row["both_attained"], min(row["ttft_attained"], row["tpot_attained"]))
        last = document["rows"][-1]
        self.assertGreater(last["rotations"] + last["blocks_eager_out"], 0)
        self.assertIn("rotary:rotate", printed)
        self.assertEqual(self.charts("slo"), ["chart-slo-attained.svg", "chart-slo-attained-ttft.svg",
                                              "chart-slo-throughput.svg"])

    def test_engine(self):
        trace = self.root / "lengths.csv"
        trace.write_text("num_prefill_tokens,num_decode_tokens\n" +
                         "".join(f"{5 + i},4\n" for i in range(6)))
        document, printed = self.bench("engine", "--model-config", self.small, "--batch", "1,3",
                                       "--context", 8, "--output", 12, "--runs", 1, "--trace", trace)
        self.assertEqual([one["batch"] for one in document["decode"]], [1, 3])
        for one in document["decode"]:
            self.assertIn(one["steps"], range(1, 11))  # of 12 tokens; a prompt's is none
            self.assertGreaterEqual(one["in_engine_ms"], one["on_gpu_ms"] * 0.9)
            self.assertGreater(one["floor_ms"], 0)
        run, = document["runs"]
        self.assertEqual((run["requests"], run["output_tokens"]), (6, 24))
        self.assertGreaterEqual(run["total_s"], run["on_gpu_s"])
        self.assertAlmostEqual(run["ratio"], run["total_s"] / run["floor_s"])
        self.assertIn("limits at the beginning", printed)

    def test_load(self):
        document, _ = self.bench("load", "--model-config", self.small, "--starts", 1, "--loads", 2,
                                 "--tokens", 40, "--context", 8, "--output", 3000,
                                 "--pool-memory-bytes", "256mb", "--disk-dir", self.root / "kept",
                                 *MEMORY)
        rows = self.rows(document)
        start = rows["causeway serve to the first token"]
        self.assertGreater(start["measured"], start["limit"])
        self.assertAlmostEqual(start["wanted"], 1.2 * start["limit"] + 1.5)
        self.assertGreaterEqual(rows["between tokens, alone, p99"]["samples"], 40)
        for share in ("median", "p99"):
            self.assertEqual(rows[f"between tokens, another is loaded, {share}"]["limit"],
                             rows[f"between tokens, alone, {share}"]["measured"])
        self.assertTrue((self.root / "kept/small/config.json").exists())

    def test_kv(self):
        file = self.root / "kv.json"
        done = run_causeway("bench", "kv", *KV_PLACE, "--bytes", "32mb", "--block-bytes", "256kb",
                            "--per-step", 16, "--model-config", self.small, "--model-config", self.large,
                            "--json", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(file.read_text())
        self.assertEqual((document["bench"], document["bytes_each_way"]), ("kv", 16 << 20))
        rows = self.rows(document)
        raw = rows["raw limit, both ways"]
        for row in rows.values():
            self.assertEqual(row["samples"], 5, row)
            self.assertEqual(row["limit"], raw["measured"], row)
        self.assertLess(raw["measured"], 1.01 * 1.8 * 0.4)  # the modelled link's both ways together
        self.assertGreater(rows["ours, duplex"]["measured"], rows["ours, only out"]["measured"])
        self.assertAlmostEqual(rows["ours, duplex"]["wanted"], 0.97 * raw["measured"])
        self.assertTrue(rows["ours, duplex"]["at_least"])
        for shape, layers in zip(document["shapes"], (2, 3)):
            self.assertIn(f"per-layer loop, {shape['name']}", rows)
            self.assertEqual(shape["layered_segments"], 2 * layers)
            self.assertLessEqual(shape["layered_bytes_each_way"], 16 << 20)
        self.assertIn("ours, duplex", done.stdout)

    def test_kv_says_what_is_wrong(self):
        for arguments, said in (
                (("--bytes", "300kb", "--block-bytes", "256kb"), "at least 524288"),
                (("--bytes", "1kb", "--block-bytes", "1kb"), "at least 2048"),
                (("--bytes", "9pb"), "must be from"),
                (("--block-bytes", "64mb"), "must be from"),
                (("--bytes", "64mb", "--block-bytes", "3mb"), "whole number of frames"),
                (("--bytes", "1mb", "--block-bytes", "64kb"), "does not fit a frame"),
                (("--bytes", "16mb", "--gpu", 1), "there are 1"),
                (("--runs", 2), "must be from"),
                (("--per-step", 0), "must be from")):
            done = run_causeway("bench", "kv", *KV_PLACE, *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(said, done.stderr, arguments)

    def test_explain_needs_no_gpu(self):
        done = run_causeway("bench", "model", "--model-config", self.small, "--explain", "--sms", 16,
                            "--batch", "1,100", "--prefill", 300)
        self.assertEqual(done.returncode, 0, done.stderr)
        for said in ("16 SMs", "decode, batch 1,", "decode, batch 100,", "prefill, 300 tokens",
                     "layers 0 to 1, each", "gate and up"):
            self.assertIn(said, done.stdout)

    def test_what_is_wrong_is_said(self):
        for arguments, said in (
                (("switch",), "--model-config is required"),
                (("engine", "--model-config", self.small), "nothing to measure"),
                (("engine", "--model-config", self.small, "--batch", 9, "--max-num-seqs", 8),
                 "--max-num-seqs"),
                (("load", "--model-config", self.small, "--model-config", self.large), "one is enough"),
                (("load", "--model-config", self.small, "--disk-dir", self.small), "small")):
            done = run_causeway("bench", *arguments, *PLACE)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(said, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
