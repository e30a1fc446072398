#!/usr/bin/env python3
"""The program end to end: real server, real models, real sockets. Standard library only."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from running_server import (BINARY, DEVICE, TINY_MEMORY, RunningServer, agree, make_model,
                            run_causeway)

DATA = os.environ.get("CAUSEWAY_TEST_DATA")
PROMPT = "The quick brown fox jumps over the lazy dog."


def copy_own_libraries(program, folder):
    """What the system does not have of a program's libraries: another user may not read it there."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"=> (/\S+)", linked):
        if not path.startswith(("/lib", "/usr")):
            shutil.copy(path, folder)


class Catalogue(unittest.TestCase):
    """Three families behind one server."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = Path(cls.folder.name)
        make_model(root / "llama")
        make_model(root / "qwen3", "qwen3", seed=2)
        make_model(root / "moe", "qwen3_moe", seed=3, experts=8, **{"experts-per-token": 2})
        (root / "broken").mkdir()
        (root / "broken" / "config.json").write_text('{"architectures": ["Unknown"]}')
        cls.server = RunningServer("--models-dir", root, *TINY_MEMORY)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def test_lists_what_can_be_served(self):
        status, models = self.server.request("/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual([m["id"] for m in models["data"]], ["llama", "moe", "qwen3"])
        self.assertTrue(any("broken" in line for line in self.server.log))

    def test_every_model_answers_and_greedy_is_reproducible(self):
        for model in ("llama", "qwen3", "moe"):
            first, second = (self.server.complete(model, PROMPT, max_tokens=8, temperature=0,
                                                  ignore_eos=True) for _ in range(2))
            self.assertEqual(first["usage"]["completion_tokens"], 8)
            self.assertEqual(first["choices"][0]["text"], second["choices"][0]["text"])
            self.assertEqual(first["choices"][0]["finish_reason"], "length")

    def test_seeds_reproduce_and_differ(self):
        def draw(seed):
            return self.server.complete("llama", PROMPT, max_tokens=16, temperature=1.0, seed=seed,
                                        ignore_eos=True)["choices"][0]["text"]
        self.assertEqual(draw(7), draw(7))
        self.assertNotEqual(draw(7), draw(8))

    def test_stream_carries_the_same_text(self):
        body = {"model": "qwen3", "prompt": PROMPT, "max_tokens": 12, "temperature": 0,
                "ignore_eos": True, "stream_options": {"include_usage": True}}
        whole = self.server.complete(**{k: v for k, v in body.items() if k != "stream_options"})
        events = self.server.stream("/v1/completions", body)
        text = "".join(c["text"] for event in events for c in event["choices"])
        self.assertEqual(text, whole["choices"][0]["text"])
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"], whole["usage"])

    def test_chat(self):
        status, answer = self.server.request("/v1/chat/completions", {
            "model": "llama", "max_tokens": 4,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")

    def test_answers_do_not_depend_on_the_load(self):
        def answer(model):
            return self.server.complete(model, PROMPT, max_tokens=24, temperature=0, ignore_eos=True,
                                        logprobs=2)["choices"][0]
        alone = answer("llama")
        choices, failures = [], []

        def ask(index):
            try:
                model = ("llama", "qwen3", "moe")[index % 3]
                choice = answer(model)
                if model == "llama":
                    choices.append(choice)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(choices), 10)
        self.assertEqual([choice for choice in choices if not agree(choice, alone)], [], alone)

    def test_errors(self):
        cases = [
            ({"model": "no-such-model", "prompt": "x"}, 404, "model"),
            ({"model": "../llama", "prompt": "x"}, 404, "model"),
            ({"model": "/etc/passwd", "prompt": "x"}, 404, "model"),
            ({"model": "llama", "prompt": "x", "temperature": -1}, 400, "temperature"),
            ({"model": "llama", "prompt": [1] * 100000}, 400, None),
            ({"model": "llama", "prompt": [999999]}, 400, None),
            ({"model": "llama", "prompt": "x", "logit_bias": {"5": 101}}, 400, "logit_bias"),
        ]
        for body, expected, parameter in cases:
            status, answer = self.server.request("/v1/completions", body)
            self.assertEqual(status, expected, (body if len(str(body)) < 200 else "…", answer))
            self.assertIn("message", answer["error"])
            if parameter:
                self.assertEqual(answer["error"]["param"], parameter)

    def test_metrics_are_well_formed_and_count(self):
        self.server.complete("moe", PROMPT, max_tokens=4, ignore_eos=True)
        _, metrics = self.server.request("/metrics")
        self.assertRegex(metrics, r'causeway:generation_tokens_total\{[^}]*model_name="moe"')
        promtool = shutil.which("promtool")
        if promtool:
            checked = subprocess.run([promtool, "check", "metrics"], input=metrics, text=True,
                                     capture_output=True, check=False)
            # The one complaint we accept: vLLM's names, which dashboards know, have a colon.
            complaints = [line for line in (checked.stdout + checked.stderr).splitlines()
                          if line and "should not contain ':'" not in line]
            self.assertEqual(complaints, [])

    def test_bench_serve_drives_all_models(self):
        done = run_causeway("bench", "serve", "--base-url", self.server.url + "/v1",
                            "--num-prompts", 30, "--input-len", 20, "--output-len", 5,
                            "--request-rate", 100, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout[done.stdout.index("{\n"):])
        self.assertEqual(report["all"]["requests"], 30)
        self.assertEqual(report["all"]["failed"], 0)
        self.assertEqual({m["model"] for m in report["models"]}, {"llama", "qwen3", "moe"})
        self.assertGreater(report["all"]["ttft_ms"]["p50"], 0)


class Lifecycle(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = make_model(Path(self.folder.name) / "m")

    def tearDown(self):
        self.folder.cleanup()

    def test_sigterm_drains(self):
        with RunningServer(self.model, *TINY_MEMORY, "--shutdown-grace", 60) as server:
            server.complete("m", "x", max_tokens=1)
            result = {}

            def long_request():
                result["answer"] = server.complete("m", "x", max_tokens=400, ignore_eos=True)
            thread = threading.Thread(target=long_request)
            thread.start()
            while server.request("/metrics")[1].find(
                    'causeway:num_requests_running{model_name="m"} 1') < 0 and thread.is_alive():
                pass
            self.assertEqual(server.stop(), 0)
            thread.join()
            self.assertEqual(result["answer"]["usage"]["completion_tokens"], 400)

    def test_a_closed_terminal_drains(self):
        for more in ((), ("--isolate",)):
            with self.subTest(more):
                self.close_terminal(*more)

    def close_terminal(self, *more):
        with RunningServer(self.model, *TINY_MEMORY, "--shutdown-grace", 60, *more) as server:
            result = {}

            def long_request():
                result["answer"] = server.complete("m", "x", max_tokens=400, ignore_eos=True)
            thread = threading.Thread(target=long_request)
            thread.start()
            while server.request("/metrics")[1].find(
                    'causeway:num_requests_running{model_name="m"} 1') < 0 and thread.is_alive():
                pass
            for _ in range(3):  # the shell's, and the kernel's when the shell has ended
                for pid in server.workers():
                    with contextlib.suppress(ProcessLookupError):  # it has drained meanwhile
                        os.kill(pid, signal.SIGHUP)
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.1)
            self.assertEqual(server.process.wait(60), 0)
            self.assertNotIn("is lost", "".join(server.log))
            thread.join()
            self.assertEqual(result["answer"]["usage"]["completion_tokens"], 400)

    def test_nohup_outlives_the_terminal(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it to its program
        try:
            with RunningServer(self.model, *TINY_MEMORY) as server:
                server.process.send_signal(signal.SIGHUP)
                time.sleep(1)
                self.assertEqual(server.request("/health")[0], 200)
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_one_model_under_a_served_name_with_a_key(self):
        with RunningServer("--served-model-name", "org/name", "--api-key", "secret", self.model,
                           *TINY_MEMORY) as server:
            self.assertEqual(server.request("/v1/models")[0], 401)
            status, models = server.request("/v1/models",
                                            headers={"Authorization": "Bearer secret"})
            self.assertEqual((status, models["data"][0]["id"]), (200, "org/name"))
            self.assertEqual(server.request("/health")[0], 200)

    @unittest.skipIf(DEVICE == "cuda", "a GPU's KV cache comes in pieces that hold any such context")
    def test_a_context_that_the_kv_cache_cannot_hold_is_not_promised(self):
        with RunningServer(self.model, "--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes",
                           "128kb", "--pool-memory-bytes", "256mb") as server:
            promised = server.request("/v1/models")[1]["data"][0]["max_model_len"]
            context = json.loads((self.model / "config.json").read_text())
            self.assertLess(promised, context["max_position_embeddings"])
            # Without max_tokens all of the context is asked for.
            chat = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
            self.assertEqual(server.request("/v1/chat/completions", chat)[0], 200)

    @unittest.skipIf(DEVICE == "cuda", "a GPU's KV cache comes in pieces that hold all of this")
    def test_requests_turn_between_kv_cache_and_host_memory(self):
        """Twenty-four requests on KV for a sixth of them: nobody is computed twice, nobody differs."""
        prompts = [f"{n} green bottles hang on the wall" for n in range(24)]

        def ask(server, prompt):
            # ignore_eos: all of them grow beyond what there is room for.
            return server.complete("m", prompt, max_tokens=100, temperature=0,
                                   ignore_eos=True)["choices"][0]["text"]

        with RunningServer(self.model, *TINY_MEMORY) as server:
            alone = [ask(server, prompt) for prompt in prompts]
        with RunningServer(self.model, "--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes",
                           "256kb", "--kv-host-memory-bytes", "8mb", "--pool-memory-bytes", "256mb",
                           "--scheduling-policy", "rotary", "--preemption", "rotate",
                           "--slo-ttft-ms", "50", "--slo-tpot-ms", "m=1", "--rotary-alpha", "m=2",
                           "--rotary-displaces-early", "all", "--rotary-ahead-share", "0",
                           "--rotary-late-after", "0", "--slo-ttft-slack", "0.25") as server:
            answers = [None] * len(prompts)

            def ask_one(index):
                answers[index] = ask(server, prompts[index])

            threads = [threading.Thread(target=ask_one, args=(i,)) for i in range(len(prompts))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            metrics = server.request("/metrics")[1]
            ps = run_causeway("ps", "--url", server.url).stdout
        self.assertEqual(answers, alone)
        self.assertRegex(ps, r"KV in host memory: [0-9]+ of 512 blocks")

        def value(name):
            return float(re.search(rf"^causeway:{re.escape(name)} (\S+)$", metrics, re.M).group(1))

        self.assertGreater(value('kv_rotations_total{model_name="m"}'), 0)
        self.assertEqual(value('num_preemptions_total{model_name="m"}'), 0)
        self.assertGreater(
            value('kv_rotation_blocks_total{direction="in",reason="rotation"}'), 0)
        self.assertEqual(value("kv_copies_failed_total"), 0)
        self.assertEqual(value('slo_lag_seconds_count{at="finished",model_name="m"}'), len(prompts))

    @unittest.skipIf(DEVICE == "cuda", "a GPU's KV cache comes in pieces that hold all of this")
    def test_clients_leave_and_the_server_drains_while_requests_are_in_host_memory(self):
        """Of 24 requests on KV for four, 12 clients leave; the others have what they have alone."""
        prompts = [f"{n} green bottles hang on the wall" for n in range(24)]
        body = {"model": "m", "max_tokens": 100, "temperature": 0, "ignore_eos": True}
        with RunningServer(self.model, *TINY_MEMORY) as server:
            alone = [server.request("/v1/completions", {**body, "prompt": prompt})[1]
                     ["choices"][0]["text"] for prompt in prompts[12:]]
        with RunningServer(self.model, "--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes",
                           "256kb", "--kv-host-memory-bytes", "8mb", "--pool-memory-bytes", "256mb",
                           "--scheduling-policy", "rotary", "--preemption", "rotate",
                           "--slo-ttft-ms", "50", "--slo-tpot-ms", "1", "--rotary-ahead-share", "0",
                           "--rotary-displaces-early", "all", "--shutdown-grace", 60) as server:
            answers = [None] * 12
            leaving = []
            for prompt in prompts[:12]:
                client = socket.create_connection(("127.0.0.1", server.port))
                data = json.dumps({**body, "prompt": prompt, "stream": True}).encode()
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                               + str(len(data)).encode() + b"\r\n\r\n" + data)
                leaving.append(client)

            def ask_one(index):
                answers[index] = server.request(
                    "/v1/completions", {**body, "prompt": prompts[12 + index]})

            threads = [threading.Thread(target=ask_one, args=(i,)) for i in range(12)]
            for thread in threads:
                thread.start()
            rotary = 0
            while rotary == 0 and any(thread.is_alive() for thread in threads):
                rotary = server.request("/v1/models")[1]["data"][0]["requests_rotary"]
            self.assertGreater(rotary, 0)
            for client in leaving:
                client.close()
            self.assertEqual(server.stop(), 0)
            for thread in threads:
                thread.join()
        taken = [i for i in range(12) if answers[i][0] != 503]  # the others came after the signal
        self.assertGreater(len(taken), 0)
        self.assertEqual([answers[i][1]["choices"][0]["text"] for i in taken],
                         [alone[i] for i in taken])

    def test_tokens_without_waking_the_model(self):
        with RunningServer(self.model, "--load-on-demand", *TINY_MEMORY) as server:
            status, encoded = server.request("/tokenize", {"model": "m", "prompt": PROMPT})
            self.assertEqual(status, 200)
            status, decoded = server.request(
                "/detokenize", {"model": "m", "tokens": encoded["tokens"]})
            self.assertEqual(status, 200)
            self.assertTrue(decoded["prompt"].endswith(PROMPT), decoded)  # behind a BOS
            self.assertEqual(server.request("/ping")[0], 200)
            _, models = server.request("/v1/models")
            self.assertEqual(models["data"][0]["status"], "unloaded")
            answer = server.complete("m", PROMPT, max_tokens=1, return_token_ids=True)
            self.assertEqual(answer["choices"][0]["prompt_token_ids"], encoded["tokens"])

    def test_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = run_causeway("serve", self.model, *TINY_MEMORY, "--port", port)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(port), done.stderr.splitlines()[-1])

    def test_bad_directories_and_options(self):
        for arguments in (["serve", "no/such/folder"], ["serve", self.folder.name],
                          ["serve", "--models-dir", "no/such/folder"], ["serve"],
                          ["serve", self.model, "--kv-frame-bytes", "1000"],
                          ["serve", self.model, "--scheduling-policy", "random"],
                          ["serve", self.model, "--preemption", "never"],
                          ["serve", self.model, "--preemption", "rotate"],
                          ["serve", self.model, "--kv-cache-memory-bytes", "0"],
                          ["serve", self.model, "--kv-host-memory-bytes", "1kb"],
                          ["serve", self.model, "--kv-host-memory-bytes", "64mb",
                           "--preemption", "recompute"],
                          ["serve", self.model, "--rotary-alpha", "0"],
                          ["serve", self.model, "--rotary-alpha", "other=3"],
                          ["serve", self.model, "--slo-ttft-ms", "1e9"],
                          ["serve", self.model, "--slo-tpot-slack", "2"],
                          ["serve", self.model, "--rotation-frames-share", "0.9"],
                          ["serve", self.model, "--no-such-option"], ["nonsense"]):
            done = run_causeway(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertNotEqual(done.stderr.strip(), "", arguments)

    def test_weights_that_are_nan_are_an_error(self):
        damaged = Path(self.folder.name) / "damaged"
        shutil.copytree(self.model, damaged)
        path = damaged / "model.safetensors"
        data = bytearray(path.read_bytes())
        size = int.from_bytes(data[:8], "little")
        begin, end = json.loads(data[8:8 + size])["model.norm.weight"]["data_offsets"]
        data[8 + size + begin:8 + size + end] = b"\0\0\xc0\x7f" * ((end - begin) // 4)
        path.write_bytes(data)
        with RunningServer(damaged, *TINY_MEMORY) as server:
            for more in ({}, {"temperature": 0}, {"logprobs": 1, "echo": True},
                         {"allowed_token_ids": [65, 66]}):
                status, answer = server.request("/v1/completions", {
                    "model": "damaged", "prompt": "x", "max_tokens": 4, **more})
                self.assertEqual(status, 500, answer)
                self.assertIn("NaN logits", answer["error"]["message"])
            self.assertEqual(server.request("/health")[0], 200)

    @unittest.skipUnless(os.geteuid() == 0, "to become a user with a limit of threads takes root")
    def test_threads_that_cannot_be_started_end_it_with_a_message(self):
        nobody = 65534
        with tempfile.TemporaryDirectory() as folder:
            program, model = Path(folder) / "causeway", Path(folder) / "model"
            shutil.copy(BINARY, program)
            shutil.copytree(self.model, model)
            copy_own_libraries(program, Path(folder))
            subprocess.run(["chmod", "-R", "a+rX", folder], check=True)

            def limited(threads):
                os.setgroups([])
                os.setgid(nobody)
                os.setuid(nobody)
                resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))

            forks = subprocess.run(["sh", "-c", "/bin/true; /bin/true"], stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: limited(1))
            if forks.returncode == 0:
                self.skipTest("no limit of a user's threads is enforced here")
            ended = []
            for threads in range(1, 13):
                process = subprocess.Popen(
                    [program, "serve", model, "--device", "cpu", "--port", "0", *TINY_MEMORY],
                    stderr=subprocess.PIPE, text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": folder},
                    preexec_fn=lambda threads=threads: limited(threads))
                log = []
                for line in process.stderr:
                    log.append(line)
                    if "serving" in line:
                        process.terminate()
                process.wait(60)
                self.assertIn(process.returncode, (0, 1), log)
                if process.returncode == 1:
                    self.assertIn("thread", log[-1])
                    ended.append(threads)
                process.stderr.close()
            self.assertIn(1, ended)
            self.assertGreater(len(ended), 3, "the server's own threads were never short")

    def test_config_file_and_environment(self):
        config = Path(self.folder.name) / "config.yaml"
        config.write_text(f"model: {self.model}\nserved-model-name: from-file\n")
        with RunningServer("--config", config, *TINY_MEMORY) as server:
            self.assertEqual(server.request("/v1/models")[1]["data"][0]["id"], "from-file")

    def test_truncated_weights_name_the_file_and_the_others_live(self):
        root = Path(self.folder.name)
        broken = make_model(root / "broken")
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1000])
        with RunningServer("--models-dir", root, *TINY_MEMORY) as server:
            status, answer = server.request("/v1/completions", {"model": "broken", "prompt": "x"})
            self.assertGreaterEqual(status, 500)
            self.assertIn("model.safetensors", answer["error"]["message"])
            server.complete("m", "x", max_tokens=1)
        alone = run_causeway("serve", broken, "--port", 0, *TINY_MEMORY)
        self.assertEqual(alone.returncode, 1)
        self.assertIn("model.safetensors", alone.stderr.splitlines()[-1])

    @unittest.skipIf(Path("/dev/nvidiactl").exists(), "this machine has a GPU")
    def test_no_gpu_says_so_and_what_to_do(self):
        done = run_causeway("serve", self.model, "--device", "cuda", "--port", 0, *TINY_MEMORY)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"no NVIDIA driver: .*; install one|no NVIDIA GPU: .*nvidia-smi"
                         r"|no CUDA parts: .*--device cpu")

    def test_no_space_in_the_pool(self):
        done = run_causeway("serve", self.model, "--port", 0, *TINY_MEMORY[:4],
                            "--pool-memory-bytes", "64kb")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"needs \d+ [KM]iB.*pool's 64 KiB.*--pool-memory-bytes")

    def test_models_list(self):
        done = run_causeway("models", "list", "--models-dir", self.folder.name, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)[0]["name"], "m")

    def test_version_and_help(self):
        self.assertRegex(run_causeway("--version").stdout, r"causeway \d+\.\d+\.\d+")
        self.assertIn("--max-model-len", run_causeway("serve", "--help").stdout)

    def test_benches_without_a_gpu_say_so(self):
        for arguments in (["gemm", "--home", "host"],
                          ["model", "--model-config", self.model / "config.json",
                           "--random-weights"]):
            done = run_causeway("bench", *arguments, environment={"CUDA_VISIBLE_DEVICES": ""})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], "GPU|CUDA|NVIDIA")

    def test_metrics_count_the_prefix_cache_of_the_real_engine(self):
        with RunningServer(self.model, *TINY_MEMORY) as server:
            for _ in range(2):
                server.complete("m", "the same words again " * 20, max_tokens=1)
            metrics = server.request("/metrics")[1]
        for name, tier in (("queries", ""), ("hits", ',tier="hbm"')):
            found = re.search(
                r'^causeway:prefix_cache_%s_total{model_name="m"%s} (\d+)' % (name, tier), metrics,
                re.M)
            self.assertIsNotNone(found, name)
            self.assertGreater(int(found[1]), 0, name)

    def test_second_signal_exits_at_once(self):
        with RunningServer(self.model, *TINY_MEMORY, "--shutdown-grace", 600) as server:
            # Enough that draining takes seconds.
            threads = [threading.Thread(target=lambda: self._ignore_errors(server), daemon=True)
                       for _ in range(24)]
            for thread in threads:
                thread.start()
            running = re.compile(r'causeway:num_requests_running{model_name="m"} (\d+)')
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                found = running.search(server.request("/metrics")[1])
                if found and int(found[1]) >= 12:
                    break
            server.process.send_signal(signal.SIGTERM)
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(30), 130)

    @staticmethod
    def _ignore_errors(server):
        try:
            server.complete("m", "x", max_tokens=480, ignore_eos=True)
        except Exception:  # pylint: disable=broad-except
            pass


@unittest.skipUnless(DATA, "CAUSEWAY_TEST_DATA is unset")
@unittest.skipUnless(DEVICE == "cpu", "the model's weights are f32, those on a GPU bf16")
class RealModel(unittest.TestCase):
    def test_stories_greedy_golden(self):
        directory = Path(DATA) / "models" / "stories260K"
        golden = json.loads((directory / "greedy_golden.json").read_text())
        with RunningServer(directory, "--kv-frame-bytes", "64kb", "--kv-cache-memory-bytes",
                           "32mb") as server:
            answer = server.complete("stories260K", golden["prompt_ids"], temperature=0,
                                     max_tokens=len(golden["greedy_ids"]), ignore_eos=True)
            self.assertIn(answer["choices"][0]["text"].strip(), golden["text"])
            self.assertGreater(len(answer["choices"][0]["text"]), 100)


if __name__ == "__main__":
    assert Path(BINARY).exists(), BINARY
    unittest.main()
