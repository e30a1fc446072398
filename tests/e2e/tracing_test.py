#!/usr/bin/env python3
"""Traces of requests, as an OpenTelemetry collector gets them by OTLP/HTTP."""

import json
import re
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from running_server import TINY_MEMORY, ModelsFolder, RunningServer, run_causeway

PROMPT = "The quick brown fox jumps over the lazy dog"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MS = 1_000_000


class Collector:
    """Takes spans at /v1/traces; `status` is its answer, None: it never answers."""

    def __init__(self, status=200):
        self.status, self.spans, self.wrong = status, [], []
        self.lock, self.ending = threading.Lock(), threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path != "/v1/traces" or self.headers["Content-Type"] != "application/json":
                    collector.wrong.append((self.path, dict(self.headers)))
                if collector.status is None:
                    collector.ending.wait(60)
                    return
                if collector.status == 200:
                    collector.take(json.loads(body))
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, batch):
        with self.lock:
            for of_resource in batch["resourceSpans"]:
                self.resource = attributes(of_resource["resource"])
                for scope in of_resource["scopeSpans"]:
                    self.spans += scope["spans"]

    def traces(self, count):
        """The spans of `count` requests, by trace, once they are there."""
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            with self.lock:
                spans = list(self.spans)
            if sum(span["name"] == "llm_request" for span in spans) >= count:
                break
            time.sleep(0.05)
        found = {}
        for span in spans:
            found.setdefault(span["traceId"], []).append(span)
        return found

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()
        assert not self.wrong, self.wrong


def attributes(thing):
    return {one["key"]: next(iter(one["value"].values())) for one in thing["attributes"]}


def begin(span):
    return int(span["startTimeUnixNano"])


def end(span):
    return int(span["endTimeUnixNano"])


def seconds(span):
    return (end(span) - begin(span)) / 1e9


