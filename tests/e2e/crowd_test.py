#!/usr/bin/env python3
"""The program in a crowd of clients that misbehave: those that do not are served, its memory stays
bounded, and refusals are clear. Every connection is one of this machine. Standard library only."""

import json
import re
import resource
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from running_server import BINARY, TINY_MEMORY, RunningServer, make_model

IDLE = 10_000
CONNECTIONS_MAX = 8_192  # of the server, by default
SLOW = 600
MB = 1_000_000


def allow_files(count):
    """Whether this process may have so many open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        return False
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return True


class Crowd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = RunningServer(make_model(Path(cls.folder.name) / "m"), *TINY_MEMORY)
        cls.server.__enter__()
        # What the first requests allocate for good is not the crowd's.
        for _ in range(20):
            cls.server.complete("m", "a", max_tokens=2)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def setUp(self):
        self.sockets = []
        self.before = self.resident()

    def tearDown(self):
        for one in self.sockets:
            one.close()
        self.served()

    def resident(self):
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def grown(self):
        return self.resident() - self.before

    def connect(self, sent=b"", receive_buffer=None):
        one = socket.socket()
        if receive_buffer:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        one.settimeout(60)
        one.connect(("127.0.0.1", self.server.port))
        self.sockets.append(one)
        if sent:
            one.sendall(sent)
        return one

    def served(self, most_seconds=10):
        """A client that behaves, on a connection of its own."""
        begin = time.monotonic()
        answer = self.server.complete("m", "a", max_tokens=2)
        self.assertTrue(answer["choices"])
        self.assertLess(time.monotonic() - begin, most_seconds)

    def answers(self, one):
        """All that comes on a connection until the server ends it, or says no more."""
        text = b""
        one.settimeout(15)
        try:
            while piece := one.recv(65536):
                text += piece
        except (ConnectionResetError, TimeoutError):
            pass
        return text.decode("utf-8", "replace")

    def closed(self):
        """How many of the crowd's connections the server has ended; what came on them is dropped."""
        count = 0
        for one in self.sockets:
            one.setblocking(False)
            try:
                while one.recv(65536):
                    pass
                count += 1
            except BlockingIOError:
                pass
            except ConnectionResetError:
                count += 1
        return count

    def test_idle_connections_give_way(self):
        if not allow_files(IDLE + 200):
            self.skipTest(f"no {IDLE} open files are allowed here; raise `ulimit -Hn`")
        for number in range(IDLE):
            self.connect(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n" if number % 8 == 0 else b"")
            if number % 500 == 499:
                self.served()
        self.assertLess(self.grown(), 60 * MB)
        # As many are left as there may be, but for those that came while others were going.
        least = IDLE - CONNECTIONS_MAX - 100
        end = time.monotonic() + 60
        while (closed := self.closed()) < least and time.monotonic() < end:
            time.sleep(0.1)
        self.assertGreaterEqual(closed, least)
        self.assertLess(closed, IDLE // 2)

    def test_slow_headers(self):
        """Slow loris: a byte of a header now and then. The server has 10 s for one."""
        for _ in range(SLOW):
            self.connect(b"GET /v1/models HTTP/1.1\r\nX-Slow: ")
        end = time.monotonic() + 13
        gone = set()
        while time.monotonic() < end:
            for one in self.sockets:
                try:
                    if one not in gone:
                        one.sendall(b"a")
                except OSError:
                    gone.add(one)
            self.served(5)
            time.sleep(0.2)
        self.assertLess(self.grown(), 100 * MB)
        answers = [self.answers(one) for one in self.sockets]
        self.assertEqual(sum(" 408 " in answer or answer == "" for answer in answers), SLOW)
        self.assertTrue(any(" 408 " in answer for answer in answers))

    def test_slow_bodies(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"
        for _ in range(SLOW):
            self.connect(head)
        for _ in range(10):
            for one in self.sockets:
                one.sendall(b" " * 100)
            self.served()
        self.assertLess(self.grown(), 100 * MB)

    def test_header_floods(self):
        many = b"GET /health HTTP/1.1\r\n" + b"X-A: b\r\n" * 4000
        one_long = b"GET /health HTTP/1.1\r\nX-Long: " + b"a" * 32_000
        for number in range(300):
            one = self.connect()
            try:
                one.sendall(many if number % 2 else one_long)
            except OSError:
                pass  # refused before it was all sent
        self.served()
        answers = [self.answers(one) for one in self.sockets]
        self.assertEqual(sum(" 431 " in answer for answer in answers), 300)
        self.assertLess(self.grown(), 100 * MB)

    def test_chunks_without_end(self):
        """Bodies in chunks: cut short, of one endless line, of a byte each."""
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n")
        for kind in (b"", b"5\r\n{", b"5\r\n{\"mod\r\n", b"zz\r\n", b"1;" + b"x" * 300_000):
            for number in range(60):
                one = self.connect()
                try:
                    one.sendall(head + kind)
                except OSError:
                    continue  # refused before it was all sent
                if number % 3 == 0:
                    one.shutdown(socket.SHUT_WR)
                elif number % 3 == 1:  # the connection is reset
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.close()
            self.served()
        self.assertLess(self.grown(), 100 * MB)
        body = json.dumps({"model": "m", "prompt": "a", "max_tokens": 2}).encode()
        one = self.connect(head + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        self.assertIn(b" 200 ", one.recv(100))

    def test_pipelines(self):
        body = json.dumps({"model": "m", "prompt": "a", "max_tokens": 1}).encode()
        post = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)) + body
        get = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
        last = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for _ in range(40):
            self.connect((post + get) * 10 + last)
        self.served()
        for one in self.sockets:
            self.assertEqual(len(re.findall("HTTP/1.1 200 ", self.answers(one))), 21)

    def test_clients_that_never_read(self):
        body = json.dumps({"model": "m", "prompt": "a", "max_tokens": 400, "stream": True,
                           "ignore_eos": True, "logprobs": 20}).encode()
        head = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body))
        for _ in range(60):
            self.connect(head + body, receive_buffer=4096)
        for _ in range(5):
            self.served(60)
        self.assertLess(self.grown(), 200 * MB)

    def test_streams_beside_each_other(self):
        """200 streams at a time of clients that behave."""
        body = {"model": "m", "prompt": "a", "max_tokens": 8, "ignore_eos": True}
        complete = []

        def ask():
            complete.append(len(self.server.stream("/v1/completions", body)))
        threads = [threading.Thread(target=ask) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(complete), 200)


class Streams(unittest.TestCase):
    def test_five_thousand_at_once(self):
        """Open at one time, of the server alone with a fleet that answers at once."""
        if not allow_files(10_256):
            self.skipTest("no 10,256 open files are allowed here; raise `ulimit -Hn`")
        ran = subprocess.run(
            [BINARY, "bench", "server", "--streams", "8", "--rounds", "2", "--concurrent", "5000",
             "--json", "-"], capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        figures = json.loads(ran.stdout[ran.stdout.index("{"):])
        self.assertEqual(figures["streams_complete"], 5000, figures)
        self.assertEqual(figures["streams_failed"], 0, figures)
        self.assertLess(figures["streams_memory_bytes"], 150 * MB)


if __name__ == "__main__":
    unittest.main(verbosity=2)
