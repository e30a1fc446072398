#!/usr/bin/env python3
"""A server that is told to end, or is killed, while its models take turns in a cache for one of them.

CAUSEWAY_TEST_DEVICE=cuda: on a GPU, with larger models. Standard library only.
"""

import http.client
import os
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
from pathlib import Path

from running_server import DEVICE, RunningServer, make_model

MODELS = ("a", "b")
PROMPT = "The quick brown fox jumps over the lazy dog."
MIB = 1 << 20
# A model, and a cache that holds one and not two.
SHAPE, HOME_BYTES, CACHE = {
    "cpu": ({"hidden": 512, "intermediate": 2048, "layers": 4, "vocab": 8000}, 80 * MIB, "128mb"),
    "cuda": ({"hidden": 2048, "intermediate": 8192, "heads": 16, "kv-heads": 8, "layers": 6,
              "vocab": 8000}, 600 * MIB, "1gb"),
}[DEVICE]
SETTINGS = ("--kv-frame-bytes", "1mb", "--kv-cache-memory-bytes", "128mb", "--pool-memory-bytes",
            "4gb", "--weights-memory-bytes", CACHE)
BACK_SECONDS = 15  # for memory to be back
NOISE = 48 * MIB   # what others on the machine may take meanwhile


def shared_bytes():
    """Of shared memory that the system has in use, memfd regions among it."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Shmem in /proc/meminfo")


def gpu_bytes():
    """Of GPU 0 that is in use; None without one."""
    if DEVICE != "cuda" or shutil.which("nvidia-smi") is None:
        return None
    asked = subprocess.run(["nvidia-smi", "--id=0", "--query-gpu=memory.used",
                            "--format=csv,noheader,nounits"], capture_output=True, text=True,
                           check=True)
    return int(asked.stdout) * MIB


def processes_named(word):
    """Processes, this one aside, whose command line has the word."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if word.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            pass
    return found


class Client(threading.Thread):
    """Asks both models by turns until the server does not answer any more."""

    def __init__(self, server, index):
        super().__init__(daemon=True)
        self.server, self.index = server, index
        self.statuses, self.texts, self.lost = [], set(), None
        self.asked_at = 0.0

    def run(self):
        number = self.index
        while self.lost is None:
            model = MODELS[number % len(MODELS)]
            number += 1
            self.asked_at = time.monotonic()
            try:
                status, answer = self.server.request("/v1/completions", {
                    "model": model, "prompt": PROMPT, "max_tokens": 6, "temperature": 0,
                    "ignore_eos": True})
            except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
                self.lost = error
                return
            self.statuses.append(status)
            if status == 200:
                self.texts.add((model, answer["choices"][0]["text"]))
            else:
                assert "message" in answer["error"], answer
                time.sleep(0.01)


class SwitchFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        for seed, name in enumerate(MODELS):
            make_model(cls.root / name, seed=seed + 1, **SHAPE)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def server(self, *more):
        return RunningServer("--models-dir", self.root, *SETTINGS, *more)

    def expected(self):
        with self.server() as server:
            return {(model, server.complete(model, PROMPT, max_tokens=6, temperature=0,
                                            ignore_eos=True)["choices"][0]["text"])
                    for model in MODELS}

    def switching(self, server, clients):
        """Starts clients, and waits until the models have taken some turns."""
        for client in clients:
            client.start()
        deadline = time.monotonic() + 60
        while sum("switched to" in line for line in list(server.log)) < 3:
            self.assertLess(time.monotonic(), deadline, "the models take no turns")
            time.sleep(0.02)

    def test_sigterm_between_two_models_answers_the_clients(self):
        expected = self.expected()
        for delay, grace in ((0.0, 10), (0.3, 10), (0.11, 0)):
            with self.server("--shutdown-grace", grace) as server:
                clients = [Client(server, index) for index in range(6)]
                self.switching(server, clients)
                time.sleep(delay)
                told = time.monotonic()
                self.assertEqual(server.stop(timeout=grace + 30), 0, "".join(server.log))
                self.assertLess(time.monotonic() - told, grace + 20)
                for client in clients:
                    client.join(20)
                    self.assertFalse(client.is_alive(), "a client hangs")
                    # Lost is only what was asked when it was over.
                    self.assertGreater(client.asked_at, told - 0.5, client.lost)
                    self.assertEqual(set(client.statuses) - {200, 500, 503}, set())
                    self.assertLessEqual(client.texts, expected)
                if grace > 0:
                    before = [s for c in clients for s in c.statuses]
                    self.assertEqual(set(before) - {200, 503}, set())

    def test_kill_between_two_models_leaves_no_memory_behind(self):
        shared, files = shared_bytes(), set(os.listdir("/dev/shm"))
        gpu = gpu_bytes()
        for delay in (0.0, 0.17):
            with self.server() as server:
                clients = [Client(server, index) for index in range(4)]
                self.switching(server, clients)
                self.assertGreater(shared_bytes(), shared + 2 * HOME_BYTES - NOISE)
                time.sleep(delay)
                server.process.kill()
                self.assertEqual(server.process.wait(20), -9)
                for client in clients:
                    client.join(20)
                    self.assertFalse(client.is_alive(), "a client hangs")
            self.assertEqual(processes_named(str(self.root)), [])
            self.settles("shared memory", shared_bytes, shared)
            if gpu is not None:
                self.settles("GPU memory", gpu_bytes, gpu)
            self.assertEqual(set(os.listdir("/dev/shm")) - files, set())
        self.assertEqual(len(self.expected()), len(MODELS))  # and it starts again

    def settles(self, what, measure, before):
        """Back to where it was, within seconds."""
        begin = time.monotonic()
        while (now := measure()) > before + NOISE:
            self.assertLess(time.monotonic() - begin, BACK_SECONDS,
                            f"{what}: {now - before} bytes are left behind")
            time.sleep(0.05)
        print(f"{what} is back after {time.monotonic() - begin:.2f} s")


if __name__ == "__main__":
    unittest.main()
