#!/usr/bin/env python3
"""What the program does before and beside its work: how its threads wait, where its output goes,
what memory it takes. Standard library only."""

import os
import re
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from running_server import BINARY, TINY_MEMORY, RunningServer, make_model, run_causeway

WAITS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def spins(**environment):
    """How many times a thread spins at a barrier, as OpenMP itself says; the last time it does."""
    clean = {key: value for key, value in os.environ.items() if key not in WAITS}
    done = subprocess.run(
        [BINARY, "completion", "bash"], capture_output=True, text=True, timeout=60, check=False,
        env={**clean, "OMP_DISPLAY_ENV": "verbose", **environment})
    assert done.returncode == 0, done.stderr
    told = re.findall(r"GOMP_SPINCOUNT = '([^']*)'", done.stderr)
    if not told:
        raise unittest.SkipTest("built without OpenMP")
    return told[-1]


def wait_until(holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "it does not come to be"
        time.sleep(0.1)


class Start(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = make_model(Path(cls.folder.name) / "m")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_threads_spin_briefly_unless_told_otherwise(self):
        self.assertEqual(spins(), "10000")
        self.assertEqual(spins(GOMP_SPINCOUNT="77"), "77")
        self.assertEqual(spins(OMP_WAIT_POLICY="passive"), "0")

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in (["completion", "bash"], ["man"], ["--help"], ["--version"],
                        ["models", "list", "--models-dir", self.folder.name]):
            with self.subTest(command), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("writing the output", done.stderr)

    def test_kv_larger_than_the_machine_is_refused_at_once(self):
        done = run_causeway("serve", self.model, "--port", "0", "--kv-cache-memory-bytes", "900TB")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--kv-cache-memory-bytes", done.stderr)

    def test_memory_of_large_bodies_goes_back(self):
        with RunningServer(self.model, *TINY_MEMORY) as server:
            def resident():
                status = Path(f"/proc/{server.process.pid}/status").read_text()
                return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) >> 10

            head = (b"POST /v1/completions HTTP/1.1\r\nHost: t\r\n"
                    b"Content-Length: 8000000\r\n\r\n")

            def send(size):
                client = socket.create_connection(("127.0.0.1", server.port))
                client.sendall(head + b" " * size)
                return client

            # The C library keeps memory of sizes that have been given back once.
            with send(8_000_000) as client:
                self.assertIn(b" 400 ", client.recv(1000))
            before = resident()
            crowd = [send(7_999_999) for _ in range(60)]
            wait_until(lambda: resident() > before + 300)
            for client in crowd:
                client.close()
            wait_until(lambda: resident() < before + 100)

    def test_ids_of_two_starts_differ(self):
        ids = set()
        for _ in range(2):
            with RunningServer(self.model, "--seed", "1", *TINY_MEMORY) as server:
                ids.add(server.complete("m", "a", max_tokens=1)["id"])
        self.assertEqual(len(ids), 2)


if __name__ == "__main__":
    unittest.main()
