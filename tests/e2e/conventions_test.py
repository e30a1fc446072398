#!/usr/bin/env python3
"""What users of this field expect of a server and no other test shows: names of the hub's cache,
keys that stay out of what is written, vLLM's names of metrics, help in groups. Standard library
only."""

import re
import tempfile
import unittest
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, make_model, run_causeway

KEY, ADMIN_KEY, FILE_KEY, WRONG_KEY = (f"sk-secret-{name}-5f3a9c" for name in
                                       ("first", "admin", "file", "wrong"))


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.model = make_model(cls.root / "m")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def hub(self, folder):
        """A hub cache with org/tiny, as huggingface_hub lays it out: files are links to blobs."""
        repository = folder / "hub" / "models--org--tiny"
        snapshot = repository / "snapshots" / "0123abcd"
        snapshot.mkdir(parents=True)
        (repository / "blobs").mkdir()
        for number, file in enumerate(sorted(self.model.iterdir())):
            blob = repository / "blobs" / f"{number:040x}"
            blob.write_bytes(file.read_bytes())
            (snapshot / file.name).symlink_to(f"../../blobs/{blob.name}")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0123abcd")
        return folder

    def test_a_name_of_the_hub_by_hf_home(self):
        with tempfile.TemporaryDirectory() as folder:
            home = self.hub(Path(folder))
            with RunningServer("org/tiny", *TINY_MEMORY, environment={"HF_HOME": home}) as server:
                _, listing = server.request("/v1/models")
                self.assertEqual([model["id"] for model in listing["data"]], ["org/tiny"])
                self.assertTrue(server.complete("org/tiny", "a", max_tokens=2)["choices"])
            with RunningServer("org/tiny", "--served-model-name", "short", *TINY_MEMORY,
                               environment={"HF_HUB_CACHE": home / "hub"}) as server:
                self.assertTrue(server.complete("short", "a", max_tokens=2)["choices"])
            done = run_causeway("serve", "org/other", environment={"HF_HOME": str(home)})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(str(home / "hub"), done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_keys_are_never_written(self):
        """Wherever they come from and however loud the log is."""
        config = self.root / "serve.yaml"
        config.write_text(f"admin-key: {FILE_KEY}\n")
        body = {"model": "m", "prompt": "a", "max_tokens": 2}
        told = []
        with RunningServer("--log-level", "trace", "--config", config, "--admin-port", 0,
                           "--allow-keep-alive", *TINY_MEMORY, self.model,
                           environment={"CAUSEWAY_API_KEY": KEY}) as server:
            for key in (KEY, WRONG_KEY, ADMIN_KEY):
                for headers in ({"Authorization": f"Bearer {key}"}, {"Authorization": key},
                                {"Authorization": f"Bearer {KEY}", "x-admin-key": key},
                                {"Authorization": f"Bearer {key}", "x-slo-ttft-ms": "no"},
                                {"x-api-key": key}):
                    for path in ("/v1/completions", "/v1/models", "/tokenize", "/none"):
                        posted = None if path == "/v1/models" else {**body, "keep_alive": "5m"}
                        told.append(server.request(path, posted, headers))
                    told.append(server.admin("/admin/models", headers=headers))
                    told.append(server.admin("/admin/models/load", {"model": "m"}, headers))
            told.append(server.admin("/admin/models",
                                     headers={"Authorization": f"Bearer {FILE_KEY}"}))
            told.append(server.request("/metrics"))
            log = server.log
        written = "".join(log) + repr(told)
        self.assertIn("serving 1 model", written)
        self.assertTrue({200, 400, 401, 404} <= {status for status, _ in told},
                        {status for status, _ in told})
        for key in (KEY, WRONG_KEY, ADMIN_KEY, FILE_KEY):
            self.assertNotIn(key, written)
            self.assertNotIn(key[:-2], written)

    def test_a_key_in_a_broken_file_is_not_written(self):
        for text in (f"api-key:\n  nested: {KEY}\n", f"api-key: [{KEY}, {{}}]\n", f"{KEY}\n"):
            config = self.root / "broken.yaml"
            config.write_text(text)
            done = run_causeway("serve", self.model, "--config", config)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn(KEY, done.stdout + done.stderr, text)

    def test_vllms_names_of_metrics(self):
        with RunningServer(self.model, "--metrics-aliases", "vllm", *TINY_MEMORY) as server:
            server.complete("m", "a", max_tokens=2, ignore_eos=True)
            _, text = server.request("/metrics")
        value = {name: float(value) for name, value in re.findall(
            r'^((?:causeway|vllm):\w+)\{model_name="m"\} (\S+)$', text, re.M)}
        self.assertEqual(value["vllm:generation_tokens_total"], 2)
        for name, own in value.items():
            if name.startswith("vllm:"):
                self.assertEqual(own, value["causeway:" + name.removeprefix("vllm:")], name)

    def test_help_is_grouped(self):
        text = run_causeway("serve", "--help").stdout
        for group in ("Models", "Memory", "Scheduling", "Server", "Admin", "Tracing"):
            self.assertRegex(text, rf"(?m)^\[?{group}\b", group)
        for option in ("--host", "--port", "--max-model-len", "--served-model-name", "--api-key",
                       "--chat-template", "--config", "--metrics-aliases"):
            self.assertIn(option, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