class Tracing(ModelsFolder):
    MODELS = ("a", "b")

    def serve(self, endpoint, *arguments, **options):
        return RunningServer("--models-dir", self.root, *TINY_MEMORY, "--load-on-demand",
                             "--otlp-endpoint", endpoint, *arguments, **options)

    def complete(self, server, model="a", headers=None, **parameters):
        body = {"model": model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0,
                "ignore_eos": True, **parameters}
        status, answer = server.request("/v1/completions", body, headers)
        self.assertEqual(status, 200, answer)
        return answer

    def metric(self, server, name):
        text = server.request("/metrics")[1]
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (.*)$", text, re.M))

    def check_tree(self, spans):
        """One root, whose children lie within it; stages follow each other. Returns them by name."""
        roots = [span for span in spans if span["name"] == "llm_request"]
        self.assertEqual(len(roots), 1, spans)
        root = roots[0]
        self.assertEqual(len({span["spanId"] for span in spans}), len(spans))
        for span in spans:
            self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
            self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
            self.assertLessEqual(begin(span), end(span))
            if span is root:
                continue
            self.assertEqual(span["parentSpanId"], root["spanId"])
            self.assertGreaterEqual(begin(span), begin(root), span["name"])
            self.assertLessEqual(end(span), end(root), span["name"])
        stages = [span for span in spans if span is not root and span["name"] != "rotation"]
        stages.sort(key=begin)
        self.assertEqual(begin(stages[0]), begin(root))
        for before, after in zip(stages, stages[1:]):
            self.assertEqual(end(before), begin(after), (before["name"], after["name"]))
        return {span["name"]: span for span in spans if span["name"] != "rotation"}

    def test_a_cold_and_a_warm_request(self):
        with Collector() as collector, self.serve(collector.url) as server:
            before = time.time_ns()
            began = time.monotonic()
            answer = self.complete(server)
            took = time.monotonic() - began
            cold = self.check_tree(next(iter(collector.traces(1).values())))
            root = cold["llm_request"]
            told = attributes(root)
            self.assertEqual(root["kind"], 2)
            self.assertNotIn("parentSpanId", root)
            self.assertEqual(told["gen_ai.request.id"], answer["id"])
            self.assertEqual(told["gen_ai.response.model"], "a")
            self.assertEqual(int(told["gen_ai.usage.prompt_tokens"]),
                             answer["usage"]["prompt_tokens"])
            self.assertEqual(int(told["gen_ai.usage.completion_tokens"]), 24)
            self.assertGreaterEqual(begin(root), before - 5 * MS)
            self.assertLessEqual(end(root), time.time_ns() + 5 * MS)
            self.assertLessEqual(seconds(root), took + 0.005)
            self.assertGreater(seconds(cold["load_model"]), 0)
            stages = sum(seconds(span) for name, span in cold.items() if name != "llm_request")
            self.assertAlmostEqual(stages, seconds(root), delta=0.1)
            self.assertAlmostEqual(told["gen_ai.latency.e2e"], seconds(root), places=6)
            self.assertAlmostEqual(
                told["gen_ai.latency.time_in_queue"] + told["gen_ai.latency.time_in_model_inference"]
                + seconds(cold["prepare"]), stages, places=6)
            self.assertEqual(collector.resource["service.name"], "causeway")
            self.complete(server, headers={"traceparent": CALLER})
            warm = self.check_tree(collector.traces(2)[CALLER[3:35]])
            self.assertEqual(warm["llm_request"]["parentSpanId"], CALLER[36:52])
            self.assertNotIn("load_model", warm)
            self.assertIn("decode", warm)

    def test_rotations_are_told(self):
        memory = ("--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes", "192kb",
                  "--kv-host-memory-bytes", "16mb", "--pool-memory-bytes", "256mb")
        with Collector() as collector, RunningServer(
                "--models-dir", self.root, *memory, "--otlp-endpoint", collector.url,
                "--scheduling-policy", "rotary", "--preemption", "rotate",
                "--slo-ttft-ms", "1", "--slo-tpot-ms", "1") as server:
            threads = [threading.Thread(target=self.complete, args=(server,),
                                        kwargs={"max_tokens": 120}) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rotated = self.metric(server, "causeway:kv_rotations_total")
            traces = collector.traces(6)
            told = [span for spans in traces.values() for span in spans
                    if span["name"] == "rotation"]
            for spans in traces.values():
                self.check_tree(spans)
            self.assertGreater(rotated, 0, "the test makes none")
            self.assertEqual(len(told), rotated)
            self.assertGreater(sum(map(seconds, told)), 0)

    def test_streams_and_errors(self):
        with Collector() as collector, self.serve(collector.url) as server:
            server.stream("/v1/completions", {"model": "a", "prompt": PROMPT, "max_tokens": 5})
            status, _ = server.request("/v1/completions", {"model": "z", "prompt": PROMPT})
            self.assertEqual(status, 404)
            trees = [self.check_tree(spans) for spans in collector.traces(2).values()]
            failed = [tree["llm_request"] for tree in trees if "status" in tree["llm_request"]]
            self.assertEqual(len(failed), 1)
            self.assertEqual(attributes(failed[0])["http.response.status_code"], "404")
            self.assertEqual(failed[0]["status"]["code"], 2)

    def test_collectors_that_fail_slow_nothing(self):
        absent = Collector()
        absent.server.server_close()
        with Collector(status=500) as broken, Collector(status=None) as hangs:
            for url in (absent.url, broken.url, hangs.url):
                with self.serve(url) as server:
                    self.complete(server)
                    for _ in range(20):
                        began = time.monotonic()
                        self.complete(server, max_tokens=2)
                        # The server gives a collector up after 5 s.
                        self.assertLess(time.monotonic() - began, 4, url)
                    self.assertEqual(server.stop(timeout=30), 0)
                    log = "".join(server.log)
                    if url != hangs.url:
                        self.assertIn("spans cannot be sent", log)
                    self.assertLessEqual(log.count("spans cannot be sent"), 1, log)

    def test_a_stop_sends_what_is_left(self):
        with Collector() as collector, self.serve(collector.url) as server:
            for _ in range(3):
                self.complete(server, max_tokens=2)
            self.assertEqual(server.stop(), 0)
            self.assertEqual(len(collector.traces(3)), 3)

    def test_endpoints_that_cannot_be(self):
        for url, why in (("https://127.0.0.1:4318", "run a collector beside it"),
                         ("127.0.0.1:4318", "http://HOST:PORT"),
                         ("http://u:p@127.0.0.1", "http://HOST:PORT"),
                         ("http://127.0.0.1:70000", "65535")):
            refused = run_causeway("serve", "--models-dir", self.root, "--otlp-endpoint", url)
            self.assertNotEqual(refused.returncode, 0, url)
            self.assertIn(why, refused.stderr)
            self.assertIn("--otlp-endpoint", refused.stderr)


if __name__ == "__main__":
    unittest.main()
