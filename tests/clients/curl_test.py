#!/usr/bin/env python3
"""curl with bodies in the shapes of OpenAI's documentation, and in the ways that scripts send them."""

import json
import shutil
import subprocess
import sys
import unittest

from served import API_KEY, BASE_URL, MODEL, PATIENCE_SECONDS, ROOT_URL, SKIPPED

if shutil.which("curl") is None:
    print("skipped: there is no curl")
    sys.exit(SKIPPED)

HELLO = {"model": MODEL, "messages": [
    {"role": "developer", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Hello!"}]}
WEATHER = [{"type": "function", "function": {
    "name": "get_current_weather",
    "description": "Get the current weather in a given location",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["location"]}}}]


def curl(*arguments, key=API_KEY, data=None):
    """(status, body)"""
    command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE_SECONDS),
               "--write-out", "\n%{http_code}", *arguments]
    if key:
        command += ["-H", f"Authorization: Bearer {key}"]
    done = subprocess.run(command, input=data, capture_output=True, check=True,
                          timeout=PATIENCE_SECONDS + 10)
    body, _, status = done.stdout.decode().rpartition("\n")
    return int(status), body


def post(path, body, *arguments, **more):
    """As the documentation has it: -H and -d."""
    return curl(BASE_URL + path, "-H", "Content-Type: application/json", "-d", json.dumps(body),
                *arguments, **more)


class Shapes(unittest.TestCase):
    def answer(self, path, body, *arguments, **more):
        status, text = post(path, body, *arguments, **more)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_chat(self):
        answer = self.answer("/chat/completions", {**HELLO, "max_tokens": 8})
        self.assertEqual(set(answer) & {"id", "object", "created", "model", "choices", "usage"},
                         {"id", "object", "created", "model", "choices", "usage"})
        choice = answer["choices"][0]
        self.assertEqual(choice["index"], 0)
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIn("logprobs", choice)
        details = answer["usage"]["prompt_tokens_details"]
        self.assertGreaterEqual(details["cached_tokens"], 0)

    def test_streamed(self):
        status, text = post("/chat/completions", {**HELLO, "stream": True, "max_tokens": 8}, "-N")
        self.assertEqual(status, 200, text)
        lines = [line for line in text.split("\n") if line]
        self.assertTrue(all(line.startswith(("data: ", ":")) for line in lines), text)
        self.assertEqual(lines[-1], "data: [DONE]")
        first = json.loads(lines[0].removeprefix("data: "))
        self.assertEqual(first["object"], "chat.completion.chunk")
        self.assertEqual(first["choices"][0]["delta"]["role"], "assistant")

    def test_functions(self):
        body = {"model": MODEL, "tools": WEATHER, "tool_choice": "auto", "max_tokens": 8,
                "messages": [{"role": "user", "content": "What is the weather like in Boston?"}]}
        answer = self.answer("/chat/completions", body)
        self.assertIn(answer["choices"][0]["finish_reason"], {"stop", "length", "tool_calls"})

    def test_logprobs(self):
        answer = self.answer("/chat/completions", {
            **HELLO, "logprobs": True, "top_logprobs": 2, "max_tokens": 3})
        for token in answer["choices"][0]["logprobs"]["content"]:
            self.assertEqual(set(token), {"token", "logprob", "bytes", "top_logprobs"})
            self.assertEqual(len(token["top_logprobs"]), 2)

    def test_completion(self):
        answer = self.answer("/completions", {
            "model": MODEL, "prompt": "Say this is a test", "max_tokens": 7, "temperature": 0})
        self.assertEqual(answer["object"], "text_completion")
        self.assertIsInstance(answer["choices"][0]["text"], str)

    def test_embeddings(self):
        answer = self.answer("/embeddings", {
            "input": "The food was delicious and the waiter...", "model": MODEL,
            "encoding_format": "float"})
        self.assertEqual(answer["object"], "list")
        self.assertEqual(answer["data"][0]["object"], "embedding")
        self.assertIsInstance(answer["data"][0]["embedding"][0], float)

    def test_models(self):
        status, text = curl(BASE_URL + "/models")
        self.assertEqual(status, 200)
        self.assertIn(MODEL, [model["id"] for model in json.loads(text)["data"]])
        status, text = curl(f"{BASE_URL}/models/{MODEL}")
        self.assertEqual((status, json.loads(text)["object"]), (200, "model"))

    def test_images_are_refused_by_name(self):
        status, text = post("/chat/completions", {"model": MODEL, "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "What is in this image?"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.jpg"}}]}]})
        self.assertEqual(status, 400)
        error = json.loads(text)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertTrue(error["param"].startswith("messages"), error)

    def test_without_a_key(self):
        if API_KEY == "none":
            self.skipTest("the server asks for no key")
        for key in (None, "wrong"):
            status, text = post("/chat/completions", HELLO, key=key)
            self.assertEqual(status, 401)
            self.assertNotIn("wrong", text)
        self.assertEqual(curl(ROOT_URL + "/health", key=None)[0], 200)


class Ways(unittest.TestCase):
    def test_a_file_in_chunks(self):
        body = json.dumps({**HELLO, "max_tokens": 4}).encode()
        for more in (["-H", "Transfer-Encoding: chunked"], ["--http1.0"], ["--compressed"], []):
            status, text = curl(BASE_URL + "/chat/completions", "-H",
                                "Content-Type: application/json", "--data-binary", "@-", *more,
                                data=body)
            self.assertEqual(status, 200, (more, text))

    def test_a_large_body_waits_for_continue(self):
        # curl sends `Expect: 100-continue` before a body of a megabyte or more.
        body = json.dumps({**HELLO, "max_tokens": 4}).encode() + b" " * (2 << 20)
        status, text = curl(BASE_URL + "/chat/completions", "-H", "Content-Type: application/json",
                            "--data-binary", "@-", data=body)
        self.assertEqual(status, 200, text)

    def test_one_connection_for_several(self):
        done = subprocess.run(
            ["curl", "--silent", "--max-time", str(PATIENCE_SECONDS), "-w", "%{num_connects} ",
             "-o", "/dev/null", ROOT_URL + "/health", "-o", "/dev/null", ROOT_URL + "/version",
             "-o", "/dev/null", ROOT_URL + "/health"], capture_output=True, check=True, text=True)
        self.assertEqual(done.stdout.split(), ["1", "0", "0"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
