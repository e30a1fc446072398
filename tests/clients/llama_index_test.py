#!/usr/bin/env python3
"""LlamaIndex, by llama-index-llms-openai-like: completions, chats, streams, batches, typed
answers, tools."""

import asyncio
import unittest
from typing import Literal

from served import (ANY_FORM, API_KEY, BASE_URL, CITIES, DRAWN, FORMED_TOKENS, MODEL,
                    PATIENCE_SECONDS, SIZES, need)

need("llama_index.llms.openai_like")

import httpx  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
from llama_index.core.async_utils import batch_gather, run_jobs  # noqa: E402
from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402
from llama_index.llms.openai_like import OpenAILike  # noqa: E402

MESSAGES = [ChatMessage(role="system", content="Be brief."),
            ChatMessage(role="user", content="Say something.")]


class Answer(pydantic.BaseModel):
    """What was asked for."""
    size: Literal[SIZES]
    hot: bool


def get_weather(city: Literal[CITIES]) -> str:
    """The weather of a city"""
    return f"sunny in {city}"


def model(**parameters):
    return OpenAILike(**{"model": MODEL, "api_base": BASE_URL, "api_key": API_KEY,
                         "is_chat_model": True, "is_function_calling_model": True,
                         "max_retries": 0, "timeout": PATIENCE_SECONDS, "temperature": 0,
                         "max_tokens": 12, "context_window": 1024, **parameters})


class Plain(unittest.IsolatedAsyncioTestCase):
    def test_chat(self):
        whole = model().chat(MESSAGES).message.content
        *_, last = model().stream_chat(MESSAGES)
        self.assertEqual(last.message.content, whole)

    def test_complete(self):
        for chats in (True, False):
            llm = model(is_chat_model=chats)
            whole = llm.complete("Once upon").text
            pieces = "".join(piece.delta or "" for piece in llm.stream_complete("Once upon"))
            self.assertEqual(pieces, whole)

    async def test_async(self):
        whole = (await model().achat(MESSAGES)).message.content
        pieces = [piece.delta or "" async for piece in await model().astream_chat(MESSAGES)]
        self.assertEqual("".join(pieces), whole)
        self.assertEqual((await model().acomplete("x")).text, model().complete("x").text)

    async def test_batches(self):
        """LlamaIndex' ways to ask for many answers at once: each is the one that it is alone."""
        prompts = [f"Once upon {count} times" for count in range(12)]
        alone = [model().complete(prompt).text for prompt in prompts]
        chats = [[ChatMessage(role="user", content=prompt)] for prompt in prompts]
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as connections:
            llm = model(async_http_client=connections)
            for together in (run_jobs([llm.acomplete(prompt) for prompt in prompts], workers=6),
                             batch_gather([llm.acomplete(prompt) for prompt in prompts], 5)):
                self.assertEqual([answer.text for answer in await together], alone)
            answers = await run_jobs([llm.achat(chat) for chat in chats], workers=len(chats))
        self.assertEqual([answer.message.content for answer in answers],
                         [model().chat(chat).message.content for chat in chats])

    async def test_a_batch_with_an_error(self):
        """That of one is not that of others."""
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as connections:
            llm = model(async_http_client=connections)
            lost = model(model="nobody", async_http_client=connections)
            asked = [llm.acomplete("x"), lost.acomplete("x"), llm.acomplete("y")]
            first, failed, last = await asyncio.gather(*asked, return_exceptions=True)
        self.assertIsInstance(failed, openai.NotFoundError)
        self.assertEqual([first.text, last.text],
                         [model().complete("x").text, model().complete("y").text])

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            model(model="nobody").complete("x")


def drawing_model(**parameters):
    return model(max_tokens=FORMED_TOKENS, temperature=DRAWN["temperature"],
                 additional_kwargs={"seed": DRAWN["seed"]}, **parameters)


class Formed(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        try:
            model().complete("x", extra_body=ANY_FORM)
        except openai.BadRequestError:
            self.skipTest("this build has no XGrammar")

    def test_structured_output(self):
        for own in (True, False):  # by response_format, or as a call
            llm = drawing_model(should_use_structured_outputs=own)
            answer = llm.as_structured_llm(Answer).chat(MESSAGES)
            self.assertIsInstance(answer.raw, Answer)

    async def test_structured_output_in_batches(self):
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as connections:
            llm = drawing_model(should_use_structured_outputs=True, async_http_client=connections)
            formed = llm.as_structured_llm(Answer)
            answers = await run_jobs([formed.achat(MESSAGES) for _ in range(4)], workers=4)
        for answer in answers:
            self.assertIsInstance(answer.raw, Answer)

    def test_tools(self):
        tool = FunctionTool.from_defaults(get_weather)
        llm = drawing_model()
        answer = llm.chat_with_tools([tool], user_msg="How is it in Bonn?", tool_required=True)
        calls = llm.get_tool_calls_from_response(answer)
        self.assertEqual(calls[0].tool_name, "get_weather")
        self.assertIn(tool(**calls[0].tool_kwargs).content, [f"sunny in {c}" for c in CITIES])


if __name__ == "__main__":
    unittest.main(verbosity=2)
