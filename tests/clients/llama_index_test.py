#!/usr/bin/env python3
"""LlamaIndex, by llama-index-llms-openai-like: completions, chats, streams, typed answers, tools."""

import unittest
from typing import Literal

from served import (ANY_FORM, API_KEY, BASE_URL, CITIES, DRAWN, FORMED_TOKENS, MODEL,
                    PATIENCE_SECONDS, SIZES, need)

need("llama_index.llms.openai_like")

import openai  # noqa: E402
import pydantic  # noqa: E402
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

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            model(model="nobody").complete("x")


def drawing_model(**parameters):
    return model(max_tokens=FORMED_TOKENS, temperature=DRAWN["temperature"],
                 additional_kwargs={"seed": DRAWN["seed"]}, **parameters)


class Formed(unittest.TestCase):
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

    def test_tools(self):
        tool = FunctionTool.from_defaults(get_weather)
        llm = drawing_model()
        answer = llm.chat_with_tools([tool], user_msg="How is it in Bonn?", tool_required=True)
        calls = llm.get_tool_calls_from_response(answer)
        self.assertEqual(calls[0].tool_name, "get_weather")
        self.assertIn(tool(**calls[0].tool_kwargs).content, [f"sunny in {c}" for c in CITIES])


if __name__ == "__main__":
    unittest.main(verbosity=2)
