#!/usr/bin/env python3
"""`causeway serve --device cuda` when the GPU is full, faulty or not there. Standard library only.

Exit code 77: no GPU. CAUSEWAY_FAULTY_DRIVER names faulty_driver.cc as a shared library; without it
the faults that only it can plant are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from running_server import BINARY, RunningServer, make_model, run_causeway

FAULTY_DRIVER = os.environ.get("CAUSEWAY_FAULTY_DRIVER")
OPTIONS = {"device": "cuda", "kv-frame-bytes": "256kb", "kv-cache-memory-bytes": "256mb",
           "pool-memory-bytes": "1gb", "max-num-batched-tokens": 512, "max-num-seqs": 16}
needs_faulty_driver = unittest.skipUnless(FAULTY_DRIVER, "CAUSEWAY_FAULTY_DRIVER is unset")


def gpus():
    """How many programs see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return sum(1 for name in visible.split(",") if name.strip())
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return len(listed.stdout.splitlines())


def options(**changed):
    wanted = {**OPTIONS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return [part for name, value in wanted.items() for part in (f"--{name}", value)]


def make(root, name, **shape):
    return make_model(root / name, **{"hidden": 256, "intermediate": 512, "dtype": "bf16", **shape})


class GpuFaults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name) / "models"
        self.root.mkdir()
        self.fault = Path(self.folder.name) / "fault"
        # The linker cuts LD_PRELOAD at spaces, which LD_LIBRARY_PATH may have.
        folders = [os.path.dirname(FAULTY_DRIVER or ""), os.environ.get("LD_LIBRARY_PATH")]
        self.environment = {"LD_PRELOAD": os.path.basename(FAULTY_DRIVER or ""),
                            "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
                            "CAUSEWAY_FAULT_FILE": self.fault}

    def refused(self, model, **changed):
        """What a server says that does not start."""
        done = run_causeway("serve", model, "--port", 0, *options(**changed))
        self.assertIn(done.returncode, (1, 2), done.stderr)
        return done.stderr

    def test_bad_options_say_what_to_do(self):
        model = make(self.root, "m")
        self.assertRegex(self.refused(model, gpu=99), r"(--gpu|no GPU) 99: .* sees \d+ GPU.*topology")
        for share in (0, 7, -1, "nan", "much"):
            self.assertIn("--gpu-memory-utilization",
                          self.refused(model, gpu_memory_utilization=share))
        self.assertIn("--max-num-batched-tokens",
                      self.refused(model, max_num_batched_tokens=1000000))

    def test_too_little_memory_names_the_numbers(self):
        said = self.refused(make(self.root, "m"), kv_cache_memory_bytes="100tb")
        self.assertRegex(said, r"has \d+ MiB, \d+ MiB of them free.*KV \d{8,9} MiB.*utilization")

    def test_a_cache_that_holds_no_model_or_more_than_there_is_names_the_numbers(self):
        large = make(self.root, "m", vocab=100000)  # its embedding and head take more than an extent
        self.assertRegex(self.refused(large, weights_memory_bytes="32mb"),
                         r"streamed takes \d+ MiB of the device's memory.*may have 32 MiB")
        self.assertRegex(self.refused(large, weights_memory_bytes="100tb"),
                         r"are to have 104857600 MiB of HBM, and the GPU has \d+ MiB.*--weights-memory-bytes")

    def test_models_that_cannot_be_served_leave_the_others_alone(self):
        make(self.root, "good")
        wide = make(self.root, "wide")  # a token's KV is larger than a frame
        large = make(self.root, "large")  # than any GPU
        self.change(wide, num_attention_heads=4096, num_key_value_heads=4096)
        self.change(large, num_hidden_layers=400, hidden_size=65536, intermediate_size=262144,
                    num_key_value_heads=1)
        with RunningServer("--models-dir", self.root, *options()) as server:
            server.complete("good", "x", max_tokens=4)
            log = "".join(server.log)
            self.assertRegex(log, r"large is not available: .*MiB")
            self.assertRegex(log, r"wide is not available: .*frame")
            for name in ("large", "wide"):
                status, answer = server.request("/v1/completions", {"model": name, "prompt": "x"})
                self.assertGreaterEqual(status, 500)
                self.assertIn("could not be loaded", answer["error"]["message"])
            server.complete("good", "x", max_tokens=4)
            self.assertEqual(server.request("/health")[0], 200)

    @staticmethod
    def change(model, **fields):
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    @unittest.skipIf(shutil.which("nvidia-smi") is None, "no nvidia-smi")
    def test_all_that_is_taken_stays_within_the_share(self):
        make(self.root, "dense", layers=8, hidden=1024, heads=16, vocab=32000, **{"kv-heads": 8})
        make(self.root, "sparse", family="qwen3_moe", hidden=1024, heads=16, experts=32,
             **{"kv-heads": 4, "experts-per-token": 4})
        with RunningServer("--models-dir", self.root, "--device", "cuda",
                           "--gpu-memory-utilization", 0.8) as server:
            def client(index):
                for _ in range(2):
                    server.complete(("dense", "sparse")[index % 2], "hello there " * (1 + 3 * index),
                                    max_tokens=40, ignore_eos=True, logprobs=5, seed=index,
                                    presence_penalty=0.5)
            for clients in (1, 4, 16, 60):
                threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            asked = subprocess.run(
                ["nvidia-smi", "--id=0", "--query-gpu=memory.used,memory.total",
                 "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
        used, total = (int(part) for part in asked.stdout.split(","))
        print(f"{used} of {total} MiB used, {0.8 * total:.0f} allowed", file=sys.stderr)
        self.assertLessEqual(used, 0.8 * total)
        self.assertGreater(used, 0.785 * total)

    def check_that_a_load_fails_alone(self, fault, message):
        make(self.root, "first")
        make(self.root, "second", seed=2)
        with RunningServer("--models-dir", self.root, "--load-on-demand", *options(),
                           environment=self.environment) as server:
            server.complete("first", "x", max_tokens=4)
            self.fault.write_text(fault)
            status, answer = server.request("/v1/completions", {"model": "second", "prompt": "x"})
            self.assertGreaterEqual(status, 500)
            self.assertRegex(answer["error"]["message"], message)
            server.complete("first", "x", max_tokens=4)
            self.assertEqual(server.request("/health")[0], 200)
            self.fault.unlink()
            server.complete("second", "x", max_tokens=4)

    @needs_faulty_driver
    def test_memory_that_runs_out_at_load_fails_that_model_until_there_is_some(self):
        self.check_that_a_load_fails_alone(
            "full", r"memory for \d+ extents, \d+ MiB in all: .* gives no more")

    @needs_faulty_driver
    def test_pages_that_cannot_be_registered_fail_that_model_until_they_can(self):
        self.check_that_a_load_fails_alone(
            "unpinned", r"making .*host region \d+ of \d+ MiB reachable for GPU 0")

    @needs_faulty_driver
    def test_a_lost_gpu_ends_requests_and_the_process(self):
        model = make(self.root, "m")
        self.change(model, max_position_embeddings=60000)
        with RunningServer(model, *options(), environment=self.environment) as server:
            server.complete("m", "x", max_tokens=4)
            answers = []

            def long_request():
                answers.append(server.request(
                    "/v1/completions", {"model": "m", "prompt": "x", "max_tokens": 50000,
                                        "ignore_eos": True}))
            threads = [threading.Thread(target=long_request) for _ in range(3)]
            for thread in threads:
                thread.start()
            running = re.compile(r'causeway:num_requests_running{model_name="m"} 3')
            deadline = time.monotonic() + 30
            while not running.search(server.request("/metrics")[1]):
                self.assertLess(time.monotonic(), deadline)
            self.fault.write_text("lost")
            for thread in threads:
                thread.join(20)
                self.assertFalse(thread.is_alive(), "a request hangs")
            status = server.process.wait(20)
            server.reader.join(10)
            self.assertEqual(status, 1)
            self.assertRegex(server.log[-1], r"^error: GPU 0 \(.*\) is lost to this process: "
                                             r".*700.*; restart the process to use it again")
            self.assertEqual(len(answers), 3)
            for status, answer in answers:
                self.assertGreaterEqual(status, 500)
                self.assertIn("is lost to this process", answer["error"]["message"])

    @needs_faulty_driver
    @unittest.skipUnless(gpus() > 1, "it needs two GPUs")
    def test_of_two_gpus_one_is_lost_and_all_requests_are_answered(self):
        models = [make(self.root, name) for name in ("a", "b")]
        for model in models:
            self.change(model, max_position_embeddings=60000)
        with RunningServer("--models-dir", self.root, *options(slices="0:all;1:all"),
                           environment=self.environment) as server:
            answers = []

            def long_request(name):
                answers.append(server.request("/v1/completions", {
                    "model": name, "prompt": "x", "max_tokens": 20000, "ignore_eos": True}))
            for name in ("a", "b"):
                server.complete(name, "x", max_tokens=4)
            threads = [threading.Thread(target=long_request, args=(name,))
                       for name in ("a", "b", "a", "b")]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 30
            while any(not re.search(rf'num_requests_running{{model_name="{name}"}} 2',
                                    server.request("/metrics")[1]) for name in ("a", "b")):
                self.assertLess(time.monotonic(), deadline)
            self.fault.write_text("lost-1")
            for thread in threads:
                thread.join(60)
                self.assertFalse(thread.is_alive(), "a request hangs")
            for status, answer in answers:
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["usage"]["completion_tokens"], 20000)
            # The other GPU serves both models from now on.
            for name in ("a", "b"):
                server.complete(name, "x", max_tokens=4)
            self.assertIsNone(server.process.poll())
            self.assertTrue(any(re.search(r"GPU 1 .* is lost", line) for line in server.log),
                            server.log)


if __name__ == "__main__":
    assert Path(BINARY).exists(), BINARY
    if not Path("/dev/nvidiactl").exists():
        print("SKIPPED: no GPU")
        sys.exit(77)
    unittest.main()
