#!/usr/bin/env python3
"""`causeway replay` against a real server and in the simulator: the same requests, the same report."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, run_causeway

PLOT = Path(__file__).resolve().parents[2] / "tools/plot/plot.py"
LENGTHS = ("--input-len", 24, "--output-len", 6)


def trace_of(requests):
    """A trace of requests a second apart, to these models."""
    lines = ["gmt_create,a,b,c,d,e,f,g,h,checkpoint_model_version_id,n"]
    lines += [f"2024-11-15 16:{i // 60:02}:{i % 60:02},T,S,1,G,6,2,1,3,{model},0"
              for i, model in enumerate(requests)]
    return "\n".join(lines) + "\n"


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.models = cls.root / "models"
        made = run_causeway("make-catalogue", cls.models, "--models", 3, "--tiny")
        assert made.returncode == 0, made.stderr
        cls.trace = cls.root / "trace.csv"
        cls.trace.write_text(trace_of(("x", "x", "y", "x", "z", "y") * 5))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def replay(self, *arguments, name="replay"):
        """The JSON of a replay, and what it printed."""
        file = self.root / f"{name}.json"
        done = run_causeway("replay", "--json", file, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(file.read_text()), done.stdout

    def check(self, document):
        """15 requests to the most popular model, the first of the catalogue; 10 and 5 to the others."""
        self.assertEqual((document["all"]["requests"], document["all"]["failed"]), (30, 0), document)
        self.assertEqual([model["requests"] for model in document["models"]], [15, 10, 5])
        self.assertEqual(document["all"]["output_tokens"], 30 * 6)
        self.assertEqual(document["short_answers"], 0)
        self.assertEqual(sum(slot["arrivals"] for slot in document["slots"]), 30)
        self.assertEqual(document["slots"][-1]["running"], 0)

    def test_a_server_and_the_simulator_are_asked_the_same(self):
        asked = ("--trace", self.trace, "--compress", 15, *LENGTHS, "--slo-ttft-ms", 60_000,
                 "--slo-tpot-ms", 10_000)
        # A tiny model takes an extent of 32 MiB of the cache: they take turns.
        with RunningServer("--models-dir", self.models, *TINY_MEMORY, "--weights-memory-bytes",
                           "64mb") as server:
            served, printed = self.replay("--url", server.url, "--wait-ready", 60,
                                          "--per-model", *asked, name="served")
        self.check(served)
        self.assertEqual(served["mode"], "server")
        self.assertEqual(served["all"]["slo_attained"], 1, served)
        self.assertEqual(served["slo_ttft_ms"], 60_000)
        self.assertGreater(served["counters"]["switches"], 0)
        self.assertGreater(served["counters"]["link_bytes"]["weights in"], 0)
        self.assertGreater(served["duration_s"], 29 / 15)
        for said in ("30 requests to 3 of 3 models", "both: 100.00 %", "switches of", "m00-"):
            self.assertIn(said, printed)

        simulated, printed = self.replay("--simulate", "--models-dir", self.models, "--hardware", "h200",
                                         "--slices", 2, "--beside", self.root / "served.json", *asked,
                                         name="simulated")
        self.check(simulated)
        self.assertEqual(simulated["mode"], "simulated")
        self.assertIn("2 slices", printed)
        self.assertRegex(printed, r"simulated +server +more\nrequests +30.0 +30.0 +\+0.0 %")
        self.assertEqual([model["model"] for model in simulated["models"]],
                         [model["model"] for model in served["models"]])
        drawn = subprocess.run([sys.executable, PLOT, self.root / "served.json",
                                self.root / "simulated.json", self.root / "chart"],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertEqual(len(drawn.stdout.splitlines()), 5)

    def test_without_a_server_the_same_is_asked(self):
        asked = ("--trace", self.trace, "--compress", 15, *LENGTHS, "--slo-ttft-ms", 60_000,
                 "--slo-tpot-ms", 10_000, "--vocab-size", 500, "--wait-ready", 60)
        for more in ((), ("--isolate",), ("--switching", "reload")):
            here, printed = self.replay("--in-process", "cpu", "--models-dir", self.models,
                                        *TINY_MEMORY, "--weights-memory-bytes", "64mb", *more, *asked,
                                        name="here")
            self.check(here)
            self.assertEqual(here["mode"], "in-process")
            self.assertEqual(here["all"]["slo_attained"], 1, here)
            self.assertGreater(here["counters"]["switches"], 0)
            self.assertGreater(here["counters"]["link_bytes"]["weights in"], 0)
            self.assertGreater(here["duration_s"], 29 / 15)
            self.assertIn("1 slice of this CPU", printed)

    def test_a_vocabulary_that_models_lack_is_told_before_anything_is_asked(self):
        with RunningServer("--models-dir", self.models, *TINY_MEMORY) as server:
            done = run_causeway("replay", "--url", server.url, "--trace", self.trace, *LENGTHS,
                                "--vocab-size", 8192)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "--vocab-size 8192: m00-.* has 512 tokens only")

    def test_requests_that_fail_are_in_the_report(self):
        with RunningServer("--models-dir", self.models, *TINY_MEMORY, "--max-queue", 1) as server:
            document, printed = self.replay("--url", server.url, "--rate", 1000, "--seconds", 0,
                                            "--max-requests", 30, "--wait-ready", 60, *LENGTHS,
                                            "--vocab-size", 500)
        self.assertGreater(document["errors"]["HTTP 429"], 0)
        self.assertEqual(sum(document["errors"].values()), document["all"]["failed"])
        self.assertLess(document["all"]["slo_attained"], 1.001 - document["all"]["failed"] / 30)
        self.assertIn("HTTP 429", printed)

    def test_the_catalogue_of_the_simulator_needs_no_files(self):
        documents = [self.replay("--simulate", "--catalogue", 20, "--hardware", "h200", "--rate", 20,
                                 "--seconds", 10, "--weights-memory-bytes", "8gb", *LENGTHS)[0]
                     for _ in range(2)]
        self.assertEqual(documents[0], documents[1])
        self.assertGreater(documents[0]["all"]["requests"], 100)
        self.assertGreater(documents[0]["counters"]["switches"], 5)

    def test_a_model_whose_experts_are_cached_gives_way_to_others(self):
        """On a simulated slice that holds no large mixture of experts whole."""
        document = self.replay("--simulate", "--catalogue", 18, "--catalogue-kind", "moe", "--hardware",
                               "h100", "--slices", 1, "--weights-memory-bytes", "2340mb",
                               "--kv-cache-memory-bytes", "1170mb", "--rate", 5, "--zipf", 0,
                               "--seconds", 30, *LENGTHS)[0]
        self.assertEqual(document["all"]["failed"], 0, document["errors"])
        self.assertGreater(document["all"]["requests"], 100)

    def test_a_simulated_gpu_has_parts(self):
        for slices, count in (("all", "1 slice,"), ("4x24", "4 slices,"), ("7x16", "7 slices,")):
            _, printed = self.replay("--simulate", "--catalogue", 10, "--hardware", "h100",
                                     "--slices", slices, "--rate", 10, "--seconds", 5,
                                     "--weights-memory-bytes", "30gb", *LENGTHS)
            self.assertIn(count, printed)

    def test_what_is_wrong_is_said(self):
        cut = self.root / "cut.csv"
        cut.write_text(trace_of(("x", "y"))[:-4])
        for arguments, said in (
                ((), "one of --url of a server, --in-process, and --simulate"),
                (("--url", "http://127.0.0.1:1", "--simulate"), "one of --url"),
                (("--in-process", "cpu", "--simulate"), "one of --url"),
                (("--in-process", "cpu"), "--in-process: give --models-dir"),
                (("--in-process", "tpu"), "cuda"),
                (("--in-process", "cpu", "--models-dir", self.root / "none"), "none"),
                (("--in-process", "cpu", "--models-dir", self.models, "--slices", 2, *TINY_MEMORY),
                 "is no COUNTxSIZE"),
                (("--in-process", "cpu", "--models-dir", self.models, "--hybrid-gemm"),
                 "only simulated steps"),
                (("--url", "http://127.0.0.1:1"), "is the server running"),
                (("--simulate", "--trace", cut), "cut.csv:3: not of the file's format"),
                (("--simulate", "--trace", self.trace, "--skip", 1000), "none of its 30 requests"),
                (("--simulate", "--hardware", "abacus"), "abacus"),
                (("--simulate", "--beside", self.trace), "not the JSON file of a replay"),
                (("--simulate", "--slo-ttft-ms", 0), "--slo-ttft-ms"),
                (("--simulate", "--slices", "5x32"), "need 160 SMs together: GPU 0 has 132"),
                (("--simulate", "--slices", "1x64,2x24"), "such as 3x40, not 1x64,2x24"),
                (("--simulate", "--slices", "3x24"), "such as 3x40, not 3x24"),
                (("--simulate", "--models-dir", self.root / "none"), "none")):
            done = run_causeway("replay", *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(said, done.stderr, arguments)


if __name__ == "__main__":
    unittest.main()
