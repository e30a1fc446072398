#!/usr/bin/env python3
"""LiteLLM, which speaks to this server as to OpenAI or to vLLM."""

import json
import os
import unittest
from typing import Literal

from served import (ANY_FORM, API_KEY, BASE_URL, CITIES, DRAWN, FORMED_TOKENS, MODEL,
                    PATIENCE_SECONDS, SIZES, TOOL, need)

# Else it asks the network for its list of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
need("litellm")

import litellm  # noqa: E402
import pydantic  # noqa: E402

litellm.suppress_debug_info = True
litellm.telemetry = False
QUESTION = [{"role": "user", "content": "Say something."}]
PROVIDERS = ("openai", "hosted_vllm")


class Answer(pydantic.BaseModel):
    size: Literal[SIZES]
    hot: bool


def settings(provider="openai", **parameters):
    return {"model": f"{provider}/{MODEL}", "api_base": BASE_URL, "api_key": API_KEY,
            "max_retries": 0, "timeout": PATIENCE_SECONDS, "max_tokens": 12, "temperature": 0,
            **parameters}


def chat(provider="openai", **parameters):
    return litellm.completion(messages=QUESTION, **settings(provider, **parameters))


class Chats(unittest.IsolatedAsyncioTestCase):
    def test_whole_and_streamed(self):
        for provider in PROVIDERS:
            whole = chat(provider)
            self.assertIn(whole.choices[0].finish_reason, {"stop", "length"})
            self.assertGreater(whole.usage.prompt_tokens, 0)
            chunks = list(chat(provider, stream=True, stream_options={"include_usage": True}))
            text = "".join(chunk.choices[0].delta.content or ""
                           for chunk in chunks if chunk.choices)
            self.assertEqual(text, whole.choices[0].message.content or "", provider)
            rebuilt = litellm.stream_chunk_builder(chunks, messages=QUESTION)
            self.assertEqual(rebuilt.choices[0].message.content or "", text)

    async def test_async(self):
        whole = await litellm.acompletion(messages=QUESTION, **settings())
        stream = await litellm.acompletion(messages=QUESTION, **settings(stream=True))
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        self.assertEqual("".join(pieces), whole.choices[0].message.content or "")

    def test_batch(self):
        answers = litellm.batch_completion(messages=[QUESTION] * 5, **settings())
        texts = {answer.choices[0].message.content for answer in answers}
        self.assertEqual(len(texts), 1)

    def test_errors(self):
        with self.assertRaises(litellm.NotFoundError):
            chat(model="openai/nobody")
        with self.assertRaises(litellm.AuthenticationError):
            chat(api_key="wrong")
        with self.assertRaises(litellm.BadRequestError):
            chat(temperature=9)
        with self.assertRaises(litellm.ContextWindowExceededError):
            litellm.completion(messages=[{"role": "user", "content": "word " * 20000}], **settings())


class Formed(unittest.TestCase):
    def setUp(self):
        try:
            chat(extra_body=ANY_FORM)
        except litellm.BadRequestError:
            self.skipTest("this build has no XGrammar")

    def test_structured_output(self):
        for provider in PROVIDERS:
            answer = chat(provider, response_format=Answer, max_tokens=FORMED_TOKENS, **DRAWN)
            Answer.model_validate_json(answer.choices[0].message.content)

    def test_tools(self):
        for provider in PROVIDERS:
            answer = chat(provider, tools=[TOOL], tool_choice="required", max_tokens=FORMED_TOKENS,
                          parallel_tool_calls=False, **DRAWN)
            call = answer.choices[0].message.tool_calls[0]
            self.assertEqual(call.function.name, "get_weather")
            self.assertIn(json.loads(call.function.arguments)["city"], CITIES)


    def test_streamed_tools(self):
        chunks = list(chat(stream=True, tools=[TOOL], max_tokens=FORMED_TOKENS, **DRAWN,
                           tool_choice={"type": "function", "function": {"name": "get_weather"}}))
        call = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        self.assertIn(json.loads(call.function.arguments)["city"], CITIES)


class Others(unittest.TestCase):
    def test_responses(self):
        # LiteLLM asks for 16 tokens at least, as OpenAI does.
        asked = {"model": f"openai/{MODEL}", "input": "Say something.", "api_base": BASE_URL,
                 "api_key": API_KEY, "max_output_tokens": 16, "temperature": 0}
        whole = litellm.responses(**asked)
        text = whole.output[-1].content[0].text
        self.assertEqual(text, chat(max_tokens=16).choices[0].message.content or "")
        events = list(litellm.responses(**asked, stream=True))
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        self.assertEqual("".join(pieces), text)

    def test_completions(self):
        parameters = {**settings(), "model": f"text-completion-openai/{MODEL}"}
        whole = litellm.text_completion(prompt="Once upon", **parameters)
        chunks = litellm.text_completion(prompt="Once upon", stream=True, **parameters)
        self.assertEqual("".join(chunk.choices[0].text or "" for chunk in chunks),
                         whole.choices[0].text)

    def test_embeddings(self):
        for provider in PROVIDERS:
            answer = litellm.embedding(model=f"{provider}/{MODEL}", input=["Once upon", "a time"],
                                       api_base=BASE_URL, api_key=API_KEY)
            lengths = [sum(x * x for x in one["embedding"]) for one in answer.data]
            for length in lengths:
                self.assertAlmostEqual(length, 1, places=3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
