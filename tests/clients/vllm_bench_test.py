#!/usr/bin/env python3
"""What `vllm bench serve` sends and reads, as of vLLM 0.33 (vllm/benchmarks/serve.py and
lib/endpoint_request_func.py): the program itself comes with PyTorch and CUDA's libraries, gigabytes
that a test cannot install. Standard library only."""

import contextlib
import http.client
import json
import threading
import unittest
from urllib.parse import urlsplit

from served import API_KEY, MODEL, PATIENCE_SECONDS, ROOT_URL

TOKENS = 16
# Of --top-p, --top-k, --min-p, --temperature and the penalties.
SAMPLING = {"top_p": 0.9, "top_k": 20, "min_p": 0.0, "temperature": 0.7, "frequency_penalty": 0.1,
            "presence_penalty": 0.1, "repetition_penalty": 1.1}


@contextlib.contextmanager
def send(method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(urlsplit(ROOT_URL).netloc, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body).encode(), {
            "Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json",
            **(headers or {})})
        with connection.getresponse() as response:
            yield response


def read_json(*arguments, **more):
    with send(*arguments, **more) as response:
        return response.status, json.loads(response.read())


def events(path, body, number=0):
    """The stream's messages, taken apart as the benchmark does; the last must be [DONE]."""
    with send("POST", path, body, {"x-request-id": f"bench-{number}"}) as response:
        assert response.status == 200, response.read()
        text = response.read().decode()
    messages = [message.strip() for message in text.split("\n\n")]
    messages = [message.removeprefix("data: ") for message in messages
                if message and not message.startswith(":")]
    assert messages[-1] == "[DONE]", messages[-1]
    return [json.loads(message) for message in messages[:-1]]


def completion(prompt, **more):
    return {"model": MODEL, "prompt": prompt, "repetition_penalty": 1.0, "max_tokens": TOKENS,
            "logprobs": None, "stream": True, "stream_options": {"include_usage": True},
            "ignore_eos": True, **more}


def chat(content, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": content}],
            "max_completion_tokens": TOKENS, "stream": True,
            "stream_options": {"include_usage": True}, "ignore_eos": True, **more}


class Requests(unittest.TestCase):
    def measured(self, path, body, number=0):
        """(prompt tokens, tokens, text) as the benchmark counts them."""
        text, usage, pieces = "", None, 0
        for event in events(path, body, number):
            if event.get("choices"):
                self.assertIsNone(usage, "usage comes last")
                choice = event["choices"][0]
                piece = choice.get("text") if "text" in choice else choice["delta"].get("content")
                text += piece or ""
                pieces += 1
            elif event.get("usage"):
                usage = event["usage"]
        self.assertGreater(pieces, 0, "no first token to be timed")
        return usage["prompt_tokens"], usage["completion_tokens"], text

    def test_completions(self):
        ids = [5, 6, 7, 8]
        self.assertEqual(self.measured("/v1/completions", completion(ids))[:2], (4, TOKENS))
        for more in ({}, SAMPLING, {"temperature": 0.0, "logprobs": 2}):
            prompt, generated, _ = self.measured("/v1/completions", completion("Once upon", **more))
            self.assertGreater(prompt, 0)
            self.assertEqual(generated, TOKENS)

    def test_chats(self):
        for content in ("Once upon", [{"type": "text", "text": "Once upon"}]):
            for more in ({}, SAMPLING):
                prompt, generated, _ = self.measured("/v1/chat/completions", chat(content, **more))
                self.assertGreater(prompt, 0)
                self.assertEqual(generated, TOKENS)

    def test_many_at_once(self):
        counted = []

        def ask(number):
            counted.append(self.measured("/v1/completions", completion([5] * (number + 1)), number))
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(prompt for prompt, _, _ in counted), list(range(1, 25)))
        self.assertEqual({generated for _, generated, _ in counted}, {TOKENS})

    def test_embeddings(self):
        status, answer = read_json("POST", "/v1/embeddings", {
            "model": MODEL, "input": ["Once upon", "a time"], "truncate_prompt_tokens": -1})
        self.assertEqual(status, 200, answer)
        self.assertGreater(answer["usage"]["prompt_tokens"], 0)


class Around(unittest.TestCase):
    """What it asks beside the requests that it measures."""

    def test_the_first_model_where_none_is_named(self):
        status, listing = read_json("GET", "/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual((listing["data"][0]["id"], listing["data"][0]["root"]), (MODEL, MODEL))

    def test_prompts_are_aligned_to_the_servers_tokenizer(self):
        text = "The lighthouse keeper counted the ships."
        status, tokens = read_json("POST", "/tokenize", {
            "model": MODEL, "prompt": text, "add_special_tokens": False})
        self.assertEqual(status, 200, tokens)
        ids = tokens["tokens"]
        status, back = read_json("POST", "/detokenize", {"model": MODEL, "tokens": ids[:3]})
        self.assertEqual(status, 200, back)
        self.assertTrue(text.startswith(back["prompt"].rstrip("\ufffd")))

    def test_metrics_are_text(self):
        with send("GET", "/metrics") as response:
            self.assertEqual(response.status, 200)
            lines = response.read().decode().splitlines()
        for line in lines:
            if line and not line.startswith("#"):
                float(line.rsplit(" ", 1)[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
