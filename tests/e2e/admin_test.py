#!/usr/bin/env python3
"""The admin port: models are loaded, unloaded, pinned and sent to sleep, and the server is drained."""

import json
import random
import re
import shutil
import socket
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

from running_server import TINY_MEMORY, ModelsFolder, RunningServer, make_model, run_causeway

MODELS = ("a", "b", "c")
DASHBOARD = Path(__file__).resolve().parents[2] / "packaging" / "grafana.json"
PROMPT = "The quick brown fox"


class Admin(ModelsFolder):
    MODELS = MODELS

    def serve(self, *arguments, **options):
        return RunningServer("--models-dir", self.root, *TINY_MEMORY, "--admin-port", 0,
                             "--load-on-demand", *arguments, **options)

    def models(self, server):
        status, listing = server.admin("/admin/models")
        self.assertEqual(status, 200, listing)
        return {model["id"]: model for model in listing["data"]}

    def states(self, server):
        return {name: model["status"] for name, model in self.models(server).items()}

    def router(self, server):
        status, listing = server.admin("/models")
        self.assertEqual(status, 200, listing)
        return {model["id"]: model["status"]["value"] for model in listing["data"]}

    def done(self, server, path, body=None):
        status, answer = server.admin(path, b"" if body is None else body)
        self.assertEqual(status, 200, (path, body, answer))
        return answer

    def refused(self, server, wanted, path, body=b""):
        status, answer = server.admin(path, body)
        self.assertEqual(status, wanted, (path, body, answer))
        self.assertTrue(answer["error"]["message"])
        return answer["error"]

    def test_load_unload_and_list(self):
        with self.serve() as server:
            self.assertEqual(self.states(server), dict.fromkeys(MODELS, "unloaded"))
            loaded = self.done(server, "/admin/models/load", {"model": "b"})
            self.assertEqual(loaded["status"], "ready")
            self.assertGreater(loaded["resident_bytes"]["host"], 0)
            self.assertTrue(loaded["attached"])
            self.assertEqual(self.states(server), {"a": "unloaded", "b": "ready", "c": "unloaded"})
            expected = server.complete("b", PROMPT, max_tokens=8, temperature=0)["choices"][0]
            self.done(server, "/admin/models/load", {"model": "b"})  # it is there already
            self.until(lambda: self.states(server)["b"] == "ready")  # the answer's end is told late
            gone = self.done(server, "/admin/models/unload", {"model": "b"})
            self.assertEqual((gone["status"], gone["resident_bytes"]["host"]), ("unloaded", 0))
            self.done(server, "/admin/models/unload", {"model": "b"})  # it is gone already
            again = server.complete("b", PROMPT, max_tokens=8, temperature=0)["choices"][0]
            self.assertEqual(again["text"], expected["text"], "a request has it loaded again")
            self.until(lambda: self.states(server)["b"] == "ready")
            status, answer = server.admin("/admin/models/load", {"model": "c", "wait": False})
            self.assertEqual(status, 202, answer)
            self.until(lambda: self.states(server)["c"] == "ready")

    def until(self, condition, seconds=30):
        limit = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.05)

    def test_a_model_with_requests_stays(self):
        with self.serve("--max-num-seqs", 4) as server:
            self.done(server, "/admin/models/load", {"model": "a"})
            stream = threading.Thread(target=server.complete, args=("a", PROMPT),
                                      kwargs={"max_tokens": 1500, "ignore_eos": True})
            stream.start()
            self.until(lambda: self.states(server)["a"] == "active")
            error = self.refused(server, 409, "/admin/models/unload", {"model": "a"})
            self.assertIn("1 request", error["message"])
            self.assertEqual(error["code"], "conflict")
            self.refused(server, 409, "/models/unload", {"model": "a"})
            self.assertEqual(self.done(server, "/sleep")["loaded"], ["a"])
            self.assertEqual(server.admin("/is_sleeping")[1], {"is_sleeping": False})
            stream.join(120)
            self.until(lambda: server.admin("/admin/models/unload", {"model": "a"})[0] == 200)

    def test_pins(self):
        with self.serve("--pin", "a") as server:
            self.done(server, "/admin/models/load", {"model": "a"})
            self.assertTrue(self.models(server)["a"]["pinned"])
            error = self.refused(server, 409, "/admin/models/unload", {"model": "a"})
            self.assertIn("pinned", error["message"])
            self.done(server, "/sleep?level=2")
            self.assertEqual(self.states(server)["a"], "ready")
            self.assertFalse(self.done(server, "/admin/models/unpin", {"model": "a"})["pinned"])
            self.assertTrue(self.done(server, "/admin/models/pin", {"model": "b"})["pinned"])
            self.done(server, "/admin/models/unload", {"model": "a"})
            self.assertEqual(self.states(server)["b"], "unloaded", "a pin brings nothing")

    def test_sleep_as_vllm_has_it(self):
        with self.serve() as server:
            for name in ("a", "b"):
                self.done(server, "/admin/models/load", {"model": name})
            self.assertEqual(server.admin("/is_sleeping"), (200, {"is_sleeping": False}))
            self.assertEqual(self.done(server, "/sleep?level=1"),
                             {"is_sleeping": True, "loaded": []})
            models = self.models(server)
            for name in ("a", "b"):
                self.assertGreater(models[name]["resident_bytes"]["host"], 0)
                self.assertEqual(models[name]["resident_bytes"]["device"], 0)
                self.assertFalse(models[name]["attached"])
            self.assertEqual(self.router(server),
                             {"a": "sleeping", "b": "sleeping", "c": "unloaded"})
            self.done(server, "/wake_up?tags=weights&tags=kv_cache")
            self.until(lambda: self.router(server) ==
                       {"a": "loaded", "b": "loaded", "c": "unloaded"})
            self.assertEqual(self.done(server, "/sleep?level=2")["is_sleeping"], True)
            self.assertEqual(self.states(server), dict.fromkeys(MODELS, "unloaded"))
            server.complete("c", PROMPT, max_tokens=1)  # a request wakes its model
            self.assertEqual(server.admin("/is_sleeping"), (200, {"is_sleeping": False}))
            self.refused(server, 400, "/sleep?level=7")
            self.assertIn("wait, abort or keep",
                          self.refused(server, 400, "/sleep?mode=pause")["message"])
            self.refused(server, 400, "/wake_up?tags=all")

    def long_answer(self, server, into):
        """A thread that asks `a` for 1500 tokens, and puts its (status, answer) in the list."""
        body = {"model": "a", "prompt": PROMPT, "max_tokens": 1500, "ignore_eos": True}
        thread = threading.Thread(
            target=lambda: into.append(server.request("/v1/completions", body)))
        thread.start()
        self.until(lambda: self.states(server)["a"] == "active")
        return thread

    def test_sleep_that_waits_for_requests(self):
        with self.serve() as server:
            self.done(server, "/admin/models/load", {"model": "a"})
            answers = []
            thread = self.long_answer(server, answers)
            self.assertEqual(self.done(server, "/sleep?mode=wait"),
                             {"is_sleeping": True, "loaded": []})
            thread.join(120)
            self.assertEqual(answers[0][0], 200, answers)
            self.assertEqual(answers[0][1]["usage"]["completion_tokens"], 1500)

    def test_sleep_that_keeps_requests(self):
        """Those that run go on behind their output with the answer that they would have had; new
        ones wait."""
        with self.serve() as server:
            body = {"model": "a", "prompt": PROMPT, "max_tokens": 400, "ignore_eos": True,
                    "temperature": 0.8, "seed": 5, "logprobs": 1}
            status, expected = server.request("/v1/completions", body)
            self.assertEqual(status, 200, expected)
            for level in (0, 1, 2):
                answers = []
                threads = [threading.Thread(
                    target=lambda: answers.append(server.request("/v1/completions", body)))
                           for _ in range(3)]
                for thread in threads[:2]:
                    thread.start()
                self.until(lambda: self.states(server)["a"] == "active")
                slept = self.done(server, f"/sleep?level={level}&mode=keep")
                self.assertEqual(slept, {"is_sleeping": True, "loaded": ["a"] if level == 0 else []})
                threads[2].start()
                threads[2].join(0.3)
                self.assertEqual(answers, [], "all wait")
                self.done(server, "/wake_up")
                for thread in threads:
                    thread.join(120)
                for status, answer in answers:
                    self.assertEqual(status, 200, answer)
                    self.assertEqual(answer["choices"][0]["text"], expected["choices"][0]["text"])
                    self.assertEqual(answer["usage"]["completion_tokens"], 400)
                self.assertEqual(server.admin("/is_sleeping"), (200, {"is_sleeping": False}))

    def test_sleep_that_ends_requests(self):
        with self.serve() as server:
            self.done(server, "/admin/models/load", {"model": "a"})
            answers = []
            thread = self.long_answer(server, answers)
            self.assertEqual(self.done(server, "/sleep?level=2&mode=abort"),
                             {"is_sleeping": True, "loaded": []})
            thread.join(120)
            self.assertEqual(answers[0][0], 503, answers)
            self.assertEqual(answers[0][1]["error"]["code"], "cancelled")
            self.assertEqual(server.complete("a", PROMPT, max_tokens=1)["usage"]
                             ["completion_tokens"], 1, "it serves on")

    def test_llama_cpps_router(self):
        with self.serve() as server:
            self.assertEqual(self.done(server, "/models/load", {"model": "a"}), {"success": True})
            self.until(lambda: self.router(server)["a"] == "loaded")
            self.assertEqual(self.done(server, "/models/unload", {"model": "a"}),
                             {"success": True})
            self.until(lambda: self.router(server)["a"] == "unloaded")
            self.refused(server, 404, "/models/load", {"model": "z"})

    def test_llama_cpps_events(self):
        with self.serve() as server:
            events = self.follow(server)
            self.done(server, "/models/load", {"model": "a"})
            self.until(lambda: ("a", "loaded") in events)
            self.assertEqual(events[0], ("a", "loading"), events)
            self.done(server, "/models/unload", {"model": "a"})
            self.until(lambda: events[-1] == ("a", "unloaded"))
            (self.root / "b" / "model.safetensors").rename(self.root / "b.away")
            try:
                self.done(server, "/models/load", {"model": "b"})
                self.until(lambda: ("b", "unloaded failed") in events)
            finally:
                (self.root / "b.away").rename(self.root / "b" / "model.safetensors")
            server.complete("c", PROMPT, max_tokens=1)  # a request tells the same
            self.until(lambda: ("c", "loaded") in events)
            slow = [self.connect(server) for _ in range(15)]
            for one in slow:
                one.sendall(b"GET /models/sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                self.assertIn(b" 200 OK", one.recv(4096))
            self.refused(server, 429, "/models/sse", None)
            self.assertEqual(self.router(server)["c"], "loaded")
            for one in slow:
                one.close()

    def connect(self, server):
        return socket.create_connection(("127.0.0.1", server.admin_port), timeout=30)

    def follow(self, server):
        """What /models/sse tells from now on: (model, status), as it comes."""
        events, stream = [], urllib.request.urlopen(server.admin_url + "/models/sse", timeout=60)
        self.assertEqual(stream.headers.get_content_type(), "text/event-stream")

        def read():
            with stream:
                try:
                    for line in stream:
                        if not line.startswith(b"data: "):
                            continue
                        event = json.loads(line[6:])
                        data = event.get("data", {})
                        if "progress" in data:
                            continue
                        failed = " failed" if data.get("failed") else ""
                        events.append((event["model"], data.get("status", event["event"]) + failed))
                except OSError:
                    pass

        threading.Thread(target=read, daemon=True).start()
        return events

    def test_without_autoload(self):
        with self.serve() as server:
            body = {"model": "a", "prompt": PROMPT, "max_tokens": 2}
            status, answer = server.request("/v1/completions?autoload=false", body)
            self.assertEqual((status, answer["error"]["code"]), (400, "model_not_loaded"))
            self.assertEqual(self.states(server)["a"], "unloaded")
            self.assertEqual(server.request("/v1/completions?autoload=true", body)[0], 200)
            self.assertEqual(server.request("/v1/completions?autoload=false", body)[0], 200)

    def test_keep_alive(self):
        refused = run_causeway("serve", "--models-dir", self.root, "--allow-keep-alive")
        self.assertIn("--admin-port", refused.stderr)
        with self.serve("--allow-keep-alive") as server:
            server.complete("a", PROMPT, max_tokens=2, keep_alive="1h")
            server.complete("b", PROMPT, max_tokens=2, keep_alive=0)
            self.until(lambda: self.states(server)["b"] == "unloaded")
            self.assertEqual(self.states(server)["a"], "ready")
            server.complete("a", PROMPT, max_tokens=2, keep_alive="300ms")
            self.until(lambda: self.states(server)["a"] == "unloaded")
            server.complete("c", PROMPT, max_tokens=2, keep_alive=-1)
            self.until(lambda: self.models(server)["c"]["pinned"])
            server.complete("c", PROMPT, max_tokens=2, keep_alive=0)
            time.sleep(0.5)
            self.assertEqual(self.states(server)["c"], "ready", "it is pinned")
        key = {"x-admin-key": "secret"}
        body = {"model": "a", "prompt": PROMPT, "max_tokens": 2, "keep_alive": 0}
        with self.serve("--allow-keep-alive",
                        environment={"CAUSEWAY_ADMIN_KEY": "secret"}) as server:
            self.assertEqual(server.request("/v1/completions", body)[0], 401)
            self.assertEqual(server.request("/v1/completions", body, key)[0], 200)

    def test_keys(self):
        key = {"Authorization": "Bearer secret"}
        with self.serve(environment={"CAUSEWAY_ADMIN_KEY": "secret"}) as server:
            for path, body in (("/admin/models", None), ("/models", None), ("/is_sleeping", None),
                               ("/admin/models/load", {"model": "a"}), ("/sleep", b""),
                               ("/models/load", {"model": "a"}), ("/admin/drain", b"")):
                self.assertEqual(server.admin(path, body)[0], 401, path)
                self.assertEqual(
                    server.admin(path, body, {"Authorization": "Bearer other"})[0], 401, path)
            self.assertEqual(server.admin("/admin/models/load", {"model": "a"}, key)[0], 200)
            self.assertEqual(server.request("/admin/models", headers=key)[0], 404)
            self.commands(server)

    def commands(self, server):
        def run(*arguments, key="secret"):
            return run_causeway("models", *arguments, "--url", server.admin_url,
                                environment={"CAUSEWAY_ADMIN_KEY": key})

        loaded = run("load", "b")
        self.assertEqual(loaded.returncode, 0, loaded.stderr)
        self.assertIn("b: ready", loaded.stdout)
        unloaded = run("unload", "b")
        self.assertEqual(unloaded.returncode, 0, unloaded.stderr)
        self.assertIn("b: unloaded", unloaded.stdout)
        for wrong, words in ((run("load", "z"), "does not exist"), (run("load"), "name"),
                             (run("unload", "a", key="wrong"), "API key")):
            self.assertNotEqual(wrong.returncode, 0)
            self.assertIn(words, wrong.stderr)
            self.assertEqual(len(wrong.stderr.strip().splitlines()), 1, wrong.stderr)
            self.assertNotIn("--admin-port", wrong.stderr, "the port is right")

    def test_clients_say_which_port_they_mean(self):
        with self.serve() as server:
            for arguments, words in (
                    (("ps", "--url", server.admin_url), "serve's --port, not --admin-port"),
                    (("models", "load", "a", "--url", server.url),
                     "serve's --admin-port, not --port"),
                    (("models", "load", "a", "--url", server.url + "/v1"),
                     "serve's --admin-port, not --port")):
                wrong = run_causeway(*arguments)
                self.assertEqual(wrong.returncode, 1, wrong.stderr)
                self.assertIn(words, wrong.stderr)
            for url in (server.url, server.url + "/", server.url + "/v1", server.url + "/v1/"):
                done = run_causeway("ps", "--url", url)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = run_causeway("bench", "serve", "--base-url", url, "--num-prompts", 1,
                                    "--input-len", 4, "--output-len", 2, "--vocab-size", 100)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_options(self):
        for arguments, words in ((("--admin-port", "0", "--admin-host", "0.0.0.0"), "--admin-key"),
                                 (("--admin-key", "k"), "--admin-port"),
                                 (("--admin-port", "70000"), "--admin-port")):
            wrong = run_causeway("serve", "--models-dir", self.root, "--port", "0", *TINY_MEMORY,
                                 "--load-on-demand", *arguments)
            self.assertNotEqual(wrong.returncode, 0)
            self.assertIn(words, wrong.stderr)
        usage = run_causeway("serve", "--help").stdout
        self.assertLess(usage.index("Admin"), usage.index("--admin-port"))

    def test_deep_health(self):
        with self.serve() as server:
            self.assertEqual(server.request("/health?deep=1"),
                             (200, {"status": "ok", "model": None}))
            self.assertEqual(self.states(server), dict.fromkeys(MODELS, "unloaded"), "none wakes")
            self.done(server, "/admin/models/load", {"model": "b"})
            for ask in (server.request, server.admin):
                status, answer = ask("/health?deep=1")
                self.assertEqual((status, answer["model"]), (200, "b"), answer)
                self.assertGreater(answer["took_us"], 0)
            self.assertEqual(server.request("/health?deep=quite")[0], 400)

    def test_drain(self):
        with self.serve() as server:
            self.done(server, "/admin/models/load", {"model": "a"})
            answers = []
            stream = threading.Thread(target=lambda: answers.append(server.complete(
                "a", PROMPT, max_tokens=1500, ignore_eos=True)))
            stream.start()
            self.until(lambda: self.states(server)["a"] == "active")
            drained = threading.Thread(
                target=lambda: answers.append(server.admin("/admin/drain", b"")))
            drained.start()
            self.until(lambda: server.request("/health")[0] == 503)
            self.assertEqual(server.request("/v1/completions",
                                            {"model": "a", "prompt": "x"})[0], 503)
            drained.join(120)
            stream.join(120)
            self.assertEqual(len(answers), 2, "what ran has ended")
            self.assertIn((200, {"drained": True}), answers)
            self.assertEqual(server.request("/health")[0], 503, "it is there until SIGTERM")

    def test_hostile_bodies(self):
        rng = random.Random(7)
        bodies = [b"", b"{", b"null", b"[]", b'"a"', b"{}", b'{"model": 1}', b'{"model": null}',
                  b'{"model": "a", "model": {}}', b'{"model": "a", "force": true}', b"\xff\xfe",
                  b'{"model": "' + b"a" * 1_000_000 + b'"}', b"[" * 200_000,
                  b'{"model": "../../etc/passwd"}', b'{"model": "a", "wait": "no"}']
        bodies += [bytes(rng.randrange(256) for _ in range(rng.randrange(200))) for _ in range(30)]
        with self.serve() as server:
            for path in ("/admin/models/load", "/admin/models/unload", "/admin/models/pin",
                         "/models/load", "/models/unload"):
                for body in bodies:
                    status, answer = server.admin(path, body)
                    self.assertIn(status, (400, 404), (path, body[:60], answer))
            self.assertEqual(server.admin("/admin/models/load")[0], 405)
            self.assertEqual(server.admin("/admin/reload")[0], 405)
            self.assertEqual(self.states(server), dict.fromkeys(MODELS, "unloaded"))

    def test_reload(self):
        with self.serve("--pin", "a") as server:
            self.assertEqual(self.reload(server), {})
            self.done(server, "/admin/models/load", {"model": "b"})
            expected = server.complete("b", PROMPT, max_tokens=8, temperature=0)["choices"][0]
            self.until(lambda: self.states(server)["b"] == "ready")
            away = self.away()
            for name in ("a", "b"):
                (self.root / name).rename(away / name)
            (self.root / "broken").mkdir()
            (self.root / "broken" / "config.json").write_text("{")
            make_model(self.root / "new", seed=7)
            try:
                answer = self.done(server, "/admin/reload")
                self.assertEqual((answer["added"], answer["removed"]), (["new"], ["b"]))
                self.assertEqual([one["model"] for one in answer["kept"]], ["a"])
                self.assertIn("pinned", answer["kept"][0]["why"])
                self.assertEqual([one["model"] for one in answer["left_out"]], ["broken"])
                self.assertEqual(set(self.states(server)), {"a", "c", "new"})
                status, listing = server.request("/v1/models")
                self.assertEqual({one["id"] for one in listing["data"]}, {"a", "c", "new"})
                self.refused(server, 404, "/admin/models/load", {"model": "b"})
                self.assertEqual(server.request("/v1/completions",
                                                {"model": "b", "prompt": "x"})[0], 404)
                self.assertTrue(server.complete("new", PROMPT, max_tokens=8, ignore_eos=True))
                self.until(lambda: self.states(server)["new"] == "ready")
                _, metrics = server.admin("/metrics")
                self.assertIn('causeway:generation_tokens_total{model_name="new"} 8', metrics)
            finally:
                shutil.rmtree(self.root / "new")
                shutil.rmtree(self.root / "broken")
                for name in ("a", "b"):
                    (away / name).rename(self.root / name)
            self.assertEqual(self.reload(server), {"added": ["b"], "removed": ["new"]})
            again = server.complete("b", PROMPT, max_tokens=8, temperature=0)["choices"][0]
            self.assertEqual(again["text"], expected["text"])
            _, metrics = server.admin("/metrics")
            self.assertIn('causeway:prompt_tokens_total{model_name="b"}', metrics)

    def away(self):
        """A folder beside that of the models."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Path(folder.name)

    def reload(self, server):
        """What has changed."""
        return {what: all_of for what, all_of in self.done(server, "/admin/reload").items()
                if all_of}

    def test_reload_under_load(self):
        """Requests of models that stay do not notice that others come and go."""
        with self.serve() as server:
            failed, until = [], time.monotonic() + 4

            def ask(name, allowed):
                while time.monotonic() < until:
                    status, answer = server.request("/v1/completions", {
                        "model": name, "prompt": PROMPT, "max_tokens": 4})
                    if status not in allowed:
                        failed.append((name, status, answer))

            threads = [threading.Thread(target=ask, args=case) for case in
                       (("a", {200}), ("b", {200}), ("c", {200, 404, 500}))]
            for thread in threads:
                thread.start()
            away = self.away() / "c"
            while time.monotonic() < until:
                (self.root / "c").rename(away)
                self.assertIn(server.admin("/admin/reload", b"")[0], (200, 503))
                away.rename(self.root / "c")
                self.assertIn(server.admin("/admin/reload", b"")[0], (200, 503))
            for thread in threads:
                thread.join(120)
            self.assertEqual(failed, [])

    def test_reload_of_one_model(self):
        with RunningServer(self.root / "a", *TINY_MEMORY, "--admin-port", 0) as server:
            error = self.refused(server, 409, "/admin/reload")
            self.assertIn("of a folder", error["message"])

    def test_dashboard(self):
        """The dashboard asks for metrics, and labels, that there are."""
        dashboard = json.loads(DASHBOARD.read_text())
        asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        asked += [variable["query"]["query"] for variable in dashboard["templating"]["list"]
                  if variable["type"] == "query"]
        with self.serve() as server:
            server.complete("a", PROMPT, max_tokens=4)
            _, metrics = server.admin("/metrics")
            labels = {}
            for name, of in re.findall(r"^(causeway:\w+)(?:\{(.*)\})? ", metrics, re.M):
                labels.setdefault(name, set()).update(re.findall(r'(\w+)="', of))
            self.assertGreater(len(asked), 20)
            for expression in asked:
                selected = re.findall(r"(causeway:\w+)(?:\{([^}]*)\})?", expression)
                self.assertTrue(selected, expression)
                there = set()
                for name, of in selected:
                    self.assertIn(name, labels, expression)
                    self.assertLessEqual(set(re.findall(r"(\w+)=", of)), labels[name], expression)
                    there |= labels[name]
                for by in re.findall(r"by \(([^)]*)\)", expression):
                    self.assertLessEqual(set(re.split(r",\s*", by)), there, expression)

    def test_all_at_once(self):
        """Everything by everybody, while requests come; nothing is lost, and it stops in between."""
        with self.serve() as server:
            seen, failed = set(), []
            until = time.monotonic() + 4

            def administer(seed):
                rng = random.Random(seed)
                while time.monotonic() < until:
                    model = {"model": rng.choice(MODELS)}
                    path, body = rng.choice((
                        ("/admin/models/load", model), ("/admin/models/unload", model),
                        ("/models/load", model), ("/models/unload", model), ("/sleep", b""),
                        ("/sleep?level=2", b""), ("/wake_up", b""), ("/admin/models", None),
                        ("/admin/reload", b"")))
                    status, _ = server.admin(path, body)
                    seen.add(status)

            def ask(seed):
                rng = random.Random(seed)
                while time.monotonic() < until:
                    status, answer = server.request("/v1/completions", {
                        "model": rng.choice(MODELS), "prompt": PROMPT, "max_tokens": 4})
                    if status != 200:
                        failed.append(answer)

            threads = [threading.Thread(target=administer, args=(i,)) for i in range(3)]
            threads += [threading.Thread(target=ask, args=(i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            self.assertEqual(failed, [])
            self.assertLessEqual(seen, {200, 409, 503})
            self.assertIn(200, seen)
            # And a stop while a load is under way.
            for name in MODELS:
                server.admin("/admin/models/load", {"model": name, "wait": False})


if __name__ == "__main__":
    unittest.main()
