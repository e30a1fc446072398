#!/usr/bin/env python3
"""`causeway profile --model-config` on the CPU, and servers that choose chunks by what it measured:
docs/design/chunks.md. What it measures here means little; that servers go by it does."""

import concurrent.futures
import json
import re
import subprocess
import unittest

from running_server import BINARY, ModelsFolder, RunningServer, make_model, run_causeway

STEP = 256  # tokens of the largest step
# As `running_server` has them, whatever device it serves on.
MEMORY = ("--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes", "16mb", "--pool-memory-bytes",
          "256mb", "--device", "cpu")
AUTO = ("--chunk", "auto", "--max-num-batched-tokens", STEP)
NO_TABLE = "has no table of this shape"


class ChunkProfile(ModelsFolder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sizes = {"dtype": "f32", "hidden": 64, "vocab": 512}
        cls.model = make_model(cls.root / "model", layers=2, **sizes)
        cls.other = make_model(cls.root / "other", layers=3, **sizes)
        cls.file = cls.root / "profile.json"
        cls.done = run_causeway(
            "profile", "--device", "cpu", "--model-config", cls.model / "config.json", "--slices", "all",
            "--slices", "1x1", "--max-num-batched-tokens", STEP, "--decodes", 3, "--context", 20,
            "--runs", 3, "--out", cls.file, timeout=300)

    def changed(self, change):
        """A file of the profile, changed."""
        profile = json.loads(self.file.read_text())
        change(profile)
        file = self.root / "changed.json"
        file.write_text(json.dumps(profile))
        return file

    def serve(self, *arguments, model=None):
        return RunningServer(model or self.model, *MEMORY, *AUTO, *arguments)

    def refused(self, *arguments):
        """What a server says that does not start."""
        done = subprocess.run([BINARY, "serve", self.model, "--port", "0", *MEMORY,
                               *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr.splitlines()[-1]

    def test_a_profile_has_each_size_of_each_slice(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertRegex(self.done.stderr, r"model, \d+ processors: 256 tokens, 6 of 6")
        self.assertIn("ttft ms", self.done.stdout)
        profile = json.loads(self.file.read_text())
        self.assertEqual(profile["device"], "cpu")
        self.assertRegex(profile["commit"], r"^([0-9a-f]{40}( and changes)?|unknown)$")
        self.assertEqual(profile["tables"][-1]["processors"], 1)
        for table in profile["tables"]:
            self.assertEqual([step["tokens"] for step in table["steps"]],
                             [1, 64, 96, 128, 192, STEP])
            self.assertEqual((table["decodes"], table["context"], table["runs"]), (3, 20, 3))
            for step in table["steps"]:
                self.assertGreater(step["ttft_ms"], 0)
                self.assertGreater(step["tpot_ms"], 0)
                self.assertGreaterEqual(step["gamma_o"], 1)
            # 256 times the tokens take longer, whatever else this machine does.
            self.assertGreater(table["steps"][-1]["ttft_ms"], table["steps"][0]["ttft_ms"])

    def ask(self, server, model):
        """A request that decodes, and prompts of several chunks beside it."""
        with concurrent.futures.ThreadPoolExecutor() as threads:
            asked = [threads.submit(server.complete, model, [7 + n] * (40 + 150 * n), max_tokens=30,
                                    temperature=0, ignore_eos=True) for n in range(4)]
            return [one.result()["choices"][0]["text"] for one in asked]

    def test_a_server_begins_with_it(self):
        with self.serve("--chunk-profile", self.file) as server:
            answers = self.ask(server, "model")
        self.assertNotIn(NO_TABLE, "".join(server.log))
        with self.serve() as server:
            self.assertEqual(self.ask(server, "model"), answers, "chunks change no answer")

    def test_the_log_tells_of_a_shape_that_is_not_in_it_once(self):
        with self.serve("--chunk-profile", self.file, model=self.other) as server:
            self.ask(server, "other")
            self.ask(server, "other")
        told = [line for line in server.log if NO_TABLE in line]
        self.assertEqual(len(told), 1, server.log)
        self.assertIn(str(self.file), told[0])
        self.assertIn("3 layers of 64", told[0])

    def test_workers_have_it_too(self):
        with self.serve("--chunk-profile", self.file, "--isolate") as server:
            self.ask(server, "model")
        self.assertNotIn(NO_TABLE, "".join(server.log))

    def test_bad_files_are_named(self):
        def says(file, *parts):
            said = self.refused(*AUTO, "--chunk-profile", file)
            for part in (str(file), *parts):
                self.assertIn(part, said)

        says(self.root / "nowhere.json")
        cut = self.root / "cut.json"
        cut.write_text(self.file.read_text()[:400])
        says(cut, "byte")
        says(self.changed(lambda p: p.update(machine="NVIDIA H200")), "machine", "NVIDIA H200")
        says(self.changed(lambda p: p.update(version=9)), "version is 9")
        says(self.changed(lambda p: p["tables"][0]["steps"][2].update(tpot_ms=-4)), "tables[0]",
             "steps[2]", "tpot_ms is -4")
        says(self.changed(lambda p: p["tables"][0]["steps"].pop(1)), "tables[0]", "steps[1]")
        said = self.refused("--chunk", "auto", "--max-num-batched-tokens", 2 * STEP,
                            "--chunk-profile", self.file)
        self.assertIn("tables[0].steps end at 256 tokens", said)
        self.assertIn("--chunk auto", self.refused("--chunk-profile", self.file))

    def test_the_simulator_takes_it(self):
        arguments = ("simulate", "--hardware", "cpu-2core", "--model-config", self.model,
                     "--num-prompts", 5, "--request-rate", 50, *AUTO, "--kv-frame-bytes", "16kb",
                     "--kv-cache-memory-bytes", "64mb")
        file = self.changed(lambda p: p["tables"][0].update(
            shape=re.sub("F32", "BF16", p["tables"][0]["shape"])))
        done = run_causeway(*arguments, "--chunk-profile", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("has no table", done.stderr)
        done = run_causeway(*arguments, "--chunk-profile", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has no table of the shape of model", done.stderr)
        done = run_causeway(*arguments, "--chunk-profile", file, "--slices", 2)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--slices", done.stderr)

    def test_options_of_the_other_profile_are_refused(self):
        config = self.model / "config.json"
        for options, said in ((("--quick",), "--quick"), (("--home", "host"), "--home"),
                              (("--slices", "7x9000"), "--slices 7x9000")):
            done = run_causeway("profile", "--device", "cpu", "--model-config", config, *options,
                                "--out", self.root / "none.json")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
        done = run_causeway("profile", "--device", "cpu", "--model-config", config, "--runs", 3,
                            "--max-num-batched-tokens", 1, "--out", self.root / "no" / "folder")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    unittest.main()
