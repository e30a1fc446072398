#!/usr/bin/env python3
"""A catalogue that is larger than what may hold it: the device's cache, or host memory."""

import os
import random
import re
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

from running_server import (DEVICE, TINY_MEMORY, ModelsFolder, RunningServer, agree, make_model,
                            run_causeway)

KILLS = int(os.environ.get("CAUSEWAY_TEST_KILLS", "4"))
PROMPT = "The quick brown fox jumps over the lazy dog."
MODELS = ("a", "b", "c")
# A tiny model takes one extent of 32 MiB of the cache.
TWO_CACHED = ("--weights-memory-bytes", "64mb")


def metric(text, name, **labels):
    """The sum of the series of a metric that have these labels."""
    total, found = 0.0, False
    for line in text.splitlines():
        match = re.match(r"causeway:%s(?:{(.*)})? (\S+)$" % name, line)
        if match and all(f'{key}="{value}"' in (match[1] or "") for key, value in labels.items()):
            total, found = total + float(match[2]), True
    assert found, (name, labels)
    return total


class Catalogue(ModelsFolder):
    MODELS = MODELS

    def answer(self, server, model):
        answer = server.complete(model, PROMPT, max_tokens=8, temperature=0, ignore_eos=True,
                                 logprobs=2)
        return answer["choices"][0]

    def answers(self, server, rounds=1):
        """Of every model, asked by turns; each must answer the same in every round."""
        choices = {}
        for _ in range(rounds):
            for model in MODELS:
                choice = self.answer(server, model)
                self.assertEqual(choices.setdefault(model, choice)["text"], choice["text"])
        return choices

    def same_answers(self, server, expected, rounds=1):
        for model, choice in self.answers(server, rounds).items():
            self.assertEqual(choice["text"], expected[model]["text"])

    def listing(self, server):
        status, models = server.request("/v1/models")
        self.assertEqual(status, 200)
        return {model["id"]: model for model in models["data"]}

    def settled_listing(self, server):
        """When nothing moves any more: what was on its way comes after the last answer."""
        before, after = None, self.listing(server)
        while before != after:
            time.sleep(0.2)
            before, after = after, self.listing(server)
        return after

    def test_two_of_three_are_cached_and_all_answer(self):
        with RunningServer("--models-dir", self.root, *TINY_MEMORY, "--slices", "auto") as server:
            expected = self.answers(server)
            self.assertTrue(any("--slices auto: all, since" in line for line in server.log))
        self.assertEqual(len({choice["text"] for choice in expected.values()}), 3)
        with RunningServer("--models-dir", self.root, *TINY_MEMORY, *TWO_CACHED) as server:
            self.same_answers(server, expected, rounds=3)
            self.at_once(server, expected)

            models = self.settled_listing(server)
            for model in models.values():
                self.assertEqual(model["status"], "ready")
                self.assertGreater(model["resident_bytes"]["host"], 0)
                self.assertEqual(model["requests_running"] + model["requests_waiting"], 0)
            cached = [m["resident_bytes"]["device"] for m in models.values()]
            self.assertEqual(sum(bytes_ > 0 for bytes_ in cached), 2, cached)

            _, metrics = server.request("/metrics")
            for name, model in models.items():
                for tier, resident in model["resident_bytes"].items():
                    self.assertEqual(
                        metric(metrics, "model_resident_bytes", model_name=name, tier=tier),
                        resident)
            self.assertGreater(metric(metrics, "link_bytes_total", purpose="weights",
                                      direction="in"), sum(cached))
            self.assertGreaterEqual(metric(metrics, "model_switch_seconds_count"), 7)
            self.assertTrue(any(re.search(r"switched to [abc]: .* predicted", line)
                                for line in server.log))
            self.ps(server)

    def test_baselines_of_a_switch_answer_alike(self):
        answers, crossed = [], []
        for switching in "layers", "reload", "sleep":
            with RunningServer("--models-dir", self.root, *TINY_MEMORY, *TWO_CACHED,
                               "--switching", switching) as server:
                answers.append({model: choice["text"]
                                for model, choice in self.answers(server, rounds=3).items()})
                _, metrics = server.request("/metrics")
                crossed.append(metric(metrics, "link_bytes_total", purpose="weights",
                                      direction="in"))
                self.assertGreaterEqual(metric(metrics, "model_switch_seconds_count"), 7)
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])
        self.assertGreaterEqual(crossed[1], crossed[0], "whole models are no less than layers")

    def at_once(self, server, expected):
        wrong = []

        def ask(model):
            choice = self.answer(server, model)
            if not agree(choice, expected[model]):
                wrong.append((choice, expected[model]))
        threads = [threading.Thread(target=ask, args=(MODELS[i % 3],)) for i in range(18)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def ps(self, server):
        done = run_causeway("ps", "--url", server.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(),
                         ["model", "state", "host", "device", "running", "waiting",
                          "rotary", "streamed/token"])
        self.assertEqual([line.split()[:2] for line in lines[1:]],
                         [[model, "ready"] for model in MODELS])

    @unittest.skipIf((os.cpu_count() or 1) < 2, "two slices want two processors")
    def test_slices_share_the_catalogue(self):
        size = "2x56" if DEVICE == "cuda" else "2x1"
        with RunningServer("--models-dir", self.root, *TINY_MEMORY) as server:
            expected = self.answers(server)
        for cache in (), ("--weights-memory-bytes", "128mb"):
            with RunningServer("--models-dir", self.root, *TINY_MEMORY, *cache,
                               "--slices", size) as server:
                self.assertTrue(any("slice 1: " in line for line in server.log), server.log)
                self.same_answers(server, expected, rounds=2)
                for _ in range(3):
                    self.at_once(server, expected)
                for model in self.settled_listing(server).values():
                    self.assertEqual(model["status"], "ready")
                    self.assertEqual(model["requests_running"] + model["requests_waiting"], 0)

    @unittest.skipIf((os.cpu_count() or 1) < 2, "two slices want two processors")
    def test_a_killed_worker_is_started_again(self):
        size = "2x56" if DEVICE == "cuda" else "2x1"
        with RunningServer("--models-dir", self.root, *TINY_MEMORY) as server:
            expected = self.answers(server)
        with RunningServer("--models-dir", self.root, *TINY_MEMORY, "--slices", size,
                           "--isolate") as server:
            self.same_answers(server, expected)
            self.at_once(server, expected)
            long = {model: self.streamed(server, model) for model in MODELS}
            back = [self.kill_under_load(server, long) for _ in range(KILLS)]
            self.same_answers(server, expected)
            metrics = server.request("/metrics")[1]
            resumed = metric(metrics, "requests_resumed_total")
            print(f"{KILLS} kills, {resumed:.0f} requests resumed; a request that came right after "
                  f"was answered within {max(back):.2f} s")
            self.assertGreater(resumed, 0)

    def streamed(self, server, model):
        """The text of a streamed answer of 100 tokens, and the usage that is told of it."""
        events = server.stream("/v1/completions", {
            "model": model, "prompt": PROMPT, "max_tokens": 100, "temperature": 0,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}})
        text = "".join(event["choices"][0]["text"] for event in events if event["choices"])
        usage = events[-1]["usage"]
        return text, usage["prompt_tokens"], usage["completion_tokens"]

    def kill_under_load(self, server, expected):
        """Kills the worker while it answers: the clients see nothing but a delay. Returns how
        long a request took that came right after."""
        answers = []
        threads = [threading.Thread(
            target=lambda model=MODELS[i % 3]: answers.append(
                (model, self.streamed(server, model)))) for i in range(24)]
        for thread in threads:
            thread.start()
        time.sleep(random.uniform(0.02, 0.1))
        workers = server.workers()
        self.assertEqual(len(workers), 1)
        os.kill(workers.pop(), signal.SIGKILL)
        begin = time.monotonic()
        status, answer = server.request("/v1/completions", {
            "model": "a", "prompt": PROMPT, "max_tokens": 1, "temperature": 0})
        took = time.monotonic() - begin
        self.assertEqual(status, 200, answer)
        for thread in threads:
            thread.join()
        self.assertEqual(len(answers), len(threads))
        for model, answer in answers:
            if DEVICE == "cpu":
                self.assertEqual(answer, expected[model])
            else:  # another batch may round otherwise
                self.assertEqual(answer[1:], expected[model][1:])
        return took

    def test_slices_that_are_not_there_are_refused(self):
        for slices, message in (("2x4096", "4096"), ("0x1", "0x1"), ("9:all", "9"), ("x", "x")):
            done = run_causeway("serve", "--port", 0, "--device", "cpu", self.root / "a",
                                *TINY_MEMORY, "--slices", slices)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], f"--slices {slices}.*{message}")

    def test_ps_sends_its_key(self):
        with RunningServer(self.root / "a", *TINY_MEMORY, "--api-key", "key") as server:
            for arguments, status in ((["--api-key", "key"], 0), ([], 1)):
                done = run_causeway("ps", "--url", server.url, *arguments)
                self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("API key", done.stderr)

    def test_ps_without_a_server_says_so(self):
        done = run_causeway("ps", "--url", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "cannot reach 127.0.0.1:1: .*; is the server running")
        self.assertNotEqual(run_causeway("ps", "--url", "ftp://x").returncode, 0)

    def pool_for(self, models):
        with RunningServer(self.root / "a", *TINY_MEMORY) as server:
            server.complete("a", "x", max_tokens=1)
            return models * self.listing(server)["a"]["resident_bytes"]["host"] + 1000

    def test_models_give_way_in_a_pool_for_two(self):
        memory = (*TINY_MEMORY[:4], "--pool-memory-bytes", self.pool_for(2))
        with RunningServer("--models-dir", self.root, *memory, "--pin", "a") as server:
            self.answers(server, rounds=3)
            models = self.settled_listing(server)
            self.assertEqual({name: model["status"] for name, model in models.items()},
                             {"a": "ready", "b": "unloaded", "c": "ready"})
            self.assertEqual(models["b"]["resident_bytes"]["host"], 0)
            self.assertTrue(any("unloaded b" in line for line in server.log))
            self.assertFalse(any("unloaded a" in line for line in server.log))
            self.assertFalse(any("error" in line for line in server.log), server.log)
            self.assertEqual(sum("are loaded when asked for" in line for line in server.log), 1)

    def test_options_that_contradict_each_other_name_the_numbers(self):
        every = ("--models-dir", self.root)
        one = (self.root / "a",)
        cases = [
            ((*every, *TINY_MEMORY, "--pin", "z"), 2, r"--pin z: .* a, b, c"),
            ((*every, *TINY_MEMORY, *TWO_CACHED, "--pin", "a", "--pin", "b", "--pin", "c"), 1,
             r"pinned models take 96 MiB together.* 64 MiB.*--weights-memory-bytes"),
            ((*every, *TINY_MEMORY[:4], "--pool-memory-bytes", "300kb", "--pin", "a", "--pin", "b"),
             1, r"pinned models take \d+ KiB together.* 300 KiB .*--pool-memory-bytes"),
            ((*one, *TINY_MEMORY, "--weights-memory-bytes", "8tb"), 1,
             r"--weights-memory-bytes 8388608 MiB .* has left"),
            ((*one, *TINY_MEMORY, "--switching", "sleep"), 2,
             r"--switching: weights are read where they are.*--weights-memory-bytes"),
            ((*one, *TINY_MEMORY, *TWO_CACHED, "--switching", "reload", "--isolate"), 2,
             r"--switching: worker processes bring layers"),
            # MIG instances are in worker processes, unasked.
            ((*one, *TINY_MEMORY, *TWO_CACHED, "--switching", "reload", "--slices", "MIG-8f3c"), 2,
             r"--switching: worker processes bring layers.*MIG instances"),
            ((*one, *TINY_MEMORY, "--slices", "MIG-8f3c;MIG-01"), 2,
             r"--slices name a GPU, and models run on the CPU: add --device cuda"),
            ((*one, *TINY_MEMORY[:4], "--pool-memory-bytes", "64kb"), 1,
             r"needs \d+ KiB.*pool's 64 KiB.*--pool-memory-bytes"),
        ]
        for arguments, status, message in cases:
            done = run_causeway("serve", "--port", 0, "--device", "cpu", *arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], message)

    @unittest.skipIf((os.cpu_count() or 1) < 2, "two slices want two processors")
    def test_slices_without_room_for_any_model_name_the_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            large = make_model(Path(folder) / "large", vocab=150_000)
            cases = [
                # Less than an extent each.
                ((self.root / "a", "--weights-memory-bytes", "40mb"), 2,
                 r"slice 0 of 2: a cache of 20971520 bytes is less than one extent of 33554432"),
                # An extent each, and the table of outputs alone is larger.
                ((large, "--weights-memory-bytes", "64mb"), 1,
                 r"no slice of 2 has room for any model; of the smallest, large: a model of \d+ MiB "
                 r"that is streamed takes \d+ MiB .* at least, and may have 32 MiB; "
                 r".*--weights-memory-bytes.*--slices"),
            ]
            for arguments, status, message in cases:
                done = run_causeway("serve", "--port", 0, "--device", "cpu", *arguments,
                                    *TINY_MEMORY, "--slices", "2x1")
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertRegex(done.stderr.splitlines()[-1], message)

    def test_the_models_expected_most_are_loaded_first(self):
        rates = ("--expected-rate", "a=0.1", "--expected-rate", "b=2", "--expected-rate", "c=2.5")
        memory = (*TINY_MEMORY[:4], "--pool-memory-bytes", self.pool_for(2))
        with RunningServer("--models-dir", self.root, *memory, *rates) as server:
            models = self.settled_listing(server)
            self.assertEqual({name: model["status"] for name, model in models.items()},
                             {"a": "unloaded", "b": "ready", "c": "ready"})
            self.answer(server, "a")  # is served all the same
        for rate, status, message in (("z=1", 2, "--expected-rate z=1: no such model"),
                                      ("a=many", 2, "--expected-rate a=many: .*MODEL=RATE")):
            done = run_causeway("serve", "--port", 0, "--device", "cpu", "--models-dir", self.root,
                                *TINY_MEMORY, "--expected-rate", rate)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], message)

    def test_a_model_larger_than_its_cache_answers_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            large = make_model(Path(folder) / "large", vocab=150_000)
            answers = []
            for memory in (), ("--weights-memory-bytes", "64mb", "--weights-ring-bytes", "32mb"):
                with RunningServer(large, *TINY_MEMORY, *memory) as server:
                    answer = server.complete("large", PROMPT, max_tokens=8, temperature=0,
                                             ignore_eos=True)
                    answers.append(answer["choices"][0]["text"])
        self.assertEqual(*answers)


if __name__ == "__main__":
    unittest.main()
