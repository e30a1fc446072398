"""A `causeway serve` process for tests: started on a free port, stopped and checked at the end.

CAUSEWAY_BINARY is the program. CAUSEWAY_TEST_DEVICE=cuda serves on a GPU, where weights are bf16.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path

BINARY = os.environ["CAUSEWAY_BINARY"]
DEVICE = os.environ.get("CAUSEWAY_TEST_DEVICE", "cpu")
START_SECONDS = 120


class RunningServer:
    """Use as a context manager; `arguments` follow `causeway serve --port 0`."""

    def __init__(self, *arguments, environment=None):
        self.arguments = arguments
        self.environment = environment or {}
        self.log = []

    def __enter__(self):
        device = [] if "--device" in self.arguments else ["--device", DEVICE]
        self.process = subprocess.Popen(
            [BINARY, "serve", "--port", "0", *device, *map(str, self.arguments)],
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, **{k: str(v) for k, v in self.environment.items()}})
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        if not self.ready.wait(START_SECONDS) or self.port is None:
            self.process.kill()
            raise AssertionError("the server did not start:\n" + "".join(self.log))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            status = self.stop()
            assert status == 0, f"exit status {status}:\n" + "".join(self.log)
        self._close()

    def _read_log(self):
        self.port = self.admin_port = None
        for line in self.process.stderr:
            self.log.append(line)
            match = re.search(r"administered at http://[^:]+:(\d+)/", line)
            if match:
                self.admin_port = int(match.group(1))
            match = re.search(r"serving .* at http://[^:]+:(\d+)/v1", line)
            if match:
                self.port = int(match.group(1))
                self.ready.set()
        self.ready.set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self):
        return f"http://127.0.0.1:{self.admin_port}"

    def workers(self):
        """The processes that it has started."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        children = set()
        for task in tasks:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                children.update(int(pid) for pid in (task / "children").read_text().split())
        return children

    def stop(self, timeout=60):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def _close(self):
        self.reader.join(10)
        self.process.stderr.close()

    def request(self, path, body=None, headers=None, timeout=120, url=None):
        """(status, parsed JSON or text); `body`: JSON, or bytes as they are."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            (url or self.url) + path, data,
            {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, _parse(response.read())
        except urllib.error.HTTPError as error:
            return error.code, _parse(error.read())

    def admin(self, path, body=None, headers=None, timeout=120):
        """As request(), of the admin port."""
        return self.request(path, body, headers, timeout, self.admin_url)

    def complete(self, model, prompt, **parameters):
        status, answer = self.request(
            "/v1/completions", {"model": model, "prompt": prompt, **parameters})
        assert status == 200, (status, answer)
        return answer

    def stream(self, path, body, timeout=120):
        """The events of a stream, parsed, without the final [DONE], which must be there."""
        request = urllib.request.Request(
            self.url + path, json.dumps({**body, "stream": True}).encode(),
            {"Content-Type": "application/json"})
        events = []
        with urllib.request.urlopen(request, timeout=timeout) as response:
            for line in response:
                if line.startswith(b"data: "):
                    events.append(line[6:].strip())
        assert events and events[-1] == b"[DONE]", events[-1:]
        return [json.loads(event) for event in events[:-1]]


def _parse(body):
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def run_causeway(*arguments, timeout=120, environment=None):
    """A finished `causeway` process."""
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(environment or {})}, check=False)


def make_model(directory, family="llama", **options):
    """A tiny random model; options are those of `causeway make-model`."""
    settings = {"layers": 2, "hidden": 64, "heads": 4, "kv-heads": 2, "intermediate": 128,
                "vocab": 512, "dtype": "f32" if DEVICE == "cpu" else "bf16", "seed": 1, **options}
    arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
    made = run_causeway("make-model", directory, "--family", family, *arguments, timeout=300)
    assert made.returncode == 0, made.stderr
    return directory


def name_token(directory, content, instead_of="<|pad|>"):
    """Gives one of a tiny model's special tokens another text."""
    for path in directory.glob("*.json"):
        path.write_text(path.read_text().replace(json.dumps(instead_of), json.dumps(content)))


TINY_MEMORY = ("--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes", "16mb",
               "--pool-memory-bytes", "256mb")


class ModelsFolder(unittest.TestCase):
    """Tests beside a folder, `root`, of tiny models of these names, each with a seed of its own."""

    MODELS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        for seed, name in enumerate(cls.MODELS):
            make_model(cls.root / name, seed=seed + 1)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


# Two logarithms of probabilities that are closer may change places on a GPU, where requests that run
# together are multiplied in other shapes, hence summed in another order, than alone.
NEAR = 0.1


def agree(choice, expected):
    """Of choices with `logprobs`: the same text; on a GPU also one that parts from it where two tokens
    are as likely."""
    if choice["text"] == expected["text"] or DEVICE == "cpu":
        return choice["text"] == expected["text"]
    tokens = zip(choice["logprobs"]["tokens"], expected["logprobs"]["tokens"],
                 expected["logprobs"]["top_logprobs"])
    for token, wanted, top in tokens:
        if token != wanted:
            return token in top and top[wanted] - top[token] < NEAR
    return False
