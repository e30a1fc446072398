"""What the tests of the official `openai` client have in common; served.py names the server."""

import unittest

import openai

from served import API_KEY, BASE_URL, MODEL, PATIENCE_SECONDS

QUESTION = [{"role": "user", "content": "Say something."}]


def make_client(key=API_KEY):
    return openai.OpenAI(base_url=BASE_URL, api_key=key, max_retries=0, timeout=PATIENCE_SECONDS)


class Suite(unittest.TestCase):
    def setUp(self):
        self.client = make_client()
        self.addCleanup(self.client.close)

    def chat(self, **parameters):
        settings = {"model": MODEL, "messages": QUESTION, "max_tokens": 8, **parameters}
        return self.client.chat.completions.create(**settings)

    def complete(self, **parameters):
        settings = {"model": MODEL, "prompt": "Once upon", "max_tokens": 8, **parameters}
        return self.client.completions.create(**settings)
